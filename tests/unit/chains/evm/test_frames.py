"""A payment by an inner call has one name, whichever way a node tells of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from chains.evm.frames import moves_of, trees_of_flat
from chains.evm.wire import CallFrame, ParityTrace
from tests.parts.chain_data import chain_file
from tests.parts.parity_traces import flat_traces, is_listed

BLOCK = f"0x{'b' * 64}"
TX = f"0x{'a' * 64}"
SHOP = f"0x{0x5409:040x}"
PAYER = f"0x{0xFA7E:040x}"
OTHER = f"0x{0x07E4:040x}"
IDENTITY = f"0x{4:040x}"
ARBITRUM_SYSTEM = f"0x{0x64:040x}"


def frame(to: str = OTHER, value: int = 0, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "CALL", "from": PAYER, "to": to, "value": hex(value), "calls": calls} | more


def pay(value: int = 7, **more: Any) -> dict[str, Any]:
    return frame(SHOP, value, **more)


def failed(why: str = "execution reverted", *calls: dict[str, Any], value: int = 0) -> dict:
    return frame(OTHER, value, *calls, error=why)


def by_tree(tree: dict[str, Any]) -> dict[str, int]:
    moves = moves_of(msgspec.convert(tree, CallFrame))
    return {move.path: move.amount for move in moves if move.path}


def by_flat_list(tree: dict[str, Any]) -> dict[str, int]:
    traces = msgspec.convert(flat_traces(tree, TX, BLOCK), list[ParityTrace])
    moves = moves_of(trees_of_flat(traces, [TX], BLOCK)[TX])
    return {move.path: move.amount for move in moves if move.path}


@pytest.mark.parametrize(
    ("what", "tree", "paths"),
    [
        ("nothing before it", frame(OTHER, 0, pay()), {"0": 7}),
        ("a call before it", frame(OTHER, 0, frame(), pay()), {"1": 7}),
        ("inside another call", frame(OTHER, 0, frame(), frame(OTHER, 0, pay())), {"1.0": 7}),
        ("a call that reverted before it", frame(OTHER, 0, failed(), pay()), {"0": 7}),
        # Newer nodes list a call that never began, others do not.
        (
            "a call without the balance before it",
            frame(OTHER, 0, failed("insufficient balance for transfer", value=9**30), pay()),
            {"0": 7},
        ),
        (
            "a call too deep before it",
            frame(OTHER, 0, failed("max call depth exceeded"), pay()),
            {"0": 7},
        ),
        # callTracer lists calls of precompiles, trace_block only those that carry value.
        ("a precompile before it", frame(OTHER, 0, frame(IDENTITY), pay()), {"0": 7}),
        ("a chain's own precompile", frame(OTHER, 0, frame(ARBITRUM_SYSTEM), pay()), {"0": 7}),
        (
            "a precompile by STATICCALL",
            frame(OTHER, 0, frame(IDENTITY, type="STATICCALL"), pay()),
            {"0": 7},
        ),
        (
            "a precompile by DELEGATECALL, which shows its caller's value",
            frame(OTHER, 5, frame(IDENTITY, 5, type="DELEGATECALL"), pay()),
            {"0": 7},
        ),
        ("a precompile that failed", frame(OTHER, 0, frame(IDENTITY, error="x"), pay()), {"0": 7}),
        ("a paid precompile", frame(OTHER, 0, frame(IDENTITY, 3), pay()), {"0": 3, "1": 7}),
        ("inside a call that reverted", frame(OTHER, 0, failed("reverted", pay())), {}),
        ("a payment that failed itself", frame(OTHER, 0, pay(error="reverted"), pay(2)), {"0": 2}),
        ("a transaction that failed", frame(OTHER, 0, pay(), error="reverted"), {}),
        ("value that is not its own", frame(OTHER, 0, pay(type="DELEGATECALL")), {}),
        ("a contract made with money", frame(OTHER, 0, pay(type="CREATE2")), {"0": 7}),
        (
            "a contract that dies",
            frame(OTHER, 0, frame(OTHER, 0, pay(type="SELFDESTRUCT")), pay(1)),
            {"0.0": 7, "1": 1},
        ),
    ],
)
def test_both_ways_of_telling_give_a_payment_the_same_path(what, tree, paths):
    assert by_tree(tree) == paths
    assert by_flat_list(tree) == paths


def walk(tree: dict[str, Any]):
    yield tree
    for call in tree.get("calls") or ():
        yield from walk(call)


def block_of(name: str) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    file = json.loads(chain_file(f"ethereum/{name}").read_bytes())
    hashes = [transaction["hash"] for transaction in file["block"]["transactions"]]
    return file["block"]["hash"], list(zip(hashes, file["callTracer"], strict=True))


BLOCKS = [f"block-{height}.json" for height in (7280016, 11098450, 15753009, 17053184)]


@pytest.mark.parametrize("name", BLOCKS)
def test_a_real_block_has_the_same_moves_as_trees_and_as_a_flat_list(name):
    block, trees = block_of(name)
    entries = [entry for tx, tree in trees for entry in flat_traces(tree, tx, block)]
    flat = trees_of_flat(
        msgspec.convert(entries, list[ParityTrace]), [tx for tx, _ in trees], block
    )
    moved = 0
    for tx, tree in trees:
        moves = moves_of(msgspec.convert(tree, CallFrame))
        assert moves == moves_of(flat[tx])
        assert len({move.path for move in moves}) == len(moves)
        moved += len(moves)
    assert moved > 20


def test_the_real_blocks_hold_what_the_two_ways_tell_differently():
    frames = [f for name in BLOCKS for _, tree in block_of(name)[1] for f in walk(tree)]
    below = [call for f in frames for call in f.get("calls") or ()]
    assert sum(not is_listed(call) for call in below) == 12
    assert sum(bool(call.get("error")) for call in below) == 9


def with_noise(tree: dict[str, Any]) -> dict[str, Any]:
    """Put what only some nodes list in front of every call."""
    noise = [failed("insufficient balance for transfer", value=1), failed(), frame(IDENTITY)]
    calls = [each for call in tree.get("calls") or () for each in (*noise, with_noise(call))]
    return {**tree, "calls": calls}


@pytest.mark.parametrize("name", BLOCKS)
def test_what_only_some_nodes_list_renames_no_payment_of_a_real_block(name):
    for _, tree in block_of(name)[1]:
        plain = moves_of(msgspec.convert(tree, CallFrame))
        assert moves_of(msgspec.convert(with_noise(tree), CallFrame)) == plain


def test_a_real_flat_list_gives_the_paths_of_its_trace_addresses():
    """Nobody failed before a payment in this block, so our path is the node's own address."""
    file = json.loads(chain_file("ethereum/parity-traces-13323642.json").read_bytes())
    entries = [
        {
            **trace,
            "traceAddress": trace["trace_address"],
            "transactionHash": trace["transaction_hash"],
            "blockHash": trace["block_hash"],
        }
        for trace in file["traces"]
    ]
    names = list(dict.fromkeys(e["transactionHash"] for e in entries if e["transactionHash"]))
    block = entries[0]["blockHash"]
    flat = trees_of_flat(msgspec.convert(entries, list[ParityTrace]), names, block)
    found = {
        (tx, move.path): move.amount
        for tx, tree in flat.items()
        for move in moves_of(tree)
        if move.path
    }
    expected = {
        (e["transactionHash"], ".".join(map(str, e["traceAddress"]))): int(e["action"]["value"], 16)
        for e in entries
        if e["type"] == "call"
        and e["action"]["callType"] == "call"
        and e["traceAddress"]
        and int(e["action"]["value"], 16)
    }
    assert found == expected
    assert len(found) == 33
