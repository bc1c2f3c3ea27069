"""What answer faults and a node's lasting lies make of a true result. Pure.

The true answer is never changed in place: blocks are shared by all nodes of a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chains.devnet.faults import (
    ConflictingLogs,
    DuplicateLogs,
    Fault,
    ForeignLogs,
    Refuse,
    RefuseRange,
    RemovedLogs,
    Replace,
    SetField,
    Truncate,
)
from chains.devnet.hexadecimal import address_bytes, checksummed, data, word
from chains.devnet.node import Switches
from chains.devnet.rpc_errors import RpcError

Row = dict[str, Any]
WRONG_ROOT = data(word(0xBAD))


def spoil(result: Any, faults: Sequence[Fault]) -> Any:
    """Apply the faults that strike one call. **Raises**: `RpcError` where one is an error."""
    for fault in faults:
        result = _spoil(result, fault)
    return result


def _spoil(result: Any, fault: Fault) -> Any:
    match fault:
        case Refuse() | RefuseRange():
            raise RpcError(fault.refusal())
        case DuplicateLogs():
            return _with_logs(result, lambda logs: [one for log in logs for one in (log, log)])
        case ConflictingLogs():
            return _with_logs(result, lambda logs: [*logs, *(_other_amount(log) for log in logs)])
        case ForeignLogs():
            foreign = {"blockHash": fault.block_hash}
            return _with_logs(result, lambda logs: [*logs, *(log | foreign for log in logs)])
        case RemovedLogs():
            return _with_logs(result, lambda logs: [log | {"removed": True} for log in logs])
        case _:
            return spoil_plainly(result, fault)


def spoil_plainly(result: Any, fault: Fault) -> Any:
    """Apply a fault that is the same for every family."""
    match fault:
        case Replace():
            return fault.result
        case Truncate():
            return result[: fault.keep] if isinstance(result, list) else result
        case SetField():
            return _with_field(result, fault.field, fault.value)
        case _:
            return result


def colour(result: Any, switches: Switches) -> Any:
    """Write a result the way this node always writes: its letter case, its roots."""
    if switches.upper_case_topics:
        result = _with_logs(result, lambda logs: [_upper_case(log) for log in logs])
    if switches.checksummed_addresses:
        result = _walk(result, _checksum)
    if switches.wrong_receipts_root and isinstance(result, dict) and "receiptsRoot" in result:
        result = result | {"receiptsRoot": WRONG_ROOT}
    return result


def _with_logs(result: Any, change: Callable[[list[Row]], list[Row]]) -> Any:
    """Change a list of logs, or the logs inside of one receipt or of a list of them."""
    if isinstance(result, dict) and "logs" in result:
        return result | {"logs": change(result["logs"])}
    if isinstance(result, list):
        if result and "topics" in result[0]:
            return change(result)
        return [_with_logs(row, change) for row in result]
    return result


def _other_amount(log: Row) -> Row:
    amount = int(log["data"], 16) if len(log["data"]) == 66 else 0
    return log | {"data": data(word(amount + 1))}


def _upper_case(log: Row) -> Row:
    return log | {"topics": ["0x" + topic[2:].upper() for topic in log["topics"]]}


def _with_field(result: Any, field: str, value: Any) -> Any:
    if isinstance(result, dict):
        return result | {field: value}
    if isinstance(result, list):
        return [_with_field(row, field, value) for row in result]
    return result


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _walk(one, change) for key, one in value.items()}
    if isinstance(value, list):
        return [_walk(one, change) for one in value]
    return change(value) if isinstance(value, str) else value


def _checksum(text: str) -> str:
    looks_like_one = len(text) == 42 and text.startswith("0x")
    return checksummed(address_bytes(text)) if looks_like_one else text
