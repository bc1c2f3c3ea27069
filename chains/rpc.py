"""JSON-RPC over HTTP: one node (`chains.pool` holds several).

Talks to nodes; knows no chain's methods. Gives raw results to the families' clients, raises only
`chains.errors`. A node's URL may hold a key, so messages and metrics carry its host alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Raw, Struct

from chains.answers import RpcAnswer, RpcError, result_of, split_body
from chains.clock import Clock
from chains.errors import (
    AnswerRefused,
    ChainError,
    NodeBusy,
    NodeUnavailable,
    Retryable,
    Unsupported,
)
from chains.observe import Observer, RpcRequest
from schemas.caip import ChainName

T = TypeVar("T")

_CHUNK_BYTES: Final = 65_536
_RETRY_AFTER_MAX_S: Final = 3_600.0
_OK: Final = 200
_TOO_MANY: Final = 429
_SERVER: Final = 500
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


class Question(Struct, frozen=True):
    """One method with its parameters."""

    method: str
    params: Sequence[Any]


class RpcNode:
    """One node behind one URL: the *answer path* of rule 2. One logical read stays on one of these."""

    def __init__(
        self, url: str, *, chain: ChainName, clock: Clock, observer: Observer, limits: NodeLimits
    ) -> None:
        self.name = _host_of(url)
        self.failures = 0
        self.free_at = 0.0
        self.busy_until = 0.0
        self.identified_at: float | None = None
        self._url = url
        self._chain = chain
        self._clock = clock
        self._observer = observer
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.requests_max)
        self._session: aiohttp.ClientSession | None = None
        self._next_id = 0
        self._takes_batches = True

    async def ask(self, method: str, *params: Any) -> Raw:
        """Ask one question. The result may be `null`. **Raises**: `Retryable`, `Unsupported`."""
        return _require(await self._single(Question(method, params)))

    async def ask_all(self, questions: Sequence[Question]) -> list[Raw]:
        """Ask several in one request, so that one answer path answers all; any error refuses all."""
        return [_require(answer) for answer in await self.batch(questions)]

    async def batch(self, questions: Sequence[Question]) -> list[Raw | ChainError]:
        """Ask several in one request where the node takes batches; give results or errors in order.

        At most `batch_max` go into one request. **Raises**: `Retryable` where no answer came at all.
        """
        answers: list[Raw | ChainError] = []
        for start in range(0, len(questions), self._limits.batch_max):
            answers += await self._some(questions[start : start + self._limits.batch_max])
        return answers

    async def close(self) -> None:
        """Close connections. May be called twice."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _some(self, questions: Sequence[Question]) -> list[Raw | ChainError]:
        if len(questions) == 1:
            return [await self._single(questions[0])]
        if self._takes_batches:
            answers = await self._together(questions)
            if answers is not None:
                return answers
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._caught(question)) for question in questions]
        return [task.result() for task in tasks]

    async def _caught(self, question: Question) -> Raw | ChainError:
        try:
            return await self._single(question)
        except (Retryable, Unsupported) as error:
            return error

    async def _single(self, question: Question) -> Raw | ChainError:
        number = self._number()
        answers = await self._post(_wire(question, number), question.method, many=False)
        answer = answers[0]
        if answer.id != number and not (answer.id is None and answer.error is not None):
            message = f"expected the answer to question {number}, found {answer.id!r}"
            raise AnswerRefused(message)
        return result_of(answer)

    async def _together(self, questions: Sequence[Question]) -> list[Raw | ChainError] | None:
        """Ask as a batch; None when the node turns out to take none."""
        first = self._next_id + 1
        body = [_wire(question, self._number()) for question in questions]
        methods = "+".join(sorted({question.method for question in questions}))
        answers = await self._post(body, methods, many=True)
        by_id = {answer.id: answer for answer in answers}
        if len(answers) == 1 and answers[0].error is not None and answers[0].id is None:
            found = result_of(answers[0])
            if isinstance(found, NodeBusy):
                raise found
            self._takes_batches = False
            return None
        if len(by_id) != len(answers) or set(by_id) != set(range(first, first + len(body))):
            message = f"expected answers {first} to {first + len(body) - 1}, found {sorted(map(str, by_id))[:5]}"
            raise AnswerRefused(message)
        return [result_of(by_id[number]) for number in range(first, first + len(body))]

    def _number(self) -> int:
        self._next_id += 1
        return self._next_id

    async def _post(self, body: Any, method: str, *, many: bool) -> list[RpcAnswer]:
        started, outcome = self._clock.monotonic_s(), "ok"
        try:
            async with self._slots:
                status, headers, answer = await self._exchange(msgspec.json.encode(body))
            return _answers_of(status, headers, answer, many=many)
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

    async def _exchange(self, body: bytes) -> tuple[int, Any, bytes]:
        limits = self._limits
        timeout = aiohttp.ClientTimeout(
            total=limits.timeout_s, sock_connect=limits.connect_timeout_s
        )
        try:
            async with self._connection().post(
                self._url, data=body, headers={"Content-Type": "application/json"}, timeout=timeout
            ) as response:
                return response.status, response.headers, await self._read(response)
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
            if size > self._limits.answer_bytes_max:
                message = f"{self.name}: an answer above {self._limits.answer_bytes_max} bytes"
                raise AnswerRefused(message)
            parts.append(part)
        return b"".join(parts)

    def _connection(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._limits.requests_max)
            )
        return self._session


def _require(answer: Raw | ChainError) -> Raw:
    if isinstance(answer, ChainError):
        raise answer
    return answer


def _wire(question: Question, number: int) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": question.method,
        "params": list(question.params),
    }


def _answers_of(status: int, headers: Any, body: bytes, *, many: bool) -> list[RpcAnswer]:
    """Read a body; where HTTP says that it failed, a JSON-RPC error inside says why (CH-R15)."""
    retry_after_s = _retry_after_s(headers.get("Retry-After"))
    if status == _TOO_MANY or (status == _UNAVAILABLE and retry_after_s is not None):
        message = f"the node answers HTTP {status}"
        raise NodeBusy(message, retry_after_s=retry_after_s)
    if status == _OK:
        return split_body(body, many=many)
    message = f"the node answers HTTP {status}"
    if status in _NOT_LET_IN:
        message += ": it does not take the user name and password, or the key, of its URL"
        raise NodeUnavailable(message)
    try:
        answers = split_body(body, many=many)
    except NodeUnavailable:
        answers = []
    if any(answer.error is not None for answer in answers):
        return answers
    if many and status < _SERVER:
        return [RpcAnswer(error=RpcError(message=message))]
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
