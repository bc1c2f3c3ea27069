"""Spoilt blocks: nothing but a refusal comes, in bounded time, and what is read stands in the bytes.

A million of them: `python -m tests.parts.utxo_fuzz 1000000`.
"""

import random

from chains.utxo.block import read_block
from chains.utxo.node_block import read_node_block
from chains.utxo.rules import BITCOIN, DOGECOIN, LITECOIN
from tests.parts.chain_data import chain_file
from tests.parts.utxo_blocks import Everything, made_blocks
from tests.parts.utxo_fuzz import look_at_text, run, spoil_text


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
