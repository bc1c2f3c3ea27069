"""A node that lies: it stands before a real one and changes what it says, as a story wants it.

Speaks JSON-RPC over HTTP as bitcoind does: errors of a single question come with status 500, wrong
credentials are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Self

from aiohttp import web

from tests.parts.ports import HOST, free_ports
from tests.parts.utxo_node import NodeRefused, UtxoNode

#: Takes what was asked and the true result, gives what is told.
Change = Callable[[list[Any], Any], Any]


class Liar:
    """Tells the truth until it is told what to say of a method."""

    def __init__(self, node: UtxoNode) -> None:
        self._node = node
        self._changes: dict[str, Change] = {}
        self.takes_batches = True
        (self._port,) = free_ports(1)
        application = web.Application()
        application.router.add_post("/", self._answer)
        self._runner = web.AppRunner(application)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def lie(self, method: str, change: Change) -> None:
        self._changes[method] = change

    def refuse(self, method: str, code: int, message: str) -> None:
        def refused(_: list[Any], __: Any) -> Any:
            raise NodeRefused(method, code, message)

        self._changes[method] = refused

    async def _answer(self, request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        if isinstance(asked, list) and not self.takes_batches:
            error = {"code": -32600, "message": "Invalid Request"}
            return web.json_response({"result": None, "error": error, "id": None}, status=500)
        if isinstance(asked, list):
            return web.json_response([self._one(question) for question in asked])
        answer = self._one(asked)
        return web.json_response(answer, status=200 if answer["error"] is None else 500)

    def _one(self, question: dict[str, Any]) -> dict[str, Any]:
        method, params = question["method"], question["params"]
        told = {"result": None, "error": None, "id": question["id"]}
        try:
            found = self._true(method, params)
            change = self._changes.get(method)
            told["result"] = found if change is None else change(params, found)
        except NodeRefused as refused:
            told["error"] = {"code": refused.code, "message": refused.message}
        return told

    def _true(self, method: str, params: list[Any]) -> Any:
        if method in self._changes:
            try:
                return self._node.ask(method, *params)
            except NodeRefused:
                return None
        return self._node.ask(method, *params)
