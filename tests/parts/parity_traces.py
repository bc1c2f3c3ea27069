"""The flat list that a node with `trace_block` gives for what another one tells as call trees.

Written from the nodes' sources, apart from the product: it leaves out what those nodes leave out
(unpaid calls of precompiles below the root, calls that fail before they begin) and numbers the rest,
failed frames included, as `traceAddress`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: What go-ethereum's tracer says of a call that never began.
NEVER_BEGAN = {"insufficient balance for transfer", "max call depth exceeded"}
_KINDS = {"CREATE": "create", "CREATE2": "create", "SELFDESTRUCT": "suicide"}


def flat_traces(tree: dict[str, Any], transaction: str, block: str) -> list[dict[str, Any]]:
    """Write one transaction's tree as the entries of `trace_block`."""
    return [
        {**entry, "traceAddress": place, "transactionHash": transaction, "blockHash": block}
        for place, entry in _walk(tree, [])
    ]


def _walk(frame: dict[str, Any], place: list[int]) -> Iterator[tuple[list[int], dict[str, Any]]]:
    yield place, _entry(frame)
    listed = [call for call in frame.get("calls") or () if is_listed(call)]
    for number, call in enumerate(listed):
        yield from _walk(call, [*place, number])


def is_listed(frame: dict[str, Any]) -> bool:
    """Tell whether `trace_block` has an entry for a frame below the root."""
    if frame.get("error") in NEVER_BEGAN:
        return False
    to = frame.get("to")
    if frame["type"] in _KINDS or to is None or int(to, 16) > 0x1FF or frame.get("error"):
        return True
    moves = frame["type"] in {"CALL", "CALLCODE"}
    return moves and int(frame.get("value") or "0x0", 16) > 0


def _entry(frame: dict[str, Any]) -> dict[str, Any]:
    kind = _KINDS.get(frame["type"], "call")
    value = frame.get("value") or "0x0"
    if kind == "suicide":
        action = {"address": frame["from"], "refundAddress": frame["to"], "balance": value}
    else:
        action = {"from": frame["from"], "value": value}
    if kind == "call":
        action |= {"to": frame["to"], "callType": frame["type"].lower()}
    failed = {"error": frame["error"]} if frame.get("error") else {}
    result = {"result": {"address": frame.get("to")}} if kind == "create" and not failed else {}
    return {"type": kind, "action": action, **failed, **result}
