"""One transaction by itself: its id is hashed here, whatever stands where no id looks."""

from __future__ import annotations

import pytest

from chains.errors import AnswerRefused
from chains.utxo.block import read_block
from chains.utxo.loose import TRANSACTION_BYTES_MAX, read_loose
from chains.utxo.rules import BITCOIN, DOGECOIN, LITECOIN
from tests.parts.chain_data import chain_file
from tests.parts.utxo_blocks import P2PKH, P2TR, P2WPKH, Everything, outpoint, pay
from tests.parts.utxo_reference import read_reference


@pytest.mark.parametrize("witness", [False, True])
def test_its_id_outputs_and_inputs_are_those_of_its_bytes(witness):
    tx = pay(outpoint(1), outpoint(2, 7), to=[(5, P2PKH), (0, P2TR), (9, P2PKH)], witness=witness)
    found = read_loose(tx.full(), BITCOIN)
    assert found.txid == tx.txid()[::-1].hex()
    assert [(one.index, one.amount, one.script) for one in found.pays] == [
        (0, 5, P2PKH),
        (1, 0, P2TR),
        (2, 9, P2PKH),
    ]
    assert found.spends == [
        f"{outpoint(1)[:32][::-1].hex()}:0",
        f"{outpoint(2)[:32][::-1].hex()}:7",
    ]
    assert all(one.spends == tuple(found.spends) and not one.coinbase for one in found.pays)


def test_extension_data_that_waits_with_a_transaction_changes_neither_its_id_nor_its_outputs():
    """Litecoin's peg-ins wait with the data of their extension block, which no id covers."""
    tx = pay(outpoint(1), to=[(5, P2WPKH)])
    stripped = tx.full()
    marked = stripped[:4] + b"\x00\x08" + stripped[4:-4] + b"\x01" + b"\xab" * 500 + stripped[-4:]
    assert read_loose(marked, LITECOIN) == read_loose(stripped, LITECOIN)


def test_what_lives_in_the_extension_block_alone_is_refused():
    with pytest.raises(AnswerRefused):
        read_loose(b"\x02\0\0\0\x00\x08\x00\x00\x01" + b"\xab" * 100 + bytes(4), LITECOIN)


@pytest.mark.parametrize("witness", [False, True])
def test_every_cut_is_refused_or_is_another_transaction(witness):
    tx = pay(outpoint(1), to=[(5, P2PKH)], witness=witness)
    data = tx.full()
    for length in range(len(data)):
        try:
            found = read_loose(data[:length], BITCOIN)
        except AnswerRefused:
            continue
        assert found.txid != tx.txid()[::-1].hex()


def test_amounts_that_cannot_be_are_refused():
    tx = pay(outpoint(1), to=[(BITCOIN.money_max, P2PKH), (1, P2PKH)])
    with pytest.raises(AnswerRefused, match="pays 2100000000000001"):
        read_loose(tx.full(), BITCOIN)
    with pytest.raises(AnswerRefused, match="at most"):
        read_loose(bytes(TRANSACTION_BYTES_MAX + 1), BITCOIN)
    with pytest.raises(AnswerRefused, match="to 0 outputs"):
        read_loose(pay(outpoint(1), to=[]).full(), BITCOIN)


@pytest.mark.parametrize(
    ("chain", "name", "rules", "merged"),
    [
        ("bitcoin", "block-481829.bin", BITCOIN, False),
        ("litecoin", "block-2265985.bin", LITECOIN, False),
        ("dogecoin", "block-371337.bin", DOGECOIN, True),
    ],
)
def test_real_transactions_read_one_by_one_are_those_of_their_block(chain, name, rules, merged):
    data = chain_file(f"{chain}/{name}").read_bytes()
    whole = read_block(data, rules, Everything())
    read = [read_loose(tx.full(), rules) for tx in read_reference(data, merged=merged).txs]
    assert [one.txid for one in read] == [txid[::-1].hex() for txid in whole.txids]
    assert [paid.script for one in read for paid in one.pays] == [one.script for one in whole.paid]
    assert sum(paid.amount for one in read for paid in one.pays) == whole.amount
