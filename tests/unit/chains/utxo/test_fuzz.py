"""Spoilt blocks: nothing but a refusal comes, in bounded time, and what is read stands in the bytes.

A million of them: `python -m tests.parts.utxo_fuzz 1000000`.
"""

import random

from chains.errors import AnswerRefused
from chains.utxo.block import read_block
from chains.utxo.loose import read_loose
from chains.utxo.node_block import read_node_block
from chains.utxo.rules import BITCOIN, DOGECOIN, LITECOIN, BlockRules
from tests.parts.chain_data import chain_file
from tests.parts.utxo_blocks import Everything, made_blocks
from tests.parts.utxo_fuzz import look_at_text, run, spoil, spoil_text
from tests.parts.utxo_reference import Source, Unreadable, read_reference, read_tx


def test_spoilt_made_blocks():
    told = run(made_blocks(), 4_000, seed=3)
    assert told.cases == 4_000
    assert 100 < told.read < 3_000
    assert len(told.reasons) > 15


def test_spoilt_real_blocks():
    files = [
        (BITCOIN, "bitcoin/block-169482.bin"),
        (BITCOIN, "bitcoin/block-227836.bin"),
        (LITECOIN, "litecoin/block-2265985.bin"),
        (DOGECOIN, "dogecoin/block-12345.bin"),
        (DOGECOIN, "dogecoin/block-371337.bin"),
        (DOGECOIN, "dogecoin/block-567890.bin"),
    ]
    seeds = [(rules, chain_file(name).read_bytes()) for rules, name in files]
    assert all(read_block(data, rules, Everything()) for rules, data in seeds)
    told = run(seeds, 400, seed=4)
    assert told.cases == 400


def test_a_spoilt_json_says_what_the_honest_one_said_or_nothing():
    text = chain_file("bitcoin/getblock-v2-766390.json").read_bytes()
    honest, _ = read_node_block(text, BITCOIN, Everything())
    lot = random.Random(5)
    read = sum(look_at_text(BITCOIN, spoil_text(text, lot), honest) for _ in range(600))
    assert 50 < read < 550


def test_a_spoilt_transaction_is_refused_or_is_what_a_second_reader_says_too():
    lot = random.Random(6)
    whole = [tx for rules, data in made_blocks() for tx in _transactions(rules, data)]
    read = 0
    for _ in range(20_000):
        rules, honest = lot.choice(whole)
        data = spoil(honest, lot.choice(whole)[1], lot)
        try:
            found = read_loose(data, rules)
        except AnswerRefused:
            continue
        read += 1
        try:
            source = Source(data)
            second = read_tx(source)
            assert not source.rest()
        except (Unreadable, AssertionError):
            continue  # what no id covers was spoilt
        assert found.txid == second.txid()[::-1].hex()
        assert [(one.amount, one.script) for one in found.pays] == [
            (one.amount, one.script) for one in second.outputs
        ]
    assert 2_000 < read < 18_000


def _transactions(rules: BlockRules, data: bytes) -> list[tuple[BlockRules, bytes]]:
    merged = rules.auxpow_chain_id is not None
    return [(rules, tx.full()) for tx in read_reference(data, merged=merged).txs]
