"""What a block spends is told when it is asked for, and bounded where it is written into a message."""

from chains.utxo.block import read_block
from chains.utxo.spent import SPENDS_MAX
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
