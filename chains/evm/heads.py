"""New heads pushed by a node over a websocket: a hint to look now, never a fact.

Talks to one `ws://` or `wss://` URL. What it says is not read: heads missed during a reconnect, or
invented ones, change nothing, because the loop asks for the head itself (CH-R08).
"""

from __future__ import annotations

from typing import Final

import aiohttp

from chains.clock import Clock

_SUBSCRIBE: Final = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}
_CONNECT_TIMEOUT_S: Final = 5.0
_REST_S: Final = 10.0
_MESSAGE_BYTES_MAX: Final = 1024 * 1024
#: A node that pushes faster than we look is drained this far; one look sees all of them.
_DRAIN_MAX: Final = 1_000
#: Enough for what has arrived; aiohttp takes 0 for "no limit".
_DRAIN_S: Final = 0.001


class NewHeads:
    """A subscription that reconnects by itself and never raises for what a node does."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._rest_until = 0.0

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a push; False at once when there is no connection, or when the time is over."""
        socket = await self._connected()
        if socket is None:
            return False
        try:
            message = await socket.receive(timeout=timeout_s)
            drained = 0
            while message.type is aiohttp.WSMsgType.TEXT and drained < _DRAIN_MAX:
                drained += 1
                message = await socket.receive(timeout=_DRAIN_S)
        except TimeoutError:
            return True
        except aiohttp.ClientError:
            await self.close()
            return False
        if message.type is not aiohttp.WSMsgType.TEXT:
            await self.close()
        return True

    async def close(self) -> None:
        """Let the connection go. May be called twice."""
        if self._session is not None:
            await self._session.close()
        self._session = self._socket = None

    async def _connected(self) -> aiohttp.ClientWebSocketResponse | None:
        if self._socket is not None and not self._socket.closed:
            return self._socket
        if self._clock.monotonic_s() < self._rest_until:
            return None
        await self.close()
        self._rest_until = self._clock.monotonic_s() + _REST_S
        self._session = aiohttp.ClientSession()
        try:
            self._socket = await self._session.ws_connect(
                self._url,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CONNECT_TIMEOUT_S),
                heartbeat=30.0,
                max_msg_size=_MESSAGE_BYTES_MAX,
            )
            await self._socket.send_json(_SUBSCRIBE)
        except (aiohttp.ClientError, TimeoutError, OSError):
            await self.close()
        return self._socket
