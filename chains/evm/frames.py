"""Inner calls: which frames of a trace really moved the chain's coin.

Pure. Reads the two ways in which nodes tell (`callTracer` trees, flat `trace_block` lists), writes
`Move`s with one numbering, so that a payment has the same identity whichever node saw it.

The numbering is that of neither way, because nodes list different frames. A frame is numbered among
those of its siblings that succeeded, without unpaid calls of precompiles:

- A call that fails before it begins (too little balance, too deep) is listed by newer nodes and by
  others not at all; whoever pays could put one before a payment and give it two names.
- An unpaid call of a precompile is listed by `callTracer` and left out by `trace_block`.

Where a transaction has neither before a payment, the path is its `traceAddress`. Flat lists that leave
out *paid* precompile calls as well (a setting of one node's own tracer) are not asked for.

**Source**: go-ethereum core/vm/evm.go (0050f0a: the tracer is told before balance and depth are
checked; until 1.13 after); openethereum evm/src/interpreter/mod.rs (2723371: no call is made) and
executive.rs ("only top level calls and calls with balance transfer to builtins"); erigon issue 9784.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.evm import words
from chains.evm.wire import CallFrame, ParityTrace, TracedTransaction

#: DELEGATECALL and CALLCODE run foreign code on the caller's own money, STATICCALL carries none.
#: Source: go-ethereum eth/tracers/native/call.go (02b73d4, 2026-08-20); EIP-7, EIP-214.
_CARRIES_VALUE: Final = frozenset({"CALL", "CREATE", "CREATE2", "SELFDESTRUCT"})
#: Calls, and whether the value that they show is their own.
_CALLS: Final = {"CALL": True, "CALLCODE": True, "DELEGATECALL": False, "STATICCALL": False}
_NO_VALUE: Final = frozenset({None, "", "0x", "0x0"})
_PRECOMPILE_LAST: Final = 0x1FF
_PARITY_KINDS: Final = {"create": "CREATE", "suicide": "SELFDESTRUCT"}


class Move(Struct, frozen=True, gc=False):
    """Value that one frame moved. **Units**: wei. `path` is empty for the root frame, else `0.2`."""

    path: str
    sender: bytes
    to: bytes
    amount: int


def moves_of(root: CallFrame) -> list[Move]:
    """Give what a call tree moved, in its order; nothing at or below a failed frame.

    Frames are numbered as this module's beginning says. **Raises**: `AnswerRefused`.
    """
    moves: list[Move] = []
    open_frames = [("", root)]
    while open_frames:
        path, frame = open_frames.pop()
        if frame.error:
            continue
        if frame.value not in _NO_VALUE and frame.type.upper() in _CARRIES_VALUE:
            moves.append(_move(path, frame))
        counted = [
            call for call in frame.calls if not call.error and not _is_unpaid_precompile(call)
        ]
        prefix = f"{path}." if path else ""
        numbered = [(f"{prefix}{number}", call) for number, call in enumerate(counted)]
        open_frames.extend(reversed(numbered))
    return [move for move in moves if move.amount]


def _move(path: str, frame: CallFrame) -> Move:
    return Move(
        path=path,
        sender=words.address(frame.from_),
        to=words.address(frame.to or ""),
        amount=words.integer(frame.value or ""),
    )


def _is_unpaid_precompile(frame: CallFrame) -> bool:
    """Tell a call that only computes. A DELEGATECALL may show its caller's value; it pays nothing."""
    kind = frame.type.upper()
    if kind not in _CALLS or frame.calls or not frame.to:
        return False
    paid = _CALLS[kind] and frame.value not in _NO_VALUE
    return not paid and words.integer(frame.to) <= _PRECOMPILE_LAST


def trees_of_traced(
    traced: Sequence[TracedTransaction], transactions: Sequence[str]
) -> dict[str, CallFrame]:
    """Pair the answers of `debug_traceBlockByHash` with the block's transactions.

    **Raises**: `AnswerRefused` when one is missing, failed to trace, or belongs elsewhere.
    """
    if len(traced) != len(transactions):
        message = f"expected {len(transactions)} traces, found {len(traced)}"
        raise AnswerRefused(message)
    trees: dict[str, CallFrame] = {}
    for number, (entry, expected) in enumerate(zip(traced, transactions, strict=True)):
        name = expected if entry.tx_hash is None else words.hash_text(entry.tx_hash)
        if entry.result is None or name != expected:
            message = f"trace {number}: expected {expected}, found {name} {entry.error or ''}"
            raise AnswerRefused(message)
        trees[name] = entry.result
    return trees


def trees_of_flat(
    traces: Sequence[ParityTrace], transactions: Sequence[str], block_hash: str
) -> dict[str, CallFrame]:
    """Build call trees from `trace_block`, which is asked by height: each frame must name the block.

    **Raises**: `AnswerRefused` when a frame belongs to another block or hangs in the air.
    """
    nodes: dict[str, dict[tuple[int, ...], CallFrame]] = {name: {} for name in transactions}
    for trace in sorted(traces, key=lambda trace: trace.trace_address):
        if trace.transaction_hash is None:
            continue
        name = words.hash_text(trace.transaction_hash)
        if name not in nodes or words.hash_text(trace.block_hash or "") != block_hash:
            message = f"a frame of {name} does not belong to block {block_hash}"
            raise AnswerRefused(message)
        _hang(nodes[name], tuple(trace.trace_address), _frame_of(trace), name)
    missing = [name for name, frames in nodes.items() if () not in frames]
    if missing:
        message = f"expected a trace of {missing[0]} and found none"
        raise AnswerRefused(message)
    return {name: frames[()] for name, frames in nodes.items()}


def _hang(
    frames: dict[tuple[int, ...], CallFrame], place: tuple[int, ...], frame: CallFrame, tx: str
) -> None:
    if place in frames or (place and place[:-1] not in frames):
        message = f"frame {list(place)} of {tx} is there twice, or its parent is not"
        raise AnswerRefused(message)
    frames[place] = frame
    if place:
        frames[place[:-1]].calls.append(frame)


def _frame_of(trace: ParityTrace) -> CallFrame:
    action = trace.action
    kind = _PARITY_KINDS.get(trace.type, (action.call_type or "call").upper())
    if kind == "SELFDESTRUCT":
        sender, to, value = action.address, action.refund_address, action.balance
    else:
        created = trace.result.address if trace.result else None
        sender, to, value = action.from_, created if kind == "CREATE" else action.to, action.value
    return CallFrame(type=kind, from_=sender or "", to=to, value=value, error=trace.error, calls=[])
