"""The JSON-RPC methods of a node: what a question is answered with, before any lie.

Reads a `DevnetNode`; writes nothing. **Source**: execution-apis; go-ethereum for errors and nulls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from chains.devnet.answers import (
    block_answer,
    mined_transaction_answer,
    receipt_answer,
    transaction_answer,
)
from chains.devnet.blocks import BASE_FEE, Block
from chains.devnet.contract_calls import call_answer
from chains.devnet.hexadecimal import ScriptError, address_bytes, data, hash_bytes, quantity
from chains.devnet.ledger import coin_key, nonce_key
from chains.devnet.log_filter import read_filter
from chains.devnet.node import DevnetNode
from chains.devnet.rpc_errors import (
    PRUNED,
    RANGE_WORDINGS,
    RpcError,
    invalid_params,
    refused,
    unknown_method,
)
from chains.devnet.traces import call_tracer_answer, flat_traces_answer

Params = list[Any]
CLIENT_VERSION: Final = "devnet/v1"


def answer(node: DevnetNode, method: str, params: Params) -> Any:
    """Answer one call truthfully, as this node sees the chain. **Raises**: `RpcError`."""
    found = METHODS.get(method)
    if found is None:
        raise unknown_method(method)
    try:
        return found(node, params)
    except IndexError as error:
        raise invalid_params(f"missing value for required argument {len(params)}") from error
    except (ScriptError, TypeError, AttributeError) as error:
        raise invalid_params(f"invalid argument: {error}") from error


def _chain_id(node: DevnetNode, _params: Params) -> str:
    return quantity(_claimed_id(node))


def _net_version(node: DevnetNode, _params: Params) -> str:
    return str(_claimed_id(node))


def _claimed_id(node: DevnetNode) -> int:
    return node.switches.chain_id or node.chain.chain_id


def _block_number(node: DevnetNode, _params: Params) -> str:
    return quantity(node.head.height)


def _block_by_number(node: DevnetNode, params: Params) -> Any:
    block = _tagged(node, params[0])
    return None if block is None else block_answer(block, full=bool(params[1]))


def _block_by_hash(node: DevnetNode, params: Params) -> Any:
    block = node.by_hash(hash_bytes(params[0]))
    return None if block is None else block_answer(block, full=bool(params[1]))


def _block_receipts(node: DevnetNode, params: Params) -> Any:
    if not node.switches.block_receipts:
        raise unknown_method("eth_getBlockReceipts")
    block = _named(node, params[0])
    if block is None:
        return None
    if not node.has_history(block):
        return _gone(node, [])
    return [receipt_answer(block, one) for one in block.executed]


def _transaction_by_hash(node: DevnetNode, params: Params) -> Any:
    tx_hash = hash_bytes(params[0])
    found = node.find(tx_hash)
    if found is not None:
        return mined_transaction_answer(*found)
    if node.switches.mempool and tx_hash in node.chain.mempool:
        return transaction_answer(node.chain.world.known(tx_hash))
    return None


def _receipt(node: DevnetNode, params: Params) -> Any:
    found = node.find(hash_bytes(params[0]))
    if found is None:
        return None
    return receipt_answer(*found) if node.has_history(found[0]) else _gone(node, None)


def _logs(node: DevnetNode, params: Params) -> Any:
    asked = params[0]
    wanted = read_filter(asked)
    if "blockHash" in asked:
        if "fromBlock" in asked or "toBlock" in asked:
            raise invalid_params("cannot specify both BlockHash and FromBlock/ToBlock, choose one")
        block = node.by_hash(hash_bytes(asked["blockHash"]))
        if block is None:
            raise refused(-32000, "unknown block")
        return list(wanted.rows(block)) if node.has_history(block) else _gone(node, [])
    first, last = _range(node, asked)
    _check_blocks(node, last - first + 1)
    blocks = [node.at(height) for height in range(first, last + 1)]
    if blocks and blocks[0] is not None and not node.has_history(blocks[0]):
        _gone(node, [])
    rows = [
        row for block in blocks if block and node.has_history(block) for row in wanted.rows(block)
    ]
    _check_rows(node, len(rows), last - first + 1)
    return rows


def _range(node: DevnetNode, asked: dict[str, Any]) -> tuple[int, int]:
    first = _height(node, asked.get("fromBlock", "latest"))
    last = _height(node, asked.get("toBlock", "latest"))
    if first > last:
        raise invalid_params("invalid block range params")
    if last > node.head.height:
        if node.switches.future_range == "refuse":
            raise refused(-32000, "block range extends beyond current head block")
        last = node.head.height
    return first, last


def _check_blocks(node: DevnetNode, blocks: int) -> None:
    most = node.switches.range_blocks_max
    if most is not None and blocks > most:
        raise RpcError(RANGE_WORDINGS[node.switches.range_wording])


def _check_rows(node: DevnetNode, rows: int, blocks: int) -> None:
    most = node.switches.range_rows_max
    if most is not None and rows > most and blocks > 1:
        raise RpcError(RANGE_WORDINGS[node.switches.range_wording])


def _code(node: DevnetNode, params: Params) -> str:
    block = _state_at(node, params, 1)
    return data(node.chain.world.ledger.code(address_bytes(params[0]), block))


def _balance(node: DevnetNode, params: Params) -> str:
    block = _state_at(node, params, 1)
    return quantity(node.chain.world.ledger.number(coin_key(address_bytes(params[0])), block))


def _nonce(node: DevnetNode, params: Params) -> str:
    address = address_bytes(params[0])
    if params[1:] == ["pending"] and node.switches.mempool:
        return quantity(node.chain.next_nonce(address))
    return quantity(node.chain.world.ledger.number(nonce_key(address), _state_at(node, params, 1)))


def _call(node: DevnetNode, params: Params) -> str:
    asked = params[0]
    block = _state_at(node, params, 1)
    called = address_bytes(asked["to"])
    content = asked.get("input") or asked.get("data") or "0x"
    return call_answer(node.chain.world, called, content, block)


def _trace_by_hash(node: DevnetNode, params: Params) -> Any:
    return _call_traces(node, params, node.by_hash(hash_bytes(params[0])))


def _trace_by_number(node: DevnetNode, params: Params) -> Any:
    return _call_traces(node, params, _tagged(node, params[0]))


def _call_traces(node: DevnetNode, params: Params, block: Block | None) -> Any:
    if not node.switches.call_tracer:
        raise unknown_method("debug_traceBlockByHash")
    if block is None:
        raise refused(-32000, f"block {params[0]} not found")
    if len(params) < 2 or params[1].get("tracer") != "callTracer":
        raise refused(-32000, "tracer not found: this node has callTracer only")
    if not node.has_history(block):
        raise refused(-32000, "required historical state unavailable")
    return call_tracer_answer(block)


def _flat_traces(node: DevnetNode, params: Params) -> Any:
    if not node.switches.flat_traces:
        raise unknown_method("trace_block")
    block = _named(node, params[0])
    return None if block is None else flat_traces_answer(block)


def _gas_price(_node: DevnetNode, _params: Params) -> str:
    return quantity(BASE_FEE * 2)


def _syncing(_node: DevnetNode, _params: Params) -> bool:
    return False


def _version(_node: DevnetNode, _params: Params) -> str:
    return CLIENT_VERSION


def _height(node: DevnetNode, name: str) -> int:
    """Read a number or a tag as a height; one that is beyond the head stays what it is."""
    if name.startswith("0x"):
        return int(name, 16)
    block = _tagged(node, name)
    return node.head.height if block is None else block.height


def _tagged(node: DevnetNode, name: str) -> Block | None:
    if name.startswith("0x"):
        return node.at(int(name, 16))
    if name in {"latest", "pending"}:
        return node.head
    if name == "earliest":
        return node.at(0)
    if name not in {"safe", "finalized"}:
        raise invalid_params(f"invalid argument 0: hex string without 0x prefix: {name!r}")
    block = node.safe if name == "safe" else node.finalized
    if block is None:
        raise refused(-39001, f"{name} block not found")
    return block


def _named(node: DevnetNode, name: Any) -> Block | None:
    """Find a block by hash, number, tag, or the object that holds one of them (EIP-1898)."""
    if isinstance(name, dict):
        name = name.get("blockHash") or name["blockNumber"]
    return node.by_hash(hash_bytes(name)) if len(name) == 66 else _tagged(node, name)


def _state_at(node: DevnetNode, params: Params, position: int) -> Block:
    block = _named(node, params[position]) if len(params) > position else node.head
    if block is None:
        raise refused(-32000, "header not found")
    return block


def _gone(node: DevnetNode, nothing: Any) -> Any:
    if node.switches.history_gone == "pruned":
        raise RpcError(PRUNED)
    return nothing


METHODS: Final[dict[str, Callable[[DevnetNode, Params], Any]]] = {
    "eth_chainId": _chain_id,
    "net_version": _net_version,
    "eth_blockNumber": _block_number,
    "eth_getBlockByNumber": _block_by_number,
    "eth_getBlockByHash": _block_by_hash,
    "eth_getBlockReceipts": _block_receipts,
    "eth_getTransactionByHash": _transaction_by_hash,
    "eth_getTransactionReceipt": _receipt,
    "eth_getLogs": _logs,
    "eth_getCode": _code,
    "eth_getBalance": _balance,
    "eth_getTransactionCount": _nonce,
    "eth_call": _call,
    "debug_traceBlockByHash": _trace_by_hash,
    "debug_traceBlockByNumber": _trace_by_number,
    "trace_block": _flat_traces,
    "eth_gasPrice": _gas_price,
    "eth_syncing": _syncing,
    "web3_clientVersion": _version,
}
