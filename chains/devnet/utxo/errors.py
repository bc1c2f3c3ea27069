"""JSON-RPC errors as bitcoind words them.

**Source**: Bitcoin Core 27 rpc/protocol.h (codes), rpc/blockchain.cpp, rpc/rawtransaction.cpp,
rpc/server.cpp, rpc/util.cpp (ParseHashV), httprpc.cpp (statuses).
"""

from __future__ import annotations

from typing import Final

from chains.devnet.rpc_errors import Refusal, RpcError

_SERVER: Final = 500
_STATUSES: Final = {-32600: 400, -32601: 404}


def refused(code: int, message: str) -> RpcError:
    """Make an error to raise, with the status that older nodes give it."""
    status = _STATUSES.get(code, _SERVER)
    return RpcError(Refusal(code=code, message=message, http_status=status))


def unknown_method() -> RpcError:
    """There is no such method."""
    return refused(-32601, "Method not found")


def block_not_found() -> RpcError:
    """The hash is of no block that this node knows."""
    return refused(-5, "Block not found")


def out_of_range(*, btcd: bool) -> RpcError:
    """The chain is not so high. **Source** of the other words: btcd rpcserver.go, handleGetBlockHash."""
    if btcd:
        return refused(-1, "Block number out of range")
    return refused(-8, "Block height out of range")


def beside_the_chain(block_hash: str) -> RpcError:
    """The node would have to tell how high a block of another branch stands, and btcd does not.

    **Source**: btcd 0.24.2 rpcserver.go, handleGetBlockHeader (seen on a running node).
    """
    return refused(-32603, f"block {block_hash} is not in the main chain")


def pruned() -> RpcError:
    """The block was thrown away."""
    return refused(-1, "Block not available (pruned data)")


def warming_up() -> RpcError:
    """The node has just been started."""
    return refused(-28, "Loading block index…")


def no_transaction(*, indexed: bool, in_block: bool) -> RpcError:
    """The node does not find a transaction where it looks."""
    found = (
        "No such mempool transaction. Use -txindex or provide a block hash to enable blockchain "
    )
    found += "transaction queries"
    if in_block:
        found = "No such transaction found in the provided block"
    elif indexed:
        found = "No such mempool or blockchain transaction"
    return refused(-5, f"{found}. Use gettransaction for wallet transactions.")
