"""One node and several of them, against a small server that does what it is told."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from chains.clock import SystemClock
from chains.errors import (
    AnswerRefused,
    ChainError,
    NodeBusy,
    NodeUnavailable,
    Unsupported,
    WrongChain,
)
from chains.http_node import NodeLimits
from chains.observe import RpcRequest
from chains.pool import RpcPool
from chains.rpc import Question, RpcNode
from tests.parts.scripted_source import StoppedClock

LIMITS = NodeLimits(timeout_s=5.0, answer_bytes_max=10_000, batch_max=4, requests_max=2)
Reply = Callable[[Any], web.StreamResponse | Any]


class Server:
    """Answers every question with its own parameters, unless a reply is lined up."""

    def __init__(self) -> None:
        self.replies: deque[Reply] = deque()
        self.bodies: list[Any] = []
        self.chain_id = "0x1"
        self.at_once = self.at_once_max = 0
        self.url = ""
        self.gate: asyncio.Event | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            if self.gate is not None:
                await self.gate.wait()
            answer = self.replies.popleft()(body) if self.replies else self.answer(body)
            if asyncio.iscoroutine(answer):
                answer = await answer
        finally:
            self.at_once -= 1
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    def answer(self, body: Any) -> Any:
        if isinstance(body, list):
            return [self.answer(one) for one in body]
        result = self.chain_id if body["method"] == "eth_chainId" else body["params"]
        return {"jsonrpc": "2.0", "id": body["id"], "result": result}

    def say(self, *replies: Reply) -> None:
        self.replies.extend(replies)


@pytest.fixture
async def servers() -> AsyncIterator[list[Server]]:
    """Two servers on free ports."""
    found, runners = [], []
    for _ in range(2):
        server = Server()
        app = web.Application()
        app.router.add_post("/{key}", server.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        server.url = f"http://127.0.0.1:{port}/secret-key"
        found.append(server)
        runners.append(runner)
    yield found
    for runner in runners:
        await runner.cleanup()


def node_of(server: Server, *, clock=None, limits: NodeLimits = LIMITS, seen=None) -> RpcNode:
    return RpcNode(
        server.url,
        chain="eip155:1",
        clock=clock or SystemClock(),
        observer=(seen if seen is not None else []).append,
        limits=limits,
    )


@pytest.fixture
async def node(servers: list[Server]) -> AsyncIterator[RpcNode]:
    made = node_of(servers[0])
    yield made
    await made.close()


def status(code: int, text: str = "", **headers: str) -> Reply:
    return lambda _: web.Response(status=code, text=text, headers=headers)


async def cut_off(_: Any) -> web.Response:
    """Promise more bytes than are sent."""
    return web.Response(body=b'{"id":1', headers={"Content-Length": "100"})


#: what the server does, what the asker gets
FAULTS = [
    (status(500), NodeUnavailable),
    (status(502, "<html>bad gateway</html>"), NodeUnavailable),
    (status(401), NodeUnavailable),
    (status(429), NodeBusy),
    (status(503, **{"Retry-After": "3"}), NodeBusy),
    (status(503), NodeUnavailable),
    (status(200, "<html>hello</html>"), NodeUnavailable),
    (status(200, '{"jsonrpc":"2.0","id":1,"res'), NodeUnavailable),
    (status(200, "x" * 20_000), AnswerRefused),
    (lambda body: {"jsonrpc": "2.0", "id": 77, "result": 1}, AnswerRefused),
    (lambda body: {"jsonrpc": "2.0", "result": 1}, AnswerRefused),
    (lambda body: {"jsonrpc": "2.0", "id": body["id"]}, AnswerRefused),
    (
        lambda body: {"id": body["id"], "error": {"code": -32601, "message": "method not found"}},
        Unsupported,
    ),
    (
        status(400, json.dumps({"id": 1, "error": {"code": -32600, "message": "500 block range"}})),
        NodeUnavailable,
    ),
    (status(404), NodeUnavailable),
]


@pytest.mark.parametrize("code", [404, 405])
async def test_a_server_of_something_else_is_named_as_such(servers, node, code):
    """An explorer's URL in place of a node's."""
    servers[0].say(status(code))
    with pytest.raises(NodeUnavailable, match="nothing at this URL speaks JSON-RPC"):
        await node.ask("eth_test", 1)


@pytest.mark.parametrize(("reply", "kind"), FAULTS)
async def test_every_fault_of_a_node_is_an_error_of_ours(servers, node, reply, kind):
    servers[0].say(reply)
    with pytest.raises(kind) as caught:
        await node.ask("eth_test", 1)
    assert "secret-key" not in str(caught.value)
    assert bytes(await node.ask("eth_test", 1)) == b"[1]"


async def test_no_answer_in_time_and_no_connection_are_told_without_the_key(servers):
    gate = servers[0].gate = asyncio.Event()
    slow = node_of(servers[0], limits=NodeLimits(timeout_s=0.1))
    with pytest.raises(NodeUnavailable, match="no answer within"):
        await slow.ask("eth_test")
    gate.set()
    await slow.close()
    servers[1].url = "http://127.0.0.1:1/secret-key"
    gone = node_of(servers[1])
    with pytest.raises(NodeUnavailable) as caught:
        await gone.ask("eth_test")
    assert "secret-key" not in str(caught.value)
    await gone.close()


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("7", 7, 7),
        ("999999", 3_600, 3_600),
        (timedelta(seconds=1_000), 900, 1_000),
        (timedelta(days=-1), 0, 0),
    ],
)
async def test_retry_after_is_read_as_seconds_or_as_a_date(servers, node, text, low, high):
    if isinstance(text, timedelta):
        text = format_datetime(datetime.now(UTC) + text, usegmt=True)
    servers[0].say(status(429, **{"Retry-After": text}))
    with pytest.raises(NodeBusy) as caught:
        await node.ask("eth_test")
    assert low <= caught.value.retry_after_s <= high


async def test_a_retry_after_that_is_nonsense_is_no_wait(servers, node):
    servers[0].say(status(429, **{"Retry-After": "soon"}))
    with pytest.raises(NodeBusy) as caught:
        await node.ask("eth_test")
    assert caught.value.retry_after_s is None


async def test_a_batch_is_one_request_up_to_the_most_and_answers_keep_their_order(servers, node):
    servers[0].say(lambda body: servers[0].answer(body)[::-1])
    found = await node.ask_all([Question("eth_test", [number]) for number in range(6)])
    assert [json.loads(bytes(answer)) for answer in found] == [[number] for number in range(6)]
    assert [len(body) for body in servers[0].bodies] == [4, 2]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answers: answers[:-1],
        lambda answers: [*answers, answers[0]],
        lambda answers: [{**answers[0], "id": 999}, *answers[1:]],
        lambda answers: [],
    ],
)
async def test_half_a_batch_is_no_answer(servers, node, spoil):
    servers[0].say(lambda body: spoil(servers[0].answer(body)))
    with pytest.raises(AnswerRefused):
        await node.batch([Question("eth_test", [number]) for number in range(3)])


async def test_one_refused_member_is_told_beside_the_others(servers, node):
    def reply(body: Any) -> Any:
        answers = servers[0].answer(body)
        answers[1] = {"id": answers[1]["id"], "error": {"code": -39001, "message": "unknown block"}}
        return answers

    servers[0].say(reply)
    found = await node.batch([Question("eth_test", [number]) for number in range(3)])
    assert [isinstance(answer, ChainError) for answer in found] == [False, True, False]


@pytest.mark.parametrize(
    "refusal",
    [
        lambda body: {"id": None, "error": {"code": -32600, "message": "batch not allowed"}},
        status(405),
        status(400, "no batches here"),
    ],
)
async def test_a_node_without_batches_is_asked_one_by_one_from_then_on(servers, node, refusal):
    servers[0].say(refusal)
    questions = [Question("eth_test", [number]) for number in range(3)]
    for _ in range(2):
        found = await node.ask_all(questions)
        assert [json.loads(bytes(answer)) for answer in found] == [[0], [1], [2]]
    assert sum(isinstance(body, list) for body in servers[0].bodies) == 1
    assert servers[0].at_once_max <= LIMITS.requests_max


async def test_requests_at_once_are_bounded(servers, node):
    gate = servers[0].gate = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(node.ask("eth_test", number))
        while servers[0].at_once < LIMITS.requests_max:
            await asyncio.sleep(0)
        gate.set()
    assert servers[0].at_once_max == LIMITS.requests_max


async def test_every_request_is_observed_by_host_and_outcome(servers):
    seen: list[RpcRequest] = []
    node = node_of(servers[0], seen=seen)
    await node.ask("eth_test")
    servers[0].say(status(500))
    with pytest.raises(NodeUnavailable):
        await node.ask("eth_test")
    await node.close()
    assert [one.outcome for one in seen] == ["ok", "NodeUnavailable"]
    assert all(one.node.startswith("127.0.0.1:") and "secret" not in one.node for one in seen)


@pytest.mark.parametrize("url", ["", "node.example", "ftp://node.example", "http://"])
def test_a_text_that_is_no_url_is_refused(url):
    with pytest.raises(ValueError, match="expected a node's URL"):
        RpcNode(url, chain="eip155:1", clock=SystemClock(), observer=[].append, limits=LIMITS)


# --- several nodes -------------------------------------------------------------------------------


class Pool:
    """Two nodes behind one question, on time that stands still."""

    def __init__(self, servers: list[Server]) -> None:
        self.clock = StoppedClock()
        self.nodes = [node_of(server, clock=self.clock) for server in servers]
        self.pool = RpcPool(
            self.nodes, identify=self.identify, clock=self.clock, chance=lambda: 0.5
        )

    async def identify(self, node: RpcNode) -> None:
        found = json.loads(bytes(await node.ask("eth_chainId")))
        if found != "0x1":
            message = f"expected 0x1, found {found}"
            raise WrongChain(message)

    async def read(self) -> int:
        """Ask, and tell which node answered."""

        async def ask(node: RpcNode) -> int:
            await node.ask("eth_test")
            return self.nodes.index(node)

        return await self.pool.read(ask)


@pytest.fixture
async def pool(servers: list[Server]) -> AsyncIterator[Pool]:
    made = Pool(servers)
    yield made
    await made.pool.close()


def asked(server: Server) -> list[str]:
    return [body["method"] for body in server.bodies]


async def test_a_node_is_identified_before_it_is_believed_and_again_after_a_minute(servers, pool):
    assert await pool.read() == 0
    assert await pool.read() == 0
    assert asked(servers[0]) == ["eth_chainId", "eth_test", "eth_test"]
    pool.clock.pass_s(61)
    await pool.read()
    assert asked(servers[0])[3:] == ["eth_chainId", "eth_test"]


async def test_a_read_fails_over_to_the_next_node_which_is_identified_first(servers, pool):
    await pool.read()
    servers[0].say(status(500))
    assert await pool.read() == 1
    assert asked(servers[1]) == ["eth_chainId", "eth_test"]
    assert await pool.read() == 1
    pool.clock.pass_s(5)
    assert await pool.read() == 0
    assert asked(servers[0])[-2:] == ["eth_chainId", "eth_test"]


async def test_another_chain_behind_the_second_url_stops(servers, pool):
    servers[1].chain_id = "0x38"
    await pool.read()
    servers[0].say(status(500))
    with pytest.raises(WrongChain, match="expected 0x1, found 0x38"):
        await pool.read()


async def test_a_busy_node_is_not_asked_before_the_time_that_it_named(servers, pool):
    await pool.read()
    servers[0].say(status(429, **{"Retry-After": "30"}))
    assert await pool.read() == 1
    before = len(servers[0].bodies)
    for _ in range(3):
        assert await pool.read() == 1
    assert len(servers[0].bodies) == before
    servers[1].say(status(429, **{"Retry-After": "50"}))
    with pytest.raises(NodeBusy):
        await pool.read()
    with pytest.raises(NodeBusy, match="every node") as caught:
        await pool.read()
    assert 29 < caught.value.retry_after_s <= 30
    pool.clock.pass_s(31)
    assert await pool.read() == 0


async def test_when_all_fail_the_last_error_comes_out(servers, pool):
    servers[0].say(status(500))
    servers[1].say(status(200, "<html>"))
    with pytest.raises(NodeUnavailable, match="JSON-RPC answer"):
        await pool.read()


async def test_a_failing_node_is_asked_last_for_longer_and_longer(servers, pool):
    rests = []
    for _ in range(5):
        pool.clock.pass_s(300)
        servers[0].say(status(500))
        await pool.read()
        rests.append(pool.nodes[0].free_at - pool.clock.monotonic_s())
    assert rests == sorted(rests)
    assert rests[-1] >= 8 * rests[0]
