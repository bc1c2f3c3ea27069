"""Call frames in the two dialects of tracers: geth's callTracer and Parity's flat traces. Pure.

**Source**: go-ethereum `eth/tracers/native/call.go`; OpenEthereum "trace module"; samples of both on
mainnet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from chains.devnet.answers import Answer
from chains.devnet.blocks import Block, Executed, Trace
from chains.devnet.execution import CREATES
from chains.devnet.hexadecimal import data, quantity
from chains.devnet.scripted import FrameKind

_GAS_GIVEN: Final = "0x0"


def call_tracer_answer(block: Block) -> list[Answer]:
    """Give what `debug_traceBlockByHash` gives: a tree per transaction."""
    return [
        {"txHash": data(one.transaction.hash), "result": _call_frame(one.trace)}
        for one in block.executed
    ]


def _call_frame(trace: Trace) -> Answer:
    answer: Answer = {
        "from": data(trace.sender),
        "gas": _GAS_GIVEN,
        "gasUsed": quantity(trace.gas_used),
        "to": data(trace.to),
        "input": data(trace.input),
        "type": str(trace.kind),
    }
    if trace.kind is not FrameKind.STATICCALL:
        answer["value"] = quantity(trace.value)
    if trace.output:
        answer["output"] = data(trace.output)
    if trace.error is not None:
        answer["error"] = trace.error
    if trace.calls:
        answer["calls"] = [_call_frame(child) for child in trace.calls]
    return answer


def flat_traces_answer(block: Block) -> list[Answer]:
    """Give what `trace_block` gives: every frame of the block in one list, parents first."""
    return [row | _place(block, one) for one in block.executed for row in _flat(one.trace, path=[])]


def _flat(trace: Trace, *, path: list[int]) -> Iterator[Answer]:
    row: Answer = {
        "action": _action(trace),
        "subtraces": len(trace.calls),
        "traceAddress": path,
        "type": _type(trace.kind),
    }
    if trace.error is not None:
        row["error"] = "Reverted" if trace.error == "execution reverted" else trace.error
    else:
        row["result"] = _result(trace)
    yield row
    for count, child in enumerate(trace.calls):
        yield from _flat(child, path=[*path, count])


def _type(kind: FrameKind) -> str:
    if kind is FrameKind.SELFDESTRUCT:
        return "suicide"
    return "create" if kind in CREATES else "call"


def _action(trace: Trace) -> Answer:
    if trace.kind is FrameKind.SELFDESTRUCT:
        return {
            "address": data(trace.sender),
            "balance": quantity(trace.value),
            "refundAddress": data(trace.to),
        }
    action: Answer = {"from": data(trace.sender), "gas": _GAS_GIVEN, "value": quantity(trace.value)}
    if trace.kind in CREATES:
        return action | {"creationMethod": trace.kind.lower(), "init": data(trace.input)}
    # Parity writes the value of a delegatecall's parent, and zero for a static call
    return action | {
        "callType": trace.kind.lower(),
        "input": data(trace.input),
        "to": data(trace.to),
    }


def _result(trace: Trace) -> Any:
    if trace.kind is FrameKind.SELFDESTRUCT:
        return None
    used = quantity(trace.gas_used)
    if trace.kind in CREATES:
        return {"address": data(trace.to), "code": data(trace.output), "gasUsed": used}
    return {"gasUsed": used, "output": data(trace.output)}


def _place(block: Block, one: Executed) -> Answer:
    return {
        "blockHash": data(block.hash),
        "blockNumber": block.height,
        "transactionHash": data(one.transaction.hash),
        "transactionPosition": one.index,
    }
