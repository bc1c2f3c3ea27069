"""What a block spends is told when it is asked for, and bounded where it is written into a message."""

from chains.utxo.block import read_block
from chains.utxo.loose import read_loose
from chains.utxo.spent import SPENDS_MAX, spends_max
from tests.parts.utxo_blocks import EASY_BITCOIN, P2TR, block_of, coinbase, outpoint, pay


def test_an_outpoint_names_the_transaction_that_spent_it():
    first, second = (
        pay(outpoint(1, 5), to=[(1, P2TR)]),
        pay(outpoint(2), outpoint(3), to=[(1, P2TR)]),
    )
    found = read_block(block_of([coinbase(300), first, second]), EASY_BITCOIN, {P2TR})
    names = [f"{outpoint(n)[:32][::-1].hex()}:{index}" for n, index in ((1, 5), (2, 0), (3, 0))]
    spenders = [tx.txid()[::-1].hex() for tx in (first, second, second)]
    assert dict(found.spent) == dict(zip(names, spenders, strict=True))
    assert found.spent.get(names[0]) == spenders[0]
    assert found.spent.get("00:1") is None
    assert [one.spends for one in found.paid] == [(names[0],), (names[1], names[2])]


def test_a_transaction_of_thousands_of_inputs_names_the_first_ones():
    many = pay(*(outpoint(n) for n in range(SPENDS_MAX + 5)), to=[(1, P2TR)])
    found = read_block(block_of([coinbase(300), many]), EASY_BITCOIN, {P2TR})
    assert len(found.paid[0].spends) == SPENDS_MAX
    assert len(found.spent) == SPENDS_MAX + 5
    assert set(found.paid[0].spends) < set(found.spent)


def test_all_outputs_of_a_transaction_together_name_a_bounded_number_of_outpoints():
    """A standard transaction of a thousand by a thousand would become 70 MB of messages."""
    many = pay(*(outpoint(n) for n in range(1_000)), to=[(1, P2TR)] * 1_000)
    found = read_block(block_of([coinbase(300), many]), EASY_BITCOIN, {P2TR})
    assert sum(len(one.spends) for one in found.paid) == 20_000
    assert [one.spends for one in read_loose(many.full(), EASY_BITCOIN).pays] == [
        one.spends for one in found.paid
    ]
    assert (spends_max(1), spends_max(200), spends_max(100_000)) == (1_000, 100, 1)
