"""JSON-RPC errors as geth words them, and the range limits of hosted nodes word for word.

**Source**: go-ethereum `rpc/errors.go`, `eth/filters/api.go`; the wordings of range limits from public
threads: ethers.js 4703, INFURA 237, aurora-relayer 327, boba 827, boundless 838, hoprnet 2736.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct


class Refusal(Struct, frozen=True, kw_only=True):
    """An `error` member. `http_status` is that of the whole answer; most nodes say 200."""

    code: int
    message: str
    data: Any = None
    http_status: int = 200


class RpcError(Exception):
    """A call is answered with an error."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def refused(code: int, message: str, data: Any = None) -> RpcError:
    """Make an error to raise."""
    return RpcError(Refusal(code=code, message=message, data=data))


def invalid_params(message: str) -> RpcError:
    """The question cannot be read."""
    return refused(-32602, message)


def unknown_method(method: str) -> RpcError:
    """The node has no such method, or it is switched off."""
    return refused(-32601, f"the method {method} does not exist/is not available")


PRUNED: Final = Refusal(code=4444, message="pruned history unavailable")

#: How hosted nodes refuse a range, by a name of ours.
RANGE_WORDINGS: Final[dict[str, Refusal]] = {
    "10000_results": Refusal(
        code=-32005,
        message="query returned more than 10000 results. Try with this block range "
        "[0xBDE5F8, 0x102DBCC].",
        data={"from": "0xBDE5F8", "limit": 10_000, "to": "0x102DBCC"},
    ),
    "exceeds_limit": Refusal(code=-32602, message="range 1000000 exceeds limit of 10000"),
    "response_size": Refusal(
        code=-32602,
        message="Log response size exceeded. You can make eth_getLogs requests with up to a 2K "
        "block range and no limit on the response size, or you can request any block range with a "
        "cap of 10K logs in the response. Based on your parameters and the response size limit, "
        "this block range should work: [0x0, 0xd043b8]",
    ),
    "invalid_params": Refusal(
        code=-32602,
        message="invalid params",
        data={"payload": "range 9009594 is bigger than range limit 2000"},
    ),
    "limited_to": Refusal(
        code=-32000,
        message="eth_getLogs and eth_newFilter are limited to a 10,000 blocks range",
    ),
    "500_blocks": Refusal(
        code=-32600,
        message="You can make eth_getLogs requests with up to a 500 block range. Based on your "
        "parameters, this block range should work: [0x1a30dfd, 0x1a30ff0]",
        http_status=400,
    ),
    "block_not_found": Refusal(
        code=-32000,
        message="One of the blocks specified in filter (fromBlock, toBlock or blockHash) cannot "
        "be found",
        data="0x11c5280",
    ),
}
