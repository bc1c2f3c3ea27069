"""A server that speaks Esplora's HTTP in front of a real node, whose answers it passes on.

Esplora itself cannot be had here; what it says of a chain is what its node says. `spoil` changes what is
passed on, by the path's kind.

**Source**: Blockstream/esplora, API.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

from aiohttp import web

from tests.parts.ports import HOST
from tests.parts.utxo_node import NodeRefused, UtxoNode

Spoil = Callable[[web.Response], web.Response | None]


class Esplora:
    """The answers of one server; `asked` counts requests by kind."""

    def __init__(self, node: UtxoNode) -> None:
        self.node = node
        self.spoilt: dict[str, Spoil] = {}
        self.asked: list[str] = []
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        for path, answer in (
            ("/api/blocks/tip/hash", self._tip),
            ("/api/block-height/{height}", self._hash_at),
            ("/api/block/{hash}", self._block),
            ("/api/block/{hash}/raw", self._raw),
            ("/api/tx/{txid}/status", self._status),
            ("/api/tx/{txid}/raw", self._transaction),
            ("/api/address/{address}/utxo", self._unspent),
        ):
            app.router.add_get(path, self._answering(path, answer))
        return app

    def _answering(self, path: str, answer: Callable[..., web.Response]) -> Any:
        kind = path.removeprefix("/api/")

        async def handle(request: web.Request) -> web.Response:
            self.asked.append(kind)
            try:
                told = await asyncio.to_thread(answer, **request.match_info)
            except NodeRefused as refused:
                told = web.Response(status=404, text=refused.message)
            spoil = self.spoilt.get(kind)
            return told if spoil is None else spoil(told) or told

        return handle

    def _tip(self) -> web.Response:
        return web.Response(text=self.node.ask("getbestblockhash"))

    def _hash_at(self, height: str) -> web.Response:
        return web.Response(text=self.node.ask("getblockhash", int(height)))

    def _block(self, hash: str) -> web.Response:  # noqa: A002 - the path's own word
        told = self.node.ask("getblockheader", hash, True)
        return web.json_response(
            {
                "id": told["hash"],
                "height": told["height"],
                "version": told["version"],
                "timestamp": told["time"],
                "merkle_root": told["merkleroot"],
                "previousblockhash": told.get("previousblockhash"),
                "bits": int(told["bits"], 16),
                "nonce": told["nonce"],
            }
        )

    def _raw(self, hash: str) -> web.Response:  # noqa: A002 - the path's own word
        return web.Response(body=self.node.raw_block(hash))

    def _status(self, txid: str) -> web.Response:
        """Search the chain: the server has an index of all transactions."""
        if txid in self.node.waiting:
            return web.json_response({"confirmed": False})
        for height in range(self.node.height, -1, -1):
            name = self.node.ask("getblockhash", height)
            if txid in self.node.ask("getblock", name, 1)["tx"]:
                told = {"confirmed": True, "block_height": height, "block_hash": name}
                return web.json_response(told)
        raise NodeRefused("status", -5, "Transaction not found")

    def _unspent(self, address: str) -> web.Response:
        found = self.node.ask("scantxoutset", "start", [f"addr({address})"])
        return web.json_response(
            [
                {
                    "txid": one["txid"],
                    "vout": one["vout"],
                    "value": int(Decimal(str(one["amount"])).scaleb(8)),
                    "status": {"confirmed": True, "block_height": one["height"]},
                }
                for one in found["unspents"]
            ]
        )

    def _transaction(self, txid: str) -> web.Response:
        return web.Response(body=bytes.fromhex(self.node.ask("getrawtransaction", txid, 0)))


@asynccontextmanager
async def esplora_of(node: UtxoNode) -> AsyncIterator[Esplora]:
    """Serve on a free port until the context ends."""
    esplora = Esplora(node)
    runner = web.AppRunner(esplora.app())
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    server = site._server
    assert server is not None
    port = server.sockets[0].getsockname()[1]
    esplora.url = f"esplora+http://{HOST}:{port}/api"
    try:
        yield esplora
    finally:
        await runner.cleanup()
