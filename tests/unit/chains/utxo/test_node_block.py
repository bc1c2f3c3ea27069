"""A node's JSON says nothing that its bytes do not prove."""

import json
from typing import Any

import pytest

from chains.errors import AnswerRefused
from chains.utxo.node_block import read_node_block, satoshi_of
from chains.utxo.rules import BITCOIN, DOGECOIN
from tests.parts.utxo_blocks import (
    EASY_BITCOIN,
    EASY_DOGECOIN,
    P2PKH,
    P2TR,
    Everything,
    block_of,
    coinbase,
    outpoint,
    pay,
)
from tests.parts.utxo_reference import Block, Tx, read_reference, twice

TXS = [coinbase(300), pay(outpoint(1), to=[(29_000_000, P2PKH), (1, P2TR)], witness=True)]


def told_of(data: bytes, height: int = 300, *, merged: bool = False) -> dict[str, Any]:
    """Write a block as a node does, its amounts as text that `text_of` makes numbers."""
    block: Block = read_reference(data, merged=merged)
    head = block.header
    return {
        "hash": block_hash(head),
        "height": height,
        "version": int.from_bytes(head[:4], "little"),
        "merkleroot": head[36:68][::-1].hex(),
        "previousblockhash": head[4:36][::-1].hex(),
        "time": int.from_bytes(head[68:72], "little"),
        "bits": head[72:76][::-1].hex(),
        "nonce": int.from_bytes(head[76:], "little"),
        "tx": [told_tx(tx) for tx in block.txs],
    }


def block_hash(head: bytes) -> str:
    return twice(head)[::-1].hex()


def told_tx(tx: Tx) -> dict[str, Any]:
    return {
        "txid": tx.txid()[::-1].hex(),
        "version": int.from_bytes(tx.version, "little"),
        "locktime": int.from_bytes(tx.lock_time, "little"),
        "vin": [
            {"sequence": int.from_bytes(one.sequence, "little")}
            | (
                {"coinbase": one.script.hex()}
                if one.outpoint[:32] == bytes(32)
                else {
                    "txid": one.outpoint[:32][::-1].hex(),
                    "vout": int.from_bytes(one.outpoint[32:], "little"),
                    "scriptSig": {"hex": one.script.hex()},
                }
            )
            for one in tx.inputs
        ],
        "vout": [
            {
                "value": f"@{out.amount // 10**8}.{out.amount % 10**8:08d}@",
                "scriptPubKey": {"hex": out.script.hex()},
            }
            for out in tx.outputs
        ],
        "hex": tx.full().hex(),
    }


def text_of(told: dict[str, Any]) -> bytes:
    return json.dumps(told).replace('"@', "").replace('@"', "").encode()


def test_a_node_s_json_is_the_block():
    found, height = read_node_block(text_of(told_of(block_of(TXS))), EASY_BITCOIN, {P2TR})
    assert (height, found.amount) == (300, 5_029_000_001)
    assert [(one.index, one.amount, one.script) for one in found.paid] == [(1, 1, P2TR)]


def test_a_merge_mined_block_brings_its_parent_s_work():
    block = block_of([coinbase(9)], version=0x0062_0102)
    read = read_reference(block, merged=True)
    told = told_of(block, 9, merged=True)
    with pytest.raises(AnswerRefused):
        read_node_block(text_of(told), EASY_DOGECOIN, Everything())
    before = read.before
    told["auxpow"] = {
        "tx": {"hex": before[: -80 - 4 - 65 - 4 - 65 - 32].hex()},
        "index": 0,
        "merklebranch": [before[at : at + 32][::-1].hex() for at in (-217, -185)],
        "chainmerklebranch": [before[at : at + 32][::-1].hex() for at in (-148, -116)],
        "chainindex": int.from_bytes(before[-84:-80], "little"),
        "parentblock": before[-80:].hex(),
    }
    found, _ = read_node_block(text_of(told), EASY_DOGECOIN, Everything())
    assert found.amount == 5_000_000_000


@pytest.mark.parametrize(
    ("key", "lie", "words"),
    [
        ("hash", "00" * 32, "hashes to"),
        ("height", 301, "height"),
        ("nonce", 2**32, "expected NodeBlock"),
        ("time", 1, None),
        ("bits", "xx", "expected hex"),
        ("merkleroot", "00" * 32, None),
        ("merkleroot", "00", "expected a hash"),
        ("tx", [], "no transactions"),
        ("tx", ["00" * 32], "verbosity 2"),
        ("tx", None, "expected NodeBlock"),
    ],
)
def test_a_header_that_lies_is_refused(key, lie, words):
    told = told_of(block_of(TXS)) | {key: lie}
    with pytest.raises(AnswerRefused, match=words):
        read_node_block(text_of(told), EASY_BITCOIN, Everything())


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tx: tx.update(txid="00" * 32), "ids that are told"),
        (lambda tx: tx["vout"][0].update(value="@0.28999999@"), None),
        (lambda tx: tx["vout"][0].update(value="@0.290000001@"), "expected an amount"),
        (lambda tx: tx["vout"][0].update(value="@-0.29@"), "expected an amount"),
        (lambda tx: tx["vout"][0].update(value="0.29"), "expected an amount"),
        (lambda tx: tx["vout"][0]["scriptPubKey"].update(hex=P2TR.hex()), None),
        (lambda tx: tx["vout"].pop(), None),
        (lambda tx: tx["vout"].reverse(), None),
    ],
)
def test_a_transaction_that_lies_is_refused(change, words, bare):
    told = told_of(block_of(TXS))
    change(told["tx"][1])
    if bare:
        for tx in told["tx"]:
            del tx["hex"]
    with pytest.raises(AnswerRefused, match=words):
        read_node_block(text_of(told), EASY_BITCOIN, Everything())


def test_without_hex_every_field_that_the_id_covers_is_needed():
    told = told_of(block_of(TXS))
    for tx in told["tx"]:
        del tx["hex"]
    assert read_node_block(text_of(told), EASY_BITCOIN, Everything())[0].paid
    del told["tx"][1]["vin"][0]["scriptSig"]
    with pytest.raises(AnswerRefused, match="names neither"):
        read_node_block(text_of(told), EASY_BITCOIN, Everything())


@pytest.mark.parametrize(
    ("text", "satoshi"),
    [
        ("0", 0),
        ("0.29", 29_000_000),
        ("1.13", 113_000_000),
        ("0.00102412", 102_412),
        ("50.00000000", 5_000_000_000),
        ("20999999.9769", 2_099_999_997_690_000),
        ("21000000", 2_100_000_000_000_000),
        ("1e-08", 1),
        ("1.5E-7", 15),
        ("2.1e7", 2_100_000_000_000_000),
        ("0.1000000000000", 10_000_000),
    ],
)
def test_decimal_text_becomes_satoshi_without_a_float(text, satoshi):
    assert satoshi_of(text.encode(), BITCOIN) == satoshi


@pytest.mark.parametrize(
    "text",
    ["0.000000001", "1e-9", "21000000.00000001", "-1", "1e99", "NaN", "01", "1.", ".5", '"1"', "null",
     "1" * 500, "1_000", "0x10", "", "1 "],
)  # fmt: skip
def test_what_is_no_amount_of_the_chain_is_refused(text):
    with pytest.raises(AnswerRefused):
        satoshi_of(text.encode(), BITCOIN)


def test_each_chain_has_its_own_limit():
    assert satoshi_of(b"8456400000.5", DOGECOIN) == 845_640_000_050_000_000
