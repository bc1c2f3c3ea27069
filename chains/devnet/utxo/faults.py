"""Faults of a Bitcoin node's answers, and what they make of a true one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from chains.devnet.faults import Answering, Fault, Refuse, SharedFault
from chains.devnet.lies import spoil_plainly
from chains.devnet.rpc_errors import RpcError
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.transactions import hash_bytes
from chains.utxo.merkle import shown


class ChangeByte(Answering, frozen=True, kw_only=True, tag="change_byte"):
    """Change one byte of a hex result, counted from its start or, below zero, from its end."""

    at: int = -1


class CutHex(Answering, frozen=True, kw_only=True, tag="cut_hex"):
    """Leave out the last digits of a hex result."""

    digits: int = 2


class Elsewhere(Answering, frozen=True, kw_only=True, tag="elsewhere"):
    """Answer as if another thing were asked for: a block so many lower, or another transaction."""

    blocks: int = 1


class ListUnknown(Answering, frozen=True, kw_only=True, tag="list_unknown"):
    """Add ids to a list of transactions that no question finds."""

    count: int = 1


AnyUtxoFault = SharedFault | ChangeByte | CutHex | Elsewhere | ListUnknown


def elsewhere(node: UtxoNode, params: list[Any], fault: Elsewhere) -> list[Any]:
    """Give the parameters of another question of the same kind."""
    asked = params[0] if params else None
    if isinstance(asked, int):
        return [max(0, asked - fault.blocks), *params[1:]]
    if not isinstance(asked, str) or len(asked) != 64:
        return params
    name = hash_bytes(asked)
    block = node.by_hash(name)
    if block is not None:
        other = node.tree.ancestor(block, max(0, block.height - fault.blocks))
        return [shown((other or block).hash), *params[1:]]
    waiting = [tx.txid for tx in node.mempool if tx.txid != name]
    return [shown(waiting[0]) if waiting else asked, *params[1:]]


def spoil(result: Any, faults: Sequence[Fault]) -> Any:
    """Apply the faults that strike one call. **Raises**: `RpcError` where one is an error."""
    for fault in faults:
        result = _spoil(result, fault)
    return result


def _spoil(result: Any, fault: Fault) -> Any:
    match fault:
        case Refuse():
            raise RpcError(fault.refusal())
        case ChangeByte() if isinstance(result, str):
            return _with_byte_changed(result, fault.at)
        case CutHex() if isinstance(result, str):
            return result[: -fault.digits]
        case ListUnknown() if isinstance(result, list):
            return [*result, *(sha256(b"%d" % n).hexdigest() for n in range(fault.count))]
        case _:
            return spoil_plainly(result, fault)


def _with_byte_changed(text: str, at: int) -> str:
    """Change a byte of what may be cut off already, or shorter than the fault thinks."""
    whole = len(text) // 2
    content = bytearray.fromhex(text[: 2 * whole])
    if -whole <= at < whole:
        content[at] ^= 1
    return content.hex() + text[2 * whole :]
