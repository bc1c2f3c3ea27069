"""JSON-RPC 2.0 as a node speaks it: calls and batches in, answers and errors out. No I/O.

Counts a call, asks the true answer of `methods`, then lets the node's faults and habits spoil it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from chains.devnet.faults import Answering, Behind, Fault, WrongId
from chains.devnet.lies import colour, spoil
from chains.devnet.methods import answer
from chains.devnet.node import DevnetNode
from chains.devnet.reply import WRONG_ID, Reply, transport_faults, written
from chains.devnet.rpc_errors import Refusal, RpcError, invalid_params


def reply_to(node: DevnetNode, content: bytes) -> Reply:
    """Answer one HTTP body or websocket message."""
    node.requests += 1
    try:
        asked = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return written(_error(None, Refusal(code=-32700, message="parse error")), [])
    if not isinstance(asked, list):
        return _one(node, asked)
    if not asked or len(asked) > node.switches.batch_max:
        message = "empty batch" if not asked else "batch too large"
        return written(_error(None, Refusal(code=-32600, message=message)), [])
    answers = [_answer(node, call) for call in asked]
    said = [one for one, _status in answers if one is not None]
    status = max(status for _one_answer, status in answers)
    return written(said or None, transport_faults(node, asked), http_status=status)


def _one(node: DevnetNode, call: Any) -> Reply:
    said, status = _answer(node, call)
    return written(said, transport_faults(node, [call]), http_status=status)


def _answer(node: DevnetNode, call: Any) -> tuple[Any, int]:
    """Give the answer object and the HTTP status that it asks for."""
    if not isinstance(call, dict) or not isinstance(call.get("method"), str):
        return _error(None, Refusal(code=-32600, message="invalid request")), 200
    method, params = call["method"], call.get("params", [])
    number = call.get("id")
    faults = node.faults.take(method, Answering)
    if any(isinstance(fault, WrongId) for fault in faults):
        number = WRONG_ID
    try:
        if not isinstance(params, list):
            raise invalid_params("non-array args")
        result = colour(spoil(_true_answer(node, method, params, faults), faults), node.switches)
    except RpcError as error:
        return _error(number, error.refusal), error.refusal.http_status
    if "id" not in call:
        return None, 200
    return {"jsonrpc": "2.0", "id": number, "result": result}, 200


def _true_answer(node: DevnetNode, method: str, params: list[Any], faults: list[Fault]) -> Any:
    """Ask the node; or, where a balancer sends this call there, one that lags."""
    for fault in faults:
        if isinstance(fault, Behind):
            node = node.behind(fault.blocks)
    return answer(node, method, params)


def _error(number: Any, refusal: Refusal) -> Any:
    error = {"code": refusal.code, "message": refusal.message}
    if refusal.data is not None:
        error["data"] = refusal.data
    return {"jsonrpc": "2.0", "id": number, "error": error}
