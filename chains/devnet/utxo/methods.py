"""The JSON-RPC methods of a Bitcoin node: what a question is answered with, before any lie.

Reads a `UtxoNode`; `sendrawtransaction` alone writes. **Source**: Bitcoin Core 27, rpc/blockchain.cpp,
rpc/mempool.cpp, rpc/rawtransaction.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from chains.devnet.hexadecimal import ScriptError
from chains.devnet.utxo.answers import (
    block_answer,
    coins,
    confirmations,
    header_answer,
    script_answer,
    transaction_answer,
    work_upto,
)
from chains.devnet.utxo.blocks import Block
from chains.devnet.utxo.errors import (
    beside_the_chain,
    block_not_found,
    no_transaction,
    out_of_range,
    pruned,
    refused,
    unknown_method,
    warming_up,
)
from chains.devnet.utxo.mempool import NotAccepted
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.transactions import Transaction, outpoint_at, read_transaction
from chains.utxo.merkle import shown

Params = list[Any]
_HASH_DIGITS: Final = 64
_HEX: Final = re.compile("[0-9a-fA-F]*")


def answer(node: UtxoNode, method: str, params: Params) -> Any:
    """Answer one call truthfully, as this node sees the chain. **Raises**: `RpcError`."""
    if node.switches.warming_up:
        raise warming_up()
    found = METHODS.get(method)
    if found is None:
        raise unknown_method()
    try:
        return found(node, params)
    except IndexError as error:
        raise refused(-1, f"{method}: a parameter is missing") from error


def _best_hash(node: UtxoNode, _params: Params) -> str:
    return shown(node.head.hash)


def _block_count(node: UtxoNode, _params: Params) -> int:
    return node.head.height


def _block_hash(node: UtxoNode, params: Params) -> str:
    height = _number(params, 0)
    if height == 0 and node.switches.genesis is not None:
        return node.switches.genesis
    block = node.at(height)
    if block is None:
        raise out_of_range(btcd=node.switches.speaks == "btcd")
    return shown(block.hash)


def _header(node: UtxoNode, params: Params) -> Any:
    block = _block_of(node, params)
    if _detail(params, 1, default=1):
        if node.switches.speaks == "btcd" and node.at(block.height) is not block:
            raise beside_the_chain(shown(block.hash))
        return header_answer(node, block)
    return block.header.hex()


def _block(node: UtxoNode, params: Params) -> Any:
    block = _block_of(node, params)
    if not node.has_body(block):
        raise pruned()
    detail = _detail(params, 1, default=1)
    return block_answer(node, block, full=detail > 1) if detail else block.raw.hex()


def _chain_info(node: UtxoNode, _params: Params) -> Any:
    head = node.head
    header = header_answer(node, head)
    told = {
        "chain": "regtest",
        "blocks": head.height,
        "headers": head.height,
        "bestblockhash": shown(head.hash),
        "difficulty": header["difficulty"],
        "time": head.time,
        "mediantime": head.median_time,
        "verificationprogress": 1,
        "initialblockdownload": False,
        "chainwork": work_upto(head),
        "size_on_disk": 0,
        "pruned": node.switches.pruned_below > 0,
        "warnings": "",
    }
    if node.switches.pruned_below:
        told["pruneheight"] = node.switches.pruned_below
    return told


def _mempool(node: UtxoNode, _params: Params) -> list[str]:
    return [shown(tx.txid) for tx in node.mempool]


def _transaction(node: UtxoNode, params: Params) -> Any:
    txid = _hash(params, 0, "parameter 1")
    within = _hash(params, 2, "parameter 3") if len(params) > 2 and params[2] else None
    if txid == (node.at(0) or node.head).transactions[0].txid:
        message = "The genesis block coinbase is not considered an ordinary transaction and cannot "
        raise refused(-5, message + "be retrieved")
    tx, block = _found_in(node, txid, within) if within else _found(node, txid)
    if not _detail(params, 1, default=0):
        return tx.raw.hex()
    told = transaction_answer(node, tx)
    told.pop("fee", None)
    if within is not None and block is not None:
        told = {"in_active_chain": node.tree.is_ancestor(block, node.head)} | told
    if block is None:
        return told
    told |= {"blockhash": shown(block.hash), "confirmations": max(0, confirmations(node, block))}
    return told | {"time": block.time, "blocktime": block.time}


def _found(node: UtxoNode, txid: bytes) -> tuple[Transaction, Block | None]:
    """Look where the node looks that was given no block."""
    if txid in node.mempool:
        return node.chain.world.known(txid), None
    block = node.find(txid) if node.switches.tx_index else None
    if block is None:
        raise no_transaction(indexed=node.switches.tx_index, in_block=False)
    return node.chain.world.known(txid), block


def _found_in(node: UtxoNode, txid: bytes, within: bytes) -> tuple[Transaction, Block]:
    block = node.by_hash(within)
    if block is None:
        raise refused(-5, "Block hash not found")
    if not node.has_body(block):
        raise refused(-1, "Block not available")
    for tx in block.transactions:
        if tx.txid == txid:
            return tx, block
    raise no_transaction(indexed=False, in_block=True)


def _output(node: UtxoNode, params: Params) -> Any:
    txid, index = _hash(params, 0, "txid"), _number(params, 1)
    world, outpoint = node.chain.world, outpoint_at(txid, index % 2**32)
    with_mempool = bool(params[2]) if len(params) > 2 else True
    output, block = world.output(outpoint), node.find(txid)
    spent = block is not None and world.spender(outpoint, node.head) is not None
    if with_mempool:
        spent = spent or node.mempool.spender(outpoint) is not None
    waits = with_mempool and txid in node.mempool
    if output is None or spent or (block is None and not waits):
        return None
    return {
        "bestblock": shown(node.head.hash),
        "confirmations": 0 if block is None else confirmations(node, block),
        "value": coins(output.amount),
        "scriptPubKey": script_answer(node, output.script),
        "coinbase": world.known(txid).is_coinbase,
    }


def _send(node: UtxoNode, params: Params) -> str:
    try:
        tx = read_transaction(bytes.fromhex(params[0]))
    except ValueError as error:
        message = "TX decode failed. Make sure the tx has at least one input."
        raise refused(-22, message) from error
    chain = node.chain
    try:
        if chain.world.fee(tx) < 0:
            raise refused(-25, "bad-txns-in-belowout")
        node.mempool.accept(tx)
    except NotAccepted as error:
        raise refused(error.code, str(error)) from error
    except ScriptError as error:
        raise refused(-25, "bad-txns-inputs-missingorspent") from error
    chain.world.transactions[tx.txid] = tx
    chain.announce(shown(tx.txid))
    return shown(tx.txid)


def _block_of(node: UtxoNode, params: Params) -> Block:
    block = node.by_hash(_hash(params, 0, "blockhash"))
    if block is None:
        raise block_not_found()
    return block


def _hash(params: Params, position: int, name: str) -> bytes:
    text = params[position]
    if not isinstance(text, str):
        raise _wrong_type(text, "string")
    if len(text) != _HASH_DIGITS:
        message = f"{name} must be of length {_HASH_DIGITS} (not {len(text)}, for '{text}')"
        raise refused(-8, message)
    if not _HEX.fullmatch(text):
        raise refused(-8, f"{name} must be hexadecimal string (not '{text}')")
    return bytes.fromhex(text)[::-1]


def _number(params: Params, position: int) -> int:
    number = params[position]
    if not isinstance(number, int) or isinstance(number, bool):
        raise _wrong_type(number, "number")
    return number


def _detail(params: Params, position: int, *, default: int) -> int:
    """Read a verbosity, which may be a truth value."""
    if len(params) <= position or params[position] is None:
        return default
    if not isinstance(params[position], int):
        raise _wrong_type(params[position], "number")
    return int(params[position])


def _wrong_type(value: Any, wanted: str) -> Exception:
    kind = {str: "string", bool: "bool", dict: "object", list: "array", type(None): "null"}
    found = kind.get(type(value), "number")
    return refused(-3, f"JSON value of type {found} is not of expected type {wanted}")


METHODS: Final[dict[str, Callable[[UtxoNode, Params], Any]]] = {
    "getbestblockhash": _best_hash,
    "getblock": _block,
    "getblockchaininfo": _chain_info,
    "getblockcount": _block_count,
    "getblockhash": _block_hash,
    "getblockheader": _header,
    "getrawmempool": _mempool,
    "getrawtransaction": _transaction,
    "gettxout": _output,
    "sendrawtransaction": _send,
}
