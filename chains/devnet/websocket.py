"""One websocket connection: questions in, answers and notices out, in the order in which they arise.

Notices wait in a bounded queue; a client that does not read loses the connection, as at a real node.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import WSMsgType, web

from chains.devnet.blocks import Block
from chains.devnet.dialogue import reply_to
from chains.devnet.faults import Hang
from chains.devnet.node import DevnetNode
from chains.devnet.rpc_errors import RpcError
from chains.devnet.scripted import Transaction
from chains.devnet.subscriptions import Subscriptions
from chains.devnet.tree import Change

QUEUE_MAX: Final = 10_000
MESSAGE_BYTES_MAX: Final = 32 * 2**20


class Socket:
    """A client that listens."""

    def __init__(self, node: DevnetNode, number: int) -> None:
        self._node = node
        self._subscriptions = Subscriptions(node, number)
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(QUEUE_MAX)
        self._request: web.Request | None = None
        self._response = web.WebSocketResponse(max_msg_size=MESSAGE_BYTES_MAX)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Talk until either side leaves."""
        chain = self._node.chain
        self._request = request
        await self._response.prepare(request)
        chain.listeners.append(self._on_change)
        chain.mempool_listeners.append(self._on_waiting)
        try:
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send())
                await self._listen()
                sending.cancel()
        finally:
            chain.listeners.remove(self._on_change)
            chain.mempool_listeners.remove(self._on_waiting)
        return self._response

    def drop(self) -> None:
        """Close the connection without a word."""
        if self._request is not None and self._request.transport is not None:
            self._request.transport.abort()

    async def _listen(self) -> None:
        async for message in self._response:
            if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                content = message.data
                await self._answer(content.encode() if isinstance(content, str) else content)

    async def _answer(self, content: bytes) -> None:
        own = self._subscription_call(content)
        if own is not None:
            self._put(own)
            return
        reply = reply_to(self._node, content)
        if isinstance(reply.transport, Hang):
            await asyncio.sleep(reply.transport.seconds)
        elif reply.transport is not None:
            # there is no status or body to spoil here: every other fault breaks the connection
            self.drop()
            return
        if reply.body is not None:
            self._put(reply.body)

    def _subscription_call(self, content: bytes) -> bytes | None:
        """Answer eth_subscribe and eth_unsubscribe; None for every other message."""
        try:
            call = msgspec.json.decode(content)
        except msgspec.DecodeError:
            return None
        method = call.get("method") if isinstance(call, dict) else None
        if method not in {"eth_subscribe", "eth_unsubscribe"}:
            return None
        answered: dict[str, Any] = {"jsonrpc": "2.0", "id": call.get("id")}
        act = self._subscriptions.subscribe
        if method == "eth_unsubscribe":
            act = self._subscriptions.unsubscribe  # type: ignore[assignment]
        try:
            answered["result"] = act(call.get("params") or [])
        except RpcError as error:
            answered["error"] = {"code": error.refusal.code, "message": error.refusal.message}
        return msgspec.json.encode(answered)

    def _on_change(self, _change: Change[Block]) -> None:
        for notice in self._subscriptions.on_change():
            self._put(notice)

    def _on_waiting(self, tx: Transaction) -> None:
        for notice in self._subscriptions.on_waiting(tx):
            self._put(notice)

    def _put(self, content: bytes) -> None:
        try:
            self._outgoing.put_nowait(content)
        except asyncio.QueueFull:
            self.drop()

    async def _send(self) -> None:
        while not self._response.closed:
            content = await self._outgoing.get()
            try:
                await self._response.send_str(content.decode())
            except ConnectionError:
                return
