"""New blocks pushed by a node over ZeroMQ: a hint to look now, never a fact.

Talks to one `zmq+tcp://host:port`, which bitcoind opens with `-zmqpubhashblock`. What it says is not read:
a push that is missed or invented changes nothing, because the loop asks for the head itself (CH-R08).
ZeroMQ connects again by itself.

**Source**: Bitcoin Core doc/zmq.md.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import zmq
import zmq.asyncio

#: How its URL is told from that of a node.
SCHEME: Final = "zmq+"
_TOPIC: Final = b"hashblock"
_MESSAGES_MAX: Final = 100
_MESSAGE_BYTES_MAX: Final = 1_024
_HEARTBEAT_MS: Final = 30_000


class NewBlocks:
    """A subscription to new blocks. Never raises for what a node does."""

    def __init__(self, url: str) -> None:
        self._url = url.removeprefix(SCHEME)
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.asyncio.Socket | None = None

    async def wait(self, timeout_s: float) -> None:
        """Wait for a push, or until the time is over."""
        socket = self._connected()
        if await socket.poll(int(timeout_s * 1_000)):
            # Some blocks at once are one reason to look.
            for _ in range(_MESSAGES_MAX):
                with suppress(zmq.Again):
                    await socket.recv_multipart(zmq.NOBLOCK)
                    continue
                break

    async def close(self) -> None:
        """Let the connection go. May be called twice."""
        if self._context is not None:
            self._context.destroy(linger=0)
        self._context = self._socket = None

    def _connected(self) -> zmq.asyncio.Socket:
        if self._socket is None:
            self._context = zmq.asyncio.Context()
            self._socket = self._context.socket(zmq.SUB)
            self._socket.setsockopt(zmq.RCVHWM, _MESSAGES_MAX)
            self._socket.setsockopt(zmq.MAXMSGSIZE, _MESSAGE_BYTES_MAX)
            self._socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
            self._socket.setsockopt(zmq.SUBSCRIBE, _TOPIC)
            self._socket.connect(self._url)
        return self._socket
