"""Cases CH-F06, B02, B03, B04, B05 and B07 on raw blocks: what the reader gives of them."""

from __future__ import annotations

import pytest

from chains.errors import AnswerRefused
from chains.utxo.address import parse
from chains.utxo.block import read_block
from chains.utxo.networks import BITCOIN
from chains.utxo.node_block import satoshi_of
from chains.utxo.rules import BITCOIN as RULES
from tests.parts.utxo_blocks import (
    EASY_BITCOIN,
    P2PKH,
    P2WPKH,
    Everything,
    block_of,
    coinbase,
    outpoint,
    pay,
)

#: A coin of an overlay protocol written into an output that holds nothing (Omni, Runes).
OVERLAY = bytes.fromhex("6a146f6d6e69000000000000001f00000000aa8c2e40")


def test_f06_an_overlay_s_output_is_no_transfer_and_stops_nobody() -> None:
    moved = pay(outpoint(1), to=[(0, OVERLAY), (546, P2PKH)])
    found = read_block(block_of([coinbase(300), moved]), EASY_BITCOIN, {P2PKH})
    assert [(one.index, one.amount) for one in found.paid if not one.coinbase] == [(1, 546)]


@pytest.mark.parametrize(
    ("text", "satoshi"),
    [(b"0.29", 29_000_000), (b"0.00052", 52_000), (b"0.00102412", 102_412), (b"1.13", 113_000_000)],
)
def test_b02_a_node_s_amounts_become_satoshi_without_a_float(text: bytes, satoshi: int) -> None:
    assert satoshi_of(text, RULES) == satoshi
    with pytest.raises(AnswerRefused):
        satoshi_of(text + b"0000000001", RULES)


def test_b03_what_a_miner_makes_is_marked() -> None:
    honest = pay(outpoint(1), to=[(7, P2PKH)])
    found = read_block(block_of([coinbase(300), honest]), EASY_BITCOIN, {P2PKH})
    assert [(one.amount, one.coinbase) for one in found.paid] == [(5_000_000_000, True), (7, False)]


def test_b04_two_outputs_to_one_script_are_two_transfers() -> None:
    twice = pay(outpoint(1), to=[(5, P2WPKH), (9, P2PKH), (5, P2WPKH)])
    found = read_block(block_of([coinbase(300), twice]), EASY_BITCOIN, {P2WPKH})
    assert [(one.index, one.amount) for one in found.paid] == [(0, 5), (2, 5)]


def test_b05_the_same_transaction_in_two_blocks_is_read_in_both() -> None:
    """Coinbases of 2010 had nothing in them that made them different: the id is the same, twice."""
    first, again = (
        read_block(block_of([coinbase(300), *rest]), EASY_BITCOIN, Everything())
        for rest in ([], [pay(outpoint(1), to=[(7, P2PKH)])])
    )
    assert first.txids[0] == again.txids[0]
    assert first.header.hash != again.header.hash
    assert first.paid[0] == again.paid[0]


def test_b07_a_taproot_output_is_found_by_the_bytes_of_its_script() -> None:
    address = parse(BITCOIN, "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr")
    paid = pay(outpoint(1), to=[(11, address.raw), (12, address.raw[:-1])], witness=True)
    found = read_block(block_of([coinbase(300), paid]), EASY_BITCOIN, {address.raw})
    assert [(one.index, one.amount) for one in found.paid] == [(0, 11)]
