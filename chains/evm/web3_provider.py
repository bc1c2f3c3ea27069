"""web3 over our own connection: its codecs and contract calls, our limits, failover and errors."""

from __future__ import annotations

from typing import Any

from web3.providers.async_base import AsyncBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from chains.answers import decode
from chains.rpc import RpcNode


class NodeProvider(AsyncBaseProvider):
    """A web3 provider that asks one `RpcNode`. Raises our errors, not web3's."""

    def __init__(self, node: RpcNode) -> None:
        super().__init__()
        self._node = node

    async def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Ask, and give the answer in web3's shape."""
        result = decode(await self._node.ask(method, *params), object)
        return RPCResponse(jsonrpc="2.0", id=1, result=result)
