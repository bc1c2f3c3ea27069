"""Blocks that are none: whoever gives one is not believed, whatever is wrong with it."""

import struct

import pytest
from msgspec.structs import replace

from chains.errors import AnswerRefused
from chains.utxo.block import BLOCK_BYTES_MAX, read_block
from chains.utxo.rules import BITCOIN, BlockRules
from tests.parts.utxo_blocks import (
    EASY_BITCOIN,
    EASY_DOGECOIN,
    EASY_LITECOIN,
    HOG_ADDRESS,
    NOTHING,
    P2PKH,
    P2WPKH,
    Everything,
    block_of,
    coinbase,
    extension,
    header_over,
    made_blocks,
    outpoint,
    pay,
    work_on,
)
from tests.parts.utxo_reference import In, Out, Tx, number, root_of, twice

MADE = made_blocks()


def refused(data: bytes, rules: BlockRules, words: str | None = None) -> None:
    with pytest.raises(AnswerRefused, match=words):
        read_block(data, rules, Everything())


def of_body(body: bytes, root: bytes) -> bytes:
    return work_on(header_over(root)) + body


@pytest.mark.parametrize(("rules", "data"), MADE)
def test_a_block_cut_off_anywhere_is_refused(rules, data):
    for end in range(0, len(data), 1 if len(data) < 4_000 else 37):
        refused(data[:end], rules)
    for less in (1, 2, 3):
        refused(data[:-less], rules, "is cut off")


@pytest.mark.parametrize(("rules", "data"), MADE)
def test_bytes_behind_the_end_are_refused(rules, data):
    refused(data + b"\0", rules, "1 bytes follow")
    refused(data + data, rules, "bytes follow")


def test_more_bytes_than_a_node_reads_are_refused_unread():
    refused(bytes(BLOCK_BYTES_MAX + 1), EASY_BITCOIN, "at most")


@pytest.mark.parametrize("count", [0, 2, 252, 253, 2**16, 2**32, 2**64 - 1])
def test_a_count_of_transactions_that_does_not_fit_is_refused(count):
    one = coinbase(300)
    body = number(count) + one.full()
    refused(of_body(body, one.txid()), EASY_BITCOIN)


@pytest.mark.parametrize("what", ["inputs", "outputs", "script", "lock script"])
@pytest.mark.parametrize("count", [200, 0xFFFF, 2**31, 2**64 - 1])
def test_counts_and_lengths_beyond_the_bytes_are_refused(what, count):
    whole = pay(outpoint(1), to=[(1, b"")]).full()
    at = {"inputs": 4, "script": 41, "outputs": 117, "lock script": 126}[what]
    assert whole[at] in {0, 1, 71}
    spoilt = whole[:at] + number(count) + whole[at + 1 :]
    body = number(2) + coinbase(300).full() + spoilt
    refused(of_body(body, bytes(32)), EASY_BITCOIN)


@pytest.mark.parametrize("wide", [b"\xfd\x01\x00", b"\xfe\x01\x00\x00\x00", b"\xff\x01" + bytes(7)])
def test_a_count_written_longer_than_it_must_be_is_refused(wide):
    one = coinbase(300)
    refused(of_body(wide + one.full(), one.txid()), EASY_BITCOIN, "longer than it must")
    whole = one.full()
    longer = whole[:4] + wide + whole[5:]
    refused(of_body(b"\x01" + longer, twice(longer)), EASY_BITCOIN, "longer than it must")


@pytest.mark.parametrize(
    "amounts", [[21_000_000 * 10**8 + 1], [2**64 - 1], [21_000_000 * 10**8, 1]]
)
def test_more_money_than_there_is_is_refused(amounts):
    one = pay(outpoint(1), to=[(amount, P2PKH) for amount in amounts])
    refused(block_of([coinbase(300), one]), EASY_BITCOIN, "pays")


def test_all_money_there_is_may_move_in_each_of_two_transactions():
    most = EASY_BITCOIN.money_max
    txs = [coinbase(300), *(pay(outpoint(n), to=[(most, P2PKH)]) for n in (1, 2))]
    found = read_block(block_of(txs), EASY_BITCOIN, Everything())
    assert found.amount == 2 * most + 5_000_000_000


def test_transactions_that_pay_nobody_or_spend_nothing_are_refused():
    refused(block_of([coinbase(300), pay(outpoint(1), to=[])]), EASY_BITCOIN, "0 outputs")
    nothing = struct.pack("<i", 2) + b"\x00\x00" + bytes(4)
    body = number(2) + coinbase(300).full() + nothing + bytes(60)
    refused(of_body(body, bytes(32)), EASY_BITCOIN, "begins no inputs")
    marked = (
        struct.pack("<i", 2) + b"\x00\x01\x00\x01" + struct.pack("<Q", 5) + b"\x00\x00" + bytes(4)
    )
    body = number(2) + coinbase(300).full() + marked + bytes(60)
    refused(of_body(body, bytes(32)), EASY_BITCOIN, "inputs")


def test_another_root_is_refused():
    data = MADE[1][1]
    other = work_on(header_over(twice(b"another"))) + data[80:]
    refused(other, EASY_BITCOIN, "do not hash to its root")


@pytest.mark.parametrize(("honest", "again"), [(3, 1), (6, 2), (5, 1), (7, 1)])
def test_a_tail_said_twice_under_the_same_root_is_refused(honest, again):
    """CVE-2012-2459: with an odd count somewhere in the tree the root does not tell the two apart."""
    txs = [coinbase(300), *(pay(outpoint(n), to=[(n, P2PKH)]) for n in range(1, honest))]
    longer = [*txs, *txs[-again:]]
    same = root_of([tx.txid() for tx in txs]) == root_of([tx.txid() for tx in longer])
    assert same == (honest in {3, 5, 6, 7})
    assert len(read_block(block_of(txs), EASY_BITCOIN, Everything()).txids) == honest
    refused(block_of(longer), EASY_BITCOIN, "twice side by side")


def test_a_row_of_the_tree_is_no_list_of_transactions():
    """Two hashes side by side are 64 bytes, and may be read as a transaction that nobody made."""
    inner = pay(outpoint(9), to=[(3, b"\x51" * 4)])
    inner.inputs[0].script = b""
    assert len(inner.full()) == 64
    first = Tx(inner.version, [In(outpoint(8), b"", b"\xff" * 4)], [Out(1, b"\x51" * 4)], bytes(4))
    rows = [first.full(), inner.full()]
    assert [len(row) for row in rows] == [64, 64]
    body = number(2) + b"".join(rows)
    root = root_of([half for row in rows for half in (row[:32], row[32:])])
    assert root == root_of([twice(row) for row in rows])
    refused(of_body(body, root), EASY_BITCOIN, "should make coins")


def test_an_honest_transaction_of_64_bytes_stops_nobody():
    small = pay(outpoint(9), to=[(3, b"\x51" * 4)])
    small.inputs[0].script = b""
    found = read_block(block_of([coinbase(300), small]), EASY_BITCOIN, {b"\x51" * 4})
    assert [(one.txid, one.amount) for one in found.paid] == [(small.txid()[::-1].hex(), 3)]


def test_coins_are_made_by_the_first_transaction_alone():
    spender = pay(outpoint(1), to=[(1, P2PKH)])
    refused(block_of([spender]), EASY_BITCOIN, "0 should make coins")
    refused(block_of([coinbase(300), coinbase(301)]), EASY_BITCOIN, "1 makes coins")
    both = pay(NOTHING, outpoint(2), to=[(1, P2PKH)])
    refused(block_of([both]), EASY_BITCOIN, "0 should make coins")


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x1D00FFFF, "work is"),
        (0, "no target"),
        (0x20FFFFFF, "no target"),
        (0x04800001, "no target"),
        (0x2100FFFF, "no target"),
        (0xFF7FFFFF, "no target"),
        (0x01003456, "no target"),
    ],
)
def test_work_is_held_against_a_target_that_the_chain_allows(bits, words):
    one = coinbase(300)
    header = header_over(one.txid(), bits=bits)
    refused(header + b"\x01" + one.full(), EASY_BITCOIN, words)


def test_work_of_a_test_network_is_none_on_the_main_one():
    refused(MADE[0][1], BITCOIN, "no target of bitcoin")


@pytest.mark.parametrize("flags", [0x02, 0x08, 0x09, 0x81, 0xFF])
def test_marks_that_the_chain_does_not_know_are_refused(flags):
    one = pay(outpoint(1), to=[(1, P2PKH)], witness=True)
    one.flags = flags
    refused(block_of([coinbase(300), one]), EASY_BITCOIN, "none of bitcoin")


def test_a_chain_without_witnesses_has_none():
    one = pay(outpoint(1), to=[(1, P2PKH)], witness=True)
    refused(block_of([coinbase(300), one], version=1), EASY_DOGECOIN, "none of dogecoin")


def test_a_mark_for_witnesses_without_any_is_refused():
    one = pay(outpoint(1), outpoint(2), to=[(1, P2PKH)], witness=True)
    for spent in one.inputs:
        spent.witness = []
    refused(block_of([coinbase(300), one]), EASY_BITCOIN, "expected witnesses")


def hog(*to: tuple[int, bytes]) -> Tx:
    made = pay(outpoint(6), to=list(to), flags=8)
    made.inputs[0].script = b""
    return made


def test_what_is_pegged_out_is_an_ordinary_output_of_the_last_transaction():
    last = hog((50, HOG_ADDRESS), (7, P2WPKH))
    data = block_of([coinbase(300), last], after=extension())
    found = read_block(data, EASY_LITECOIN, {P2WPKH})
    assert [(one.txid, one.index, one.amount) for one in found.paid] == [
        (last.txid()[::-1].hex(), 1, 7)
    ]
    assert found.extension_bytes == len(extension())


def test_the_mark_of_the_last_transaction_hides_no_output():
    """No hash covers the mark: set on a payment, it would make bytes behind it look like a block's."""
    payment = hog((50, P2WPKH))
    refused(block_of([coinbase(300), payment], after=extension()), EASY_LITECOIN, "no extension")
    early = [coinbase(300), hog((1, HOG_ADDRESS)), pay(outpoint(1), to=[(1, P2PKH)])]
    refused(block_of(early, after=extension()), EASY_LITECOIN, "marked as the last")
    unmarked = hog((50, HOG_ADDRESS), (7, P2WPKH))
    unmarked.flags = 0
    found = read_block(block_of([coinbase(300), unmarked]), EASY_LITECOIN, {P2WPKH})
    assert [one.amount for one in found.paid] == [7]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (b"", "cut off"),
        (b"\x00", "expected an extension block"),
        (extension()[:-1], "cut off"),
        (extension() + b"\0", "1 bytes follow"),
        (b"\x01" + b"\xff" * 40, "does not end"),
        (b"\x01" + b"\x00" * 163 + b"\xff" * 9, "counts"),
    ],
)
def test_an_extension_block_is_walked_to_its_end(after, words):
    data = block_of([coinbase(300), hog((50, HOG_ADDRESS))], after=after)
    refused(data, EASY_LITECOIN, words)


def test_features_of_an_extension_block_that_nobody_knows_yet_stop_no_chain():
    """Nodes take them, and every miner may set them: they add no bytes."""
    plain = extension()
    later = plain[: -(1 + 33 + 64)] + b"\xc0" + plain[-(33 + 64) :]
    assert later != plain
    last = hog((50, HOG_ADDRESS), (7, P2WPKH))
    found = read_block(block_of([coinbase(300), last], after=later), EASY_LITECOIN, {P2WPKH})
    assert [one.amount for one in found.paid] == [7]


def test_the_extension_data_of_a_loose_transaction_stands_in_no_block():
    whole = hog((50, HOG_ADDRESS)).full()
    loose = whole[:-5] + b"\x01" + whole[-4:]
    body = number(2) + coinbase(300).full() + loose + extension()
    refused(of_body(body, bytes(32)), EASY_LITECOIN, "no extension data inside")


def test_a_height_is_read_where_a_coinbase_must_name_it():
    named = replace(EASY_BITCOIN, coinbase_height_from=128)
    heights = {}
    for height in (1, 16, 127, 128, 255, 256, 32_768, 8_388_608):
        heights[height] = read_block(block_of([coinbase(height)]), named, Everything()).height
    assert heights == {height: height if height >= 128 else None for height in heights}
    negative = coinbase(300)
    negative.inputs[0].script = b"\x03\x00\x10\x80/"
    assert read_block(block_of([negative]), named, Everything()).height is None
    old = block_of([coinbase(300)], version=1)
    assert read_block(old, named, Everything()).height is None
