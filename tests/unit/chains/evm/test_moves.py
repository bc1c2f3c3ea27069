from __future__ import annotations

import json

import msgspec
import pytest

from chains.answers import decode
from chains.errors import AnswerRefused
from chains.evm.frames import moves_of, trees_of_flat, trees_of_traced
from chains.evm.wire import CallFrame, ParityTrace, TracedTransaction
from tests.parts.chain_data import chain_file

A, B, C, D = (f"0x{letter * 40}" for letter in "abcd")


def frame(to: str | None, *calls: CallFrame, value: str | None = "0x1", **other) -> CallFrame:
    fields = {"type": "CALL", "from_": A, "to": to, "value": value, "calls": list(calls)}
    return CallFrame(**{**fields, **other})


def told(root: CallFrame) -> list[tuple[str, str, int]]:
    return [(move.path, f"0x{move.to.hex()}", move.amount) for move in moves_of(root)]


#: a call tree, what it moves
TREES = [
    (frame(B), [("", B, 1)]),
    (frame(B, value="0x0"), []),
    (frame(B, frame(C), frame(D)), [("", B, 1), ("0", C, 1), ("1", D, 1)]),
    (frame(B, frame(C, frame(D))), [("", B, 1), ("0", C, 1), ("0.0", D, 1)]),
    (frame(B, frame(C), error="out of gas"), []),
    (frame(B, frame(C, frame(D), error="execution reverted")), [("", B, 1)]),
    (frame(B, frame(C, type="DELEGATECALL")), [("", B, 1)]),
    (frame(B, frame(C, type="CALLCODE")), [("", B, 1)]),
    (frame(B, frame(C, type="STATICCALL", value=None)), [("", B, 1)]),
    (frame(B, frame(C, frame(D), type="DELEGATECALL")), [("", B, 1), ("0.0", D, 1)]),
    (frame(B, frame(C, type="CREATE")), [("", B, 1), ("0", C, 1)]),
    (frame(B, frame(C, type="create2")), [("", B, 1), ("0", C, 1)]),
    (frame(B, frame(C, type="SELFDESTRUCT", value="0x9")), [("", B, 1), ("0", C, 9)]),
    # siblings that failed, and unpaid calls of precompiles, are in some nodes' lists only
    (frame(B, frame(C, error="reverted"), frame(D)), [("", B, 1), ("0", D, 1)]),
    (frame(B, frame(f"0x{2:040x}", value="0x0"), frame(D)), [("", B, 1), ("0", D, 1)]),
    (frame(B, frame(f"0x{2:040x}"), frame(D)), [("", B, 1), ("0", f"0x{2:040x}", 1), ("1", D, 1)]),
]


@pytest.mark.parametrize(("root", "expected"), TREES)
def test_value_moves_only_where_no_ancestor_failed(root, expected):
    assert told(root) == expected


def test_the_deepest_calls_that_gas_allows_are_read():
    depth = 1_024
    text = f'{{"type":"CALL","from":"{A}","to":"{B}","value":"0x1","calls":['
    body = text * depth + text + "]}" + "]}" * depth
    moves = moves_of(decode(body.encode(), CallFrame))
    assert len(moves) == depth + 1
    assert moves[-1].path == ".".join(["0"] * depth)


def test_frames_nested_without_end_refuse_the_answer():
    body = b'{"type":"CALL","calls":[' * 100_000
    with pytest.raises(AnswerRefused):
        decode(body, CallFrame)


def test_traces_are_paired_with_their_transactions_or_refused():
    entry = TracedTransaction(result=frame(B), tx_hash=f"0x{1:064x}")
    names = [f"0x{1:064x}"]
    assert set(trees_of_traced([entry], names)) == set(names)
    assert set(trees_of_traced([TracedTransaction(result=frame(B))], names)) == set(names)
    for wrong in (
        [],
        [entry, entry],
        [TracedTransaction(result=frame(B), tx_hash=f"0x{2:064x}")],
        [TracedTransaction(error="timeout", tx_hash=names[0])],
    ):
        with pytest.raises(AnswerRefused):
            trees_of_traced(wrong, names)


def flat_traces() -> tuple[list[ParityTrace], list[str], str]:
    """Read the recorded block; it is stored in another spelling than nodes use."""
    data = json.loads(chain_file("ethereum/parity-traces-13323642.json").read_text())
    renamed = [
        {
            "type": trace["type"],
            "action": trace["action"],
            "traceAddress": trace["trace_address"],
            "blockHash": trace["block_hash"],
            "transactionHash": trace["transaction_hash"],
            "error": trace["error"],
            "result": trace["result"],
        }
        for trace in data["traces"]
    ]
    names = [entry["transaction_hash"] for entry in data["receipts"]]
    return msgspec.convert(renamed, list[ParityTrace]), names, renamed[0]["blockHash"]


def test_a_real_block_of_flat_traces_moves_what_its_sources_state():
    traces, names, block_hash = flat_traces()
    trees = trees_of_flat(traces, names, block_hash)
    inner = [move for name in names for move in moves_of(trees[name]) if move.path]
    assert len(inner) == 33
    assert sum(move.amount for move in inner) == 22692719523747438406


def test_flat_traces_of_another_block_or_with_a_gap_are_refused():
    traces, names, block_hash = flat_traces()
    with pytest.raises(AnswerRefused, match="does not belong"):
        trees_of_flat(traces, names, f"0x{9:064x}")
    with pytest.raises(AnswerRefused, match="does not belong"):
        trees_of_flat(traces, names[1:], block_hash)
    with pytest.raises(AnswerRefused, match="found none"):
        trees_of_flat(traces, [*names, f"0x{9:064x}"], block_hash)
    rootless = [trace for trace in traces if trace.trace_address]
    with pytest.raises(AnswerRefused, match="its parent is not"):
        trees_of_flat(rootless, names, block_hash)


def test_both_ways_to_tell_give_the_same_moves():
    """A tree told flat, with a failed call, a creation and a self-destruct."""
    tree = frame(
        B,
        frame(C, frame(D, value="0x5"), error="reverted"),
        frame(C, type="CREATE", value="0x7"),
        frame(D, type="SELFDESTRUCT", value="0x3", from_=C),
    )
    base = {"blockHash": f"0x{1:064x}", "transactionHash": f"0x{2:064x}"}
    call = {"callType": "call", "from": A}
    flat = [
        {"type": "call", "action": {**call, "to": B, "value": "0x1"}, "traceAddress": []},
        {
            "type": "call",
            "action": {**call, "to": C, "value": "0x1"},
            "traceAddress": [0],
            "error": "Reverted",
        },
        {"type": "call", "action": {**call, "to": D, "value": "0x5"}, "traceAddress": [0, 0]},
        {
            "type": "create",
            "action": {"from": A, "value": "0x7"},
            "result": {"address": C},
            "traceAddress": [1],
        },
        {
            "type": "suicide",
            "action": {"address": C, "refundAddress": D, "balance": "0x3"},
            "traceAddress": [2],
        },
        {"type": "reward", "action": {"value": "0x9"}, "transactionHash": None},
    ]
    traces = msgspec.convert([{**base, **one} for one in flat], list[ParityTrace])
    trees = trees_of_flat(traces, [f"0x{2:064x}"], f"0x{1:064x}")
    assert moves_of(trees[f"0x{2:064x}"]) == moves_of(tree)
    assert told(tree) == [("", B, 1), ("0", C, 7), ("1", D, 3)]
