"""Answers that contradict themselves, their block or their root are refused whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from chains.answers import decode
from chains.catalog import load_catalogue
from chains.errors import AnswerRefused, NodeBehind
from chains.evm import checks, roots, words
from chains.evm.listed import listed_on
from chains.evm.wire import BlockHeader, FullBlock, Receipt
from schemas.caip import ChainName
from tests.parts.chain_data import chain_file
from tests.parts.evm_answers import (
    BLOCK_HASH,
    NOBODY,
    PAY,
    TX,
    USDC,
    USDT,
    log,
    receipt,
    transaction,
    word,
)


def block_of(*receipts: Receipt, bridge: int = 0) -> FullBlock:
    """Make a block whose root fits; the last `bridge` receipts have no transaction in it."""
    count = len(receipts) - bridge
    root = roots.receipts_root(receipts[:count] if bridge else receipts)
    return FullBlock(
        hash=BLOCK_HASH,
        parent_hash=word(1),
        number="0x2",
        timestamp="0x3",
        receipts_root=f"0x{root.hex()}",
        transactions=[transaction(hash=one.transaction_hash) for one in receipts[:count]],
    )


FIRST = receipt(log(amount=1))
SECOND = receipt(log(amount=2), transaction_hash=word(2))
BRIDGE = receipt(transaction_hash=word(3), from_=NOBODY, to=NOBODY)


def test_receipts_are_paired_in_the_blocks_order():
    block = block_of(FIRST, SECOND)
    assert checks.paired_receipts(block, [FIRST, SECOND], "standard") == [FIRST, SECOND]
    assert checks.paired_receipts(block, [SECOND, FIRST, FIRST], "standard") == [FIRST, SECOND]


#: receipts, what they are
REFUSED = [
    ([FIRST], NodeBehind),
    ([], NodeBehind),
    ([FIRST, None], NodeBehind),
    ([FIRST, replace(SECOND, block_hash=word(9))], AnswerRefused),
    ([FIRST, replace(SECOND, block_hash=None)], AnswerRefused),
    ([FIRST, SECOND, replace(SECOND, status="0x0")], AnswerRefused),
    ([FIRST, replace(SECOND, logs=[])], AnswerRefused),
    ([FIRST, replace(SECOND, status="0x0")], AnswerRefused),
    ([FIRST, replace(SECOND, logs=[log(amount=3)])], AnswerRefused),
    ([FIRST, SECOND, BRIDGE], AnswerRefused),
]


@pytest.mark.parametrize(("receipts", "kind"), REFUSED)
def test_receipts_that_do_not_fit_are_refused_or_waited_for(receipts, kind):
    with pytest.raises(kind):
        checks.paired_receipts(block_of(FIRST, SECOND), receipts, "standard")


def test_a_bridge_receipt_may_stand_beside_the_root_or_under_it():
    rule = "without_bridge_receipts"
    beside = block_of(FIRST, SECOND, BRIDGE, bridge=1)
    assert checks.paired_receipts(beside, [FIRST, SECOND, BRIDGE], rule) == [FIRST, SECOND]
    under = block_of(FIRST, SECOND, BRIDGE)
    assert checks.paired_receipts(under, [FIRST, SECOND, BRIDGE], rule) == [FIRST, SECOND, BRIDGE]
    with pytest.raises(AnswerRefused):
        checks.paired_receipts(beside, [FIRST, SECOND, replace(BRIDGE, from_=PAY)], rule)


def test_a_block_without_a_root_is_believed_only_where_the_chain_has_none():
    block = replace(block_of(FIRST), receipts_root=None)
    with pytest.raises(AnswerRefused):
        checks.paired_receipts(block, [FIRST], "standard")
    assert checks.paired_receipts(block, [FIRST], "none") == [FIRST]


def test_identical_copies_of_a_log_collapse_and_conflicts_refuse():
    """CH-R08, CH-G03."""
    other = log(log_index="0x1")
    assert checks.block_logs([other, log(), log(), other], BLOCK_HASH) == [log(), other]
    same = log(address=USDT.upper(), block_hash=BLOCK_HASH.upper().replace("0X", "0x"))
    assert checks.block_logs([log(), same], BLOCK_HASH) == [log()]
    for wrong in (
        log(amount=9),
        log(transaction_hash=word(5)),
        log(block_hash=word(9)),
        log(block_hash=None),
        log(log_index=None),
        log(transaction_hash=None),
    ):
        with pytest.raises(AnswerRefused):
            checks.block_logs([log(), wrong], BLOCK_HASH)


def test_a_hit_is_found_again_in_its_own_receipt_or_refused():
    checks.require_found_again([log()], FIRST)
    for hit in (log(amount=7), log(log_index="0x5"), log(address=USDC)):
        with pytest.raises(AnswerRefused, match="not in its receipt"):
            checks.require_found_again([hit], FIRST)


def test_a_bloom_that_promises_a_transfer_makes_silence_suspicious():
    listed = listed_on(ChainName("eip155:1"), load_catalogue())
    bloom = f"0x{roots.bloom_of([log()]).to_bytes(256, 'big').hex()}"
    header = BlockHeader(
        hash=BLOCK_HASH, parent_hash=word(1), number="0x1", timestamp="0x1", logs_bloom=bloom
    )
    assert checks.silent_contracts(header, [], listed) == [USDT]
    assert checks.silent_contracts(header, [log()], listed) == []
    empty = replace(header, logs_bloom=f"0x{'0' * 512}")
    assert checks.silent_contracts(empty, [], listed) == []
    unknown = replace(header, logs_bloom=None)
    assert set(checks.silent_contracts(unknown, [], listed)) == {USDT, USDC}


def answer_of(**changes: Any) -> BlockHeader:
    fields = {"hash": BLOCK_HASH, "parent_hash": word(1), "number": "0x1", "timestamp": "0x1"}
    return BlockHeader(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"hash": None}, NodeBehind),
        ({"number": None}, NodeBehind),
        ({"hash": "0x12"}, AnswerRefused),
        ({"number": "12"}, AnswerRefused),
        ({"number": "0x1_0"}, AnswerRefused),
        ({"timestamp": "0xffffffffffff"}, AnswerRefused),
    ],
)
def test_a_header_that_is_none_is_refused(changes, kind):
    with pytest.raises(kind):
        checks.header_of(answer_of(**changes))


@pytest.mark.parametrize("length", [0, 32, 97, 278])
def test_extra_data_of_any_length_is_read(length):
    """CH-R07."""
    body = {
        "hash": BLOCK_HASH,
        "parentHash": word(1),
        "number": "0x1",
        "timestamp": "0x1",
        "extraData": f"0x{'ab' * length}",
        "surprise": {"new": ["field"]},
        "transactions": [{"hash": TX, "from": PAY, "type": "0x7f", "other": 1}],
    }
    assert checks.header_of(decode(json.dumps(body).encode(), FullBlock)).height == 1


# --- the header's own hash -----------------------------------------------------------------------


def real_header() -> dict[str, str | None]:
    block = json.loads(chain_file("ethereum/block-17053184.json").read_bytes())["block"]
    return {name: value if isinstance(value, str) else None for name, value in block.items()}


def test_a_header_whose_fields_are_all_known_proves_itself_or_lies():
    fields = real_header()
    own = str(fields["hash"])
    assert checks.require_own_hash(fields, own, always=True)
    lied = {**fields, "receiptsRoot": word(1)}
    assert not checks.require_own_hash(lied, own, always=False)
    with pytest.raises(AnswerRefused, match="its fields hash to"):
        checks.require_own_hash(lied, own, always=True)
    less = {name: value for name, value in fields.items() if name != "nonce"}
    with pytest.raises(AnswerRefused):
        checks.require_own_hash(less, own, always=True)


def test_a_header_of_a_fork_that_we_do_not_know_proves_nothing_and_stops_nothing():
    fields = {**real_header(), "blockAccessListHash": word(1), "gasUsed": "0x1"}
    assert not checks.require_own_hash(fields, str(fields["hash"]), always=True)


# --- receipts of other types ---------------------------------------------------------------------


def test_a_deposit_receipt_carries_nonce_and_version_only_since_they_are_under_the_root():
    plain = receipt(type="0x7e", deposit_nonce="0x5")
    assert roots.encode_receipt(plain) == roots.encode_receipt(replace(plain, deposit_nonce=None))
    versioned = replace(plain, deposit_receipt_version="0x1")
    assert roots.encode_receipt(versioned) != roots.encode_receipt(plain)
    assert roots.encode_receipt(versioned)[0] == 0x7E
    assert roots.encode_receipt(versioned)[-2:] == b"\x05\x01"


@pytest.mark.parametrize("kind", ["0x1", "0x2", "0x3", "0x4", "0x64", "0x6a", "0x7f"])
def test_any_type_is_a_byte_before_the_usual_fields(kind):
    legacy = roots.encode_receipt(receipt(log()))
    assert roots.encode_receipt(receipt(log(), type=kind)) == bytes([int(kind, 16)]) + legacy
    assert roots.encode_receipt(receipt(log(), type="0x0")) == legacy


def test_a_hidden_log_cannot_hide_behind_the_answers_own_bloom():
    """The bloom is made from the logs; what the answer says about it is not read."""
    lied = receipt(logs_bloom=f"0x{'0' * 512}")
    assert roots.encode_receipt(lied) == roots.encode_receipt(receipt())


# --- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "0x", "12", "0xg", "0x1_0", "0x 1", "-0x1", "0x-1", "0x1\n", "0x٣"]
)
def test_what_is_no_hex_number_is_refused(text):
    with pytest.raises(AnswerRefused):
        words.integer(text)


@pytest.mark.parametrize("text", ["", "12", "0x1", "0xgg", "0x 12", "0x12 ", "0x1\n2"])
def test_what_is_no_hex_bytes_is_refused(text):
    with pytest.raises(AnswerRefused):
        words.raw(text)


def test_a_hash_has_one_form():
    assert words.hash_text("0X" + "AB" * 32) == "0x" + "ab" * 32
    with pytest.raises(AnswerRefused):
        words.hash_text("0xab")
