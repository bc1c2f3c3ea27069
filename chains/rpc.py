"""JSON-RPC over HTTP: one node (`chains.pool` holds several).

Talks to nodes; knows no chain's methods. Gives raw results to the families' clients, raises only
`chains.errors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, TypeVar

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
from chains.http_node import (
    OK,
    SERVER_FAILED,
    HttpAnswer,
    HttpNode,
    NodeLimits,
    require_let_in,
)
from chains.observe import Observer
from schemas.caip import ChainName

T = TypeVar("T")

#: What a server of web pages, or of another interface, says of a posted question.
_NO_SUCH_PLACE: Final = frozenset({404, 405})


class Question(Struct, frozen=True):
    """One method with its parameters."""

    method: str
    params: Sequence[Any]


class RpcNode(HttpNode):
    """One node behind one URL: the *answer path* of rule 2. One logical read stays on one of these."""

    def __init__(
        self, url: str, *, chain: ChainName, clock: Clock, observer: Observer, limits: NodeLimits
    ) -> None:
        super().__init__(url, chain=chain, clock=clock, observer=observer, limits=limits)
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
        for start in range(0, len(questions), self.limits.batch_max):
            answers += await self._some(questions[start : start + self.limits.batch_max])
        return answers

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
        async with self.observed(method):
            answer = await self.exchange(body=msgspec.json.encode(body))
            return _answers_of(answer, many=many)


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


def _answers_of(answer: HttpAnswer, *, many: bool) -> list[RpcAnswer]:
    """Read a body; where HTTP says that it failed, a JSON-RPC error inside says why (CH-R15)."""
    require_let_in(answer)
    if answer.status == OK:
        return split_body(answer.body, many=many)
    try:
        answers = split_body(answer.body, many=many)
    except NodeUnavailable:
        answers = []
    if any(one.error is not None for one in answers):
        return answers
    message = f"the node answers HTTP {answer.status}"
    if answer.status in _NO_SUCH_PLACE:
        message += ": nothing at this URL speaks JSON-RPC"
    if many and answer.status < SERVER_FAILED:
        return [RpcAnswer(error=RpcError(message=message))]
    raise NodeUnavailable(message)
