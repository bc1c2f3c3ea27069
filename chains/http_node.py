"""One HTTP connection to one node: slots, time-outs, sizes, and what a status means.

Talks HTTP through aiohttp; knows no protocol above it. Gives status and body to `chains.rpc` and
`chains.utxo.esplora`, raises only `chains.errors`. A node's URL may hold a key, so messages and metrics
carry its host alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct

from chains.clock import Clock
from chains.errors import AnswerRefused, ChainError, NodeBusy, NodeUnavailable
from chains.observe import Observer, RpcRequest
from schemas.caip import ChainName

OK: Final = 200
SERVER_FAILED: Final = 500

_CHUNK_BYTES: Final = 65_536
_RETRY_AFTER_MAX_S: Final = 3_600.0
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_NOT_LET_IN: Final = frozenset({401, 403})


class NodeLimits(Struct, frozen=True, kw_only=True):
    """What one node may cost us. **Units**: in the names.

    Receipts of a full block are a few MB, its traces some tens; the largest answer is well above.
    """

    timeout_s: float = 20.0
    connect_timeout_s: float = 5.0
    answer_bytes_max: int = 256 * 1024 * 1024
    requests_max: int = 8
    batch_max: int = 50


class HttpAnswer(Struct, frozen=True):
    """One answer, whatever its status says."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpNode:
    """One node behind one URL, with what a pool keeps of how it went."""

    def __init__(
        self, url: str, *, chain: ChainName, clock: Clock, observer: Observer, limits: NodeLimits
    ) -> None:
        self.name = _host_of(url)
        self.failures = 0
        self.free_at = 0.0
        self.busy_until = 0.0
        self.identified_at: float | None = None
        self.limits = limits
        self._url = url
        self._chain = chain
        self._clock = clock
        self._observer = observer
        self._slots = asyncio.Semaphore(limits.requests_max)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close connections. May be called twice."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def observed(self, method: str) -> AsyncIterator[None]:
        """Tell the observer how long one question took and how it ended."""
        started, outcome = self._clock.monotonic_s(), "ok"
        try:
            yield
        except ChainError as error:
            outcome = type(error).__name__
            raise
        finally:
            seconds = self._clock.monotonic_s() - started
            self._observer(
                RpcRequest(
                    chain=self._chain,
                    node=self.name,
                    method=method,
                    seconds=seconds,
                    outcome=outcome,
                )
            )

    async def exchange(self, path: str = "", *, body: bytes | None = None) -> HttpAnswer:
        """Post a body of JSON, or get what stands at a path. **Raises**: `NodeUnavailable`,
        `AnswerRefused` for an answer above the limit.
        """
        async with self._slots:
            return await self._exchange(path, body)

    async def _exchange(self, path: str, body: bytes | None) -> HttpAnswer:
        limits = self.limits
        timeout = aiohttp.ClientTimeout(
            total=limits.timeout_s, sock_connect=limits.connect_timeout_s
        )
        method = "GET" if body is None else "POST"
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            async with self._connection().request(
                method, self._url + path, data=body, headers=headers, timeout=timeout
            ) as response:
                return HttpAnswer(response.status, response.headers, await self._read(response))
        except TimeoutError as error:
            message = f"{self.name}: no answer within {limits.timeout_s} s"
            raise NodeUnavailable(message) from error
        except aiohttp.ClientError as error:
            message = f"{self.name}: {type(error).__name__} {_without_url(error)}"
            raise NodeUnavailable(message) from error

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """Read a body up to the limit; the limit counts what is unpacked, not what was sent."""
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_chunked(_CHUNK_BYTES):
            size += len(part)
            if size > self.limits.answer_bytes_max:
                message = f"{self.name}: an answer above {self.limits.answer_bytes_max} bytes"
                raise AnswerRefused(message)
            parts.append(part)
        return b"".join(parts)

    def _connection(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.limits.requests_max)
            )
        return self._session


def require_let_in(answer: HttpAnswer) -> None:
    """Refuse an answer of a node that asks for time, or does not let us in.

    **Raises**: `NodeBusy` with the time that it asks for; `NodeUnavailable`.
    """
    retry_after_s = _retry_after_s(answer.headers.get("Retry-After"))
    busy = answer.status == _UNAVAILABLE and retry_after_s is not None
    if answer.status == _TOO_MANY or busy:
        message = f"the node answers HTTP {answer.status}"
        raise NodeBusy(message, retry_after_s=retry_after_s)
    if answer.status in _NOT_LET_IN:
        message = (
            f"the node answers HTTP {answer.status}: it does not take the user name and password, "
            "or the key, of its URL"
        )
        raise NodeUnavailable(message)


def _retry_after_s(text: str | None) -> float | None:
    """Read `Retry-After`: seconds or a date. **Source**: RFC 9110, section 10.2.3."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return min(_RETRY_AFTER_MAX_S, float(text))
    try:
        wait = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None
    return float(min(_RETRY_AFTER_MAX_S, max(0.0, wait)))


def _host_of(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        message = "expected a node's URL such as https://node.example, found another kind of text"
        raise ValueError(message)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname


def _without_url(error: aiohttp.ClientError) -> str:
    """Say what happened without the URL, which may hold a key."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error)
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
        return str(error)
    return ""
