"""JSON-RPC as bitcoind speaks it: calls and batches in, answers and errors out. No I/O.

Counts a call, asks the true answer of `methods`, then lets the node's faults spoil it. **Source**:
Bitcoin Core httprpc.cpp, rpc/request.cpp: an error alone has the status 500 (404 for an unknown
method), in a batch 200. From 28 on a question of JSON-RPC 2.0 is answered by its rules, always with 200.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from chains.devnet.faults import Answering, Behind, Fault, WrongId
from chains.devnet.reply import WRONG_ID, Reply, transport_faults, written
from chains.devnet.rpc_errors import Refusal, RpcError
from chains.devnet.utxo.errors import refused
from chains.devnet.utxo.faults import Elsewhere, elsewhere, spoil
from chains.devnet.utxo.methods import answer
from chains.devnet.utxo.node import UtxoNode

_OK: Final = 200
_NOT_LET_IN: Final = 401


def reply_to(node: UtxoNode, content: bytes, authorization: str | None = None) -> Reply:
    """Answer one HTTP body; `authorization` is the header of that name."""
    node.requests += 1
    if not _is_let_in(node, authorization):
        return Reply(b"", _NOT_LET_IN)
    try:
        asked = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return _one(node, None, refused(-32700, "Parse error").refusal)
    if not isinstance(asked, list):
        said, refusal = _answer(node, asked)
        return _one(node, asked, refusal, said)
    if not node.switches.takes_batches or len(asked) > node.switches.batch_max:
        return _one(node, None, refused(-32600, "Batches are not taken").refusal)
    answers = [
        _envelope(node, call, said, refusal)
        for call in asked
        for said, refusal in (_answer(node, call),)
    ]
    return written(answers, transport_faults(node, asked))


def _is_let_in(node: UtxoNode, authorization: str | None) -> bool:
    wanted = node.switches.credentials
    if wanted is None:
        return True
    return authorization == "Basic " + base64.b64encode(wanted.encode()).decode()


def _one(node: UtxoNode, call: Any, refusal: Refusal | None, said: Any = None) -> Reply:
    plainly = node.switches.speaks == "btcd" or _is_second(node, call)
    status = _OK if refusal is None or plainly else refusal.http_status
    faults = transport_faults(node, [call])
    return written(_envelope(node, call, said, refusal), faults, http_status=status)


def _answer(node: UtxoNode, call: Any) -> tuple[Any, Refusal | None]:
    """Give the result, or what is wrong."""
    if not isinstance(call, dict):
        return None, refused(-32600, "Invalid Request object").refusal
    method, params = call.get("method"), call.get("params") or []
    if not isinstance(method, str):
        return None, refused(-32600, "Missing method").refusal
    if not isinstance(params, list):
        return None, refused(-32600, "Params must be an array").refusal
    faults = node.faults.take(method, Answering)
    if any(isinstance(fault, WrongId) for fault in faults):
        call["id"] = WRONG_ID
    try:
        return spoil(_true_answer(node, method, params, faults), faults), None
    except RpcError as error:
        return None, error.refusal


def _true_answer(node: UtxoNode, method: str, params: list[Any], faults: list[Fault]) -> Any:
    """Ask the node; or, where a fault says so, one that lags, or something else."""
    for fault in faults:
        if isinstance(fault, Behind):
            node = node.behind(fault.blocks)
        elif isinstance(fault, Elsewhere):
            params = elsewhere(node, params, fault)
    return answer(node, method, params)


def _is_second(node: UtxoNode, call: Any) -> bool:
    """Tell whether a call is of JSON-RPC 2.0, to a node that knows it."""
    knows = node.switches.speaks == "bitcoind_28"
    return knows and isinstance(call, dict) and call.get("jsonrpc") == "2.0"


def _envelope(node: UtxoNode, call: Any, said: Any, refusal: Refusal | None) -> Any:
    error = None if refusal is None else {"code": refusal.code, "message": refusal.message}
    number = call.get("id") if isinstance(call, dict) else None
    if _is_second(node, call):
        outcome = {"result": said} if error is None else {"error": error}
        return {"jsonrpc": "2.0"} | outcome | {"id": number}
    return {"result": said, "error": error, "id": number}
