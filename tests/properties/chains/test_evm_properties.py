"""The EVM's pure parts against other people's code and against naive models; noise of nodes."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter, defaultdict
from typing import Any

import rlp
from hypothesis import given, settings
from hypothesis import strategies as st
from trie import HexaryTrie

from chains.answers import decode, result_of, split_body
from chains.errors import ChainError
from chains.evm import checks, parse, roots
from chains.evm.frames import Move, moves_of, trees_of_flat, trees_of_traced
from chains.evm.wire import CallFrame, FullBlock, ParityTrace, Receipt, TracedTransaction
from tests.parts.evm_answers import (
    BLOCK_HASH,
    T0,
    TX,
    USDC,
    USDT,
    log,
    pad,
    reading,
    receipt,
    transaction,
    word,
)

PARTIES = [f"0x{digit * 40}" for digit in "123456"]
OURS = PARTIES[:3]
UNLISTED = f"0x{'9' * 40}"

party = st.sampled_from(PARTIES)
amount = st.integers(0, 9)
token_leg = st.tuples(st.sampled_from([USDT, USDC, UNLISTED]), party, party, amount)
coin_leg = st.tuples(party, party, st.integers(1, 9))


@given(st.lists(st.binary(min_size=1, max_size=80), max_size=300))
@settings(max_examples=60, deadline=None)
def test_the_root_is_that_of_a_trie_filled_one_by_one(values):
    trie = HexaryTrie({})
    for index, value in enumerate(values):
        trie[rlp.encode(index)] = value
    assert roots.ordered_root(values) == trie.root_hash


@settings(deadline=None)
@given(
    st.recursive(st.binary(max_size=70), lambda inner: st.lists(inner, max_size=6), max_leaves=40)
)
def test_rlp_is_that_of_the_library(item):
    def encode(part: Any) -> bytes:
        if isinstance(part, bytes):
            return roots.encode_bytes(part)
        return roots.encode_list([encode(one) for one in part])

    assert encode(item) == rlp.encode(item)


@settings(deadline=None)
@given(st.integers(0, 2**256))
def test_numbers_are_encoded_as_the_library_does(number):
    assert roots.encode_integer(number) == rlp.encode(number)


@settings(deadline=None)
@given(st.lists(token_leg, max_size=8), st.lists(coin_leg, max_size=5), st.booleans())
def test_every_address_of_ours_gains_what_its_balance_says(tokens, coins, succeeded):
    """The naive model moves balances; what ours gained in sum must be credited, never more."""
    balances: defaultdict[tuple[str, str], int] = defaultdict(int)
    if succeeded:
        for contract, sender, to, units in tokens:
            balances[contract, sender] -= units
            balances[contract, to] += units
        for sender, to, units in coins:
            balances["coin", sender] -= units
            balances["coin", to] += units
    logs = [
        log(sender, to, units, address=contract, log_index=hex(place))
        for place, (contract, sender, to, units) in enumerate(tokens)
    ]
    moves = [
        Move(str(place), bytes.fromhex(sender[2:]), bytes.fromhex(to[2:]), units)
        for place, (sender, to, units) in enumerate(coins)
    ]
    own = receipt(*logs, status="0x1" if succeeded else "0x0")
    found = parse.transfers_of_block([(transaction(), own, moves)], reading(*OURS))
    gained: Counter[tuple[str, str]] = Counter()
    for seen in found:
        contract = seen.asset.rpartition(":")[2].lower()
        gained["coin" if "slip44" in seen.asset else contract, seen.to.lower()] += seen.amount
        assert seen.amount > 0
    expected = {
        key: units
        for key, units in balances.items()
        if units > 0 and key[1] in OURS and key[0] != UNLISTED
    }
    assert dict(gained) == expected
    assert len({seen.transfer for seen in found}) == len(found)


@settings(deadline=None)
@given(st.lists(token_leg, max_size=8))
def test_for_everybody_the_amounts_add_up_to_what_moved(tokens):
    logs = [log(sender, to, units, address=contract) for contract, sender, to, units in tokens]
    at = reading(*PARTIES, net=False)
    found = parse.transfers_of_block([(transaction(), receipt(*logs), None)], at)
    moved = sum(units for contract, _, _, units in tokens if contract != UNLISTED)
    assert sum(seen.amount for seen in found) == moved


# --- noise: whatever a node answers, only our errors come out ----------------------------------------


def sample() -> dict[str, Any]:
    """A block with everything in it, as a node writes it."""
    logs = [
        {
            "address": USDT,
            "topics": [T0, pad(PARTIES[4]), pad(PARTIES[0])],
            "data": word(5),
            "blockHash": BLOCK_HASH,
            "transactionHash": TX,
            "logIndex": "0x0",
            "removed": False,
        }
    ]
    one = {
        "transactionHash": TX,
        "blockHash": BLOCK_HASH,
        "cumulativeGasUsed": "0x5208",
        "logs": logs,
        "status": "0x1",
        "type": "0x2",
        "from": PARTIES[4],
        "to": USDT,
        "contractAddress": None,
    }
    frame = {"type": "CALL", "from": PARTIES[4], "to": PARTIES[0], "value": "0x1"}
    root = roots.receipts_root([decode(json.dumps(one).encode(), Receipt)])
    return {
        "block": {
            "hash": BLOCK_HASH,
            "parentHash": word(1),
            "number": "0x2",
            "timestamp": "0x64",
            "logsBloom": f"0x{roots.bloom_of([log()]).to_bytes(256, 'big').hex()}",
            "receiptsRoot": f"0x{root.hex()}",
            "transactions": [
                {"hash": TX, "from": PARTIES[4], "to": PARTIES[1], "value": "0x1", "nonce": "0x7"}
            ],
        },
        "receipts": [one],
        "traces": [
            {"txHash": TX, "result": {**frame, "to": PARTIES[1], "calls": [{**frame, "calls": []}]}}
        ],
        "flat": [
            {
                "type": "call",
                "action": {
                    "callType": "call",
                    "from": PARTIES[4],
                    "to": PARTIES[1],
                    "value": "0x1",
                },
                "traceAddress": [],
                "blockHash": BLOCK_HASH,
                "transactionHash": TX,
            }
        ],
    }


def read_all(answers: dict[str, Any]) -> list[Any]:
    """Do what the reader does with these answers."""

    def raw(name: str) -> Any:
        body = json.dumps({"id": 1, "result": answers.get(name)}).encode()
        found = result_of(split_body(body, many=False)[0])
        if isinstance(found, ChainError):
            raise found
        return found

    block = decode(raw("block"), FullBlock)
    header = checks.header_of(block)
    receipts = checks.paired_receipts(
        block, decode(raw("receipts"), list[Receipt | None]), "standard"
    )
    names = [one.transaction_hash for one in receipts]
    trees: dict[str, CallFrame] = trees_of_traced(
        decode(raw("traces"), list[TracedTransaction]), names
    )
    trees_of_flat(decode(raw("flat"), list[ParityTrace]), names, header.hash)
    entries = [
        (one, own, moves_of(trees[own.transaction_hash]))
        for one, own in zip(block.transactions, receipts, strict=True)
    ]
    parse.nonces_used(block.transactions)
    return parse.transfers_of_block(entries, reading(*OURS))


JUNK = [None, 0, -1, 1.5, True, "", "0x", "0xzz", "0x1", word(2), [], {}, "💥", "9" * 5_000, ["0x"]]


def mutate(value: Any, lot: random.Random) -> Any:
    """Change one thing somewhere inside."""
    if isinstance(value, dict) and value and lot.random() < 0.9:
        key = lot.choice(sorted(value))
        if lot.random() < 0.1:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: mutate(value[key], lot)}
    if isinstance(value, list) and value and lot.random() < 0.9:
        place = lot.randrange(len(value))
        if lot.random() < 0.2:
            return [*value, value[place]]
        return [*value[:place], mutate(value[place], lot), *value[place + 1 :]]
    return lot.choice(JUNK)


def test_the_sample_is_read_as_it_is():
    assert [int(seen.amount) for seen in read_all(sample())] == [1, 1, 5]


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_mutated_answers_give_our_errors_or_the_truth_and_nothing_else(seed, changes):
    lot = random.Random(seed)
    answers = sample()
    for _ in range(changes):
        answers = mutate(answers, lot)
        if not isinstance(answers, dict):
            answers = {}
    try:
        found = read_all(answers)
    except ChainError:
        return
    tokens = [int(seen.amount) for seen in found if "erc20" in seen.asset]
    assert tokens in ([5], [])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_an_error_of_ours(body):
    for many in (True, False):
        try:
            for answer in split_body(body, many=many):
                result_of(answer)
        except ChainError:
            pass
    for kind in (FullBlock, list[Receipt], list[TracedTransaction], list[ParityTrace]):
        with contextlib.suppress(ChainError):
            decode(body, kind)
