"""JSON-RPC over HTTP: one node, and several of them behind one question.

Talks to nodes; knows no chain's methods. Gives raw results to the families' clients, raises only
`chains.errors`. A node's URL may hold a key, so messages and metrics carry its host alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import SystemRandom
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Raw, Struct

from chains.answers import RpcAnswer, RpcError, result_of, split_body
from chains.clock import Clock
from chains.errors import (
    AnswerRefused,
    ChainError,
    Fatal,
    NodeBehind,
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
_REST_FIRST_S: Final = 0.5
_REST_MAX_S: Final = 60.0
_DOUBLINGS_MAX: Final = 8
#: A chain id is asked again after this long, and after every broken connection.
IDENTIFY_EVERY_S: Final = 60.0
_chance = SystemRandom().random
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


class RpcPool:
    """Several nodes of one chain, in the order in which the settings name them.

    A read goes to one node and stays there; it is repeated whole on the next one when it fails. A
    node that failed is asked last for a while; one that asked for time gets it.
    """

    def __init__(
        self,
        nodes: Sequence[RpcNode],
        *,
        identify: Callable[[RpcNode], Awaitable[None]],
        clock: Clock,
        chance: Callable[[], float] = _chance,
    ) -> None:
        self.nodes = list(nodes)
        self._identify = identify
        self._clock = clock
        self._chance = chance

    async def __aenter__(self) -> Self:
        """Give the pool itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every node's connections."""
        await self.close()

    async def close(self) -> None:
        """Close every node's connections. May be called twice."""
        for node in self.nodes:
            await node.close()

    async def read(
        self,
        ask: Callable[[RpcNode], Awaitable[T]],
        *,
        among: Callable[[RpcNode], bool] = lambda _: True,
    ) -> T:
        """Ask one node after another until one answers whole.

        **Raises**: `Fatal` from any of them at once; else the last `Retryable` or `Unsupported`.
        """
        last: ChainError | None = None
        for node in self._in_order(among):
            try:
                return await self.ask_one(node, ask)
            except (Retryable, Unsupported) as error:
                last = error
        raise last or self._all_rest(among)

    async def ask_one(self, node: RpcNode, ask: Callable[[RpcNode], Awaitable[T]]) -> T:
        """Ask this node, after its chain id where that is not known freshly; keep how it went."""
        try:
            if self.is_stale(node):
                await self.identify(node)
            answer = await ask(node)
        except (Retryable, Unsupported) as error:
            self._note_failure(node, error)
            raise
        node.failures, node.free_at = 0, 0.0
        return answer

    async def identify(self, node: RpcNode) -> None:
        """Ask a node which chain it serves. **Raises**: `WrongChain`; `Retryable`."""
        node.identified_at = None
        await self._identify(node)
        node.identified_at = self._clock.monotonic_s()

    def is_stale(self, node: RpcNode) -> bool:
        """Tell whether a node's chain id must be asked again before it is believed."""
        known = node.identified_at
        return known is None or self._clock.monotonic_s() - known >= IDENTIFY_EVERY_S

    def _in_order(self, among: Callable[[RpcNode], bool]) -> list[RpcNode]:
        now = self._clock.monotonic_s()
        awake = [node for node in self.nodes if among(node) and node.busy_until <= now]
        return sorted(awake, key=lambda node: node.free_at > now)

    def _all_rest(self, among: Callable[[RpcNode], bool]) -> ChainError:
        waits = [node.busy_until for node in self.nodes if among(node)]
        if not waits:
            return Unsupported("no node offers this")
        wait = max(0.0, min(waits) - self._clock.monotonic_s())
        return NodeBusy("every node asked us to slow down", retry_after_s=wait)

    def _note_failure(self, node: RpcNode, error: ChainError) -> None:
        """Let a node rest: doubling, with jitter so that watchers do not come back in step."""
        if isinstance(error, Unsupported | Fatal):
            return
        now = self._clock.monotonic_s()
        if isinstance(error, NodeBusy):
            node.busy_until = now + self._busy_rest_s(node, error)
        if isinstance(error, NodeUnavailable):
            node.identified_at = None
        doublings = 0 if isinstance(error, NodeBehind) else min(node.failures, _DOUBLINGS_MAX)
        node.failures += 1
        node.free_at = now + min(_REST_MAX_S, _REST_FIRST_S * 2**doublings) * (0.5 + self._chance())

    def _busy_rest_s(self, node: RpcNode, error: NodeBusy) -> float:
        if error.retry_after_s is not None:
            return error.retry_after_s
        rest: float = _REST_FIRST_S * 2 ** min(node.failures, _DOUBLINGS_MAX)
        return min(_REST_MAX_S, rest) * (0.5 + self._chance())


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
    if status >= _SERVER or status in _NOT_LET_IN:
        raise NodeUnavailable(message)
    try:
        answers = split_body(body, many=many)
    except NodeUnavailable:
        answers = []
    if any(answer.error is not None for answer in answers):
        return answers
    if many:
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
