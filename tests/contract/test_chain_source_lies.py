"""No source answers *nothing* for *I do not know*: whatever a node says, it is the truth or an error.

Real nodes cannot be asked to lie, so the devnet does. Each lie lasts until the test ends it; a source
may see through it and give the truth, or raise `Retryable`. It may not give anything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from chains.devnet.faults import (
    AnyFault,
    ConflictingLogs,
    CutOff,
    DropSocket,
    DuplicateLogs,
    ForeignLogs,
    Hang,
    HttpStatus,
    HugeBody,
    InvalidJson,
    Refuse,
    RefuseRange,
    RemovedLogs,
    Replace,
    SetField,
    Truncate,
    WrongId,
)
from chains.devnet.node import DevnetNode
from chains.errors import Retryable
from chains.http_node import NodeLimits
from chains.port import BlockRead, ChainSource
from schemas.facts import LookedUpState
from tests.parts.chain_scripts import FINALITY_LAG, DevnetScript, Leg
from tests.parts.chain_stand import Stand, on_devnet, standing, told, watching

FOREIGN = "0x" + "f0" * 32
BLOCKS = ("eth_getBlockByHash", "eth_getBlockByNumber")
RECEIPTS = ("eth_getBlockReceipts", "eth_getTransactionReceipt")
LOGS = ("eth_getLogs",)
TRACES = ("debug_traceBlockByHash", "debug_traceBlockByNumber", "trace_block")
#: Honest answers are waited for as long as a loaded machine takes; only silence is cut short.
LIMITS = NodeLimits(timeout_s=30.0, connect_timeout_s=30.0, answer_bytes_max=4 * 2**20)
SILENCE_S = 0.2
LONG_S = 7_200.0

#: One log less of a contract that has others in the block is not here: where a node gives neither all
#: receipts of a block nor a root over logs, no source can know. A second look finds it (DESIGN 6.11).
LIES: dict[str, AnyFault] = {
    "block is null": Replace(methods=BLOCKS, times=None),
    "block of another hash": SetField(methods=BLOCKS, times=None, field="hash", value=FOREIGN),
    "block of another parent": SetField(
        methods=BLOCKS, times=None, field="parentHash", value=FOREIGN
    ),
    "block without its transactions": SetField(
        methods=BLOCKS, times=None, field="transactions", value=[]
    ),
    "wrong receipts root": SetField(
        methods=BLOCKS, times=None, field="receiptsRoot", value=FOREIGN
    ),
    "receipts are null": Replace(methods=RECEIPTS, times=None),
    "no receipts": Replace(methods=RECEIPTS, times=None, result=[]),
    "one receipt less": Truncate(methods=RECEIPTS, times=None, keep=2),
    "receipts without logs": SetField(methods=RECEIPTS, times=None, field="logs", value=[]),
    "receipts of another block": SetField(
        methods=RECEIPTS, times=None, field="blockHash", value=FOREIGN
    ),
    "receipts that all failed": SetField(methods=RECEIPTS, times=None, field="status", value="0x0"),
    "logs twice": DuplicateLogs(methods=(*RECEIPTS, *LOGS), times=None),
    "logs that conflict": ConflictingLogs(methods=(*RECEIPTS, *LOGS), times=None),
    "logs of another block": ForeignLogs(methods=(*RECEIPTS, *LOGS), times=None),
    "logs marked as removed": RemovedLogs(methods=(*RECEIPTS, *LOGS), times=None),
    "no logs": Truncate(methods=LOGS, times=None),
    "logs are refused": RefuseRange(methods=LOGS, times=None, wording="block_not_found"),
    "traces are null": Replace(methods=TRACES, times=None),
    "no traces": Replace(methods=TRACES, times=None, result=[]),
    "one trace less": Truncate(methods=TRACES, times=None, keep=1),
    "traces are refused": Refuse(methods=TRACES, times=None, message="historical state gone"),
    "everything is null": Replace(times=None),
    "everything is refused": Refuse(times=None, code=-32603, message="internal error"),
    "slow down": HttpStatus(times=None, status=429, retry_after_s=2),
    "server error": HttpStatus(times=None, status=503),
    "silence": Hang(times=None),
    "cut off": CutOff(times=None),
    "dropped": DropSocket(times=None),
    "no JSON": InvalidJson(times=None),
    "other ids": WrongId(times=None),
    "endless body": HugeBody(times=None),
}

#: The ways of reading: all receipts at once, single ones after the logs, flat traces.
WAYS: dict[str, dict[str, bool]] = {
    "receipts": {},
    "logs": {"block_receipts": False},
    "flat": {"call_tracer": False},
}


def wait_for(source: ChainSource, timeout_s: float) -> None:
    """Say how long the first node of a source may take from now on."""
    node = source._pool.nodes[0]  # type: ignore[attr-defined]
    node.limits = replace(LIMITS, timeout_s=timeout_s)


def lie(node: DevnetNode, source: ChainSource, fault: AnyFault) -> None:
    """Let the first node lie. Who waits for a node that says nothing need not wait long."""
    node.faults.add(fault)
    if isinstance(fault, Hang):
        wait_for(source, SILENCE_S)


class Liar(NamedTuple):
    """A source before one devnet node, and an address of ours that was paid in every shape."""

    stand: Stand
    node: DevnetNode
    script: DevnetScript
    ours: str
    token_tx: str
    height: int

    async def read(self) -> BlockRead:
        return await self.stand.read(self.ours, height=self.height)

    def lie(self, fault: AnyFault) -> None:
        lie(self.node, self.stand.source, fault)

    def tell_the_truth(self) -> None:
        self.node.faults.clear()
        wait_for(self.stand.source, LIMITS.timeout_s)
        # a node that failed is left alone for a while
        self.stand.clock.passed_s += LONG_S


@pytest.fixture(params=WAYS)
async def liar(request: pytest.FixtureRequest) -> AsyncIterator[Liar]:
    async with on_devnet(**WAYS[request.param]) as script, standing(script, limits=LIMITS) as stand:
        ours = script.new_address()
        script.pay_coin(ours, 5)
        token_tx = script.pay_token(ours, 6)
        script.pay_inside(ours, 7)
        script.pay_many([Leg(ours, 8), Leg(ours, 9)])
        script.mine()
        height = script.height()
        script.mine(FINALITY_LAG + 1)
        node = script.devnet.node(script.chain_id)
        yield Liar(stand, node, script, ours, token_tx, height)


def paid(read: BlockRead) -> list[Any]:
    return sorted((told(seen), seen.block.hash if seen.block else "") for seen in read.transfers)


@pytest.mark.parametrize("lie", LIES)
async def test_block_is_read_whole_or_not_at_all_whatever_the_node_says(liar: Liar, lie: str):
    truth = paid(await liar.read())
    assert [amount for (_, _, amount), _ in truth] == [7, 8, 9, 6, 5]
    header = await liar.stand.header(liar.height)
    liar.lie(LIES[lie])
    try:
        found = paid(await liar.stand.source.read_block(header, watching(liar.ours)))
    except Retryable:
        found = truth
    assert found == truth
    liar.tell_the_truth()
    assert paid(await liar.read()) == truth


@pytest.mark.parametrize("lie", LIES)
async def test_range_is_read_whole_or_not_at_all_whatever_the_node_says(liar: Liar, lie: str):
    last = await liar.stand.header(liar.height + 1)
    truth = paid(await liar.read())

    async def ranged() -> list[Any]:
        source = liar.stand.source
        return paid(await source.read_range(liar.height - 1, last, watching(liar.ours)))

    liar.lie(LIES[lie])
    try:
        found = await ranged()
    except Retryable:
        found = truth
    assert found == truth
    liar.tell_the_truth()
    assert await ranged() == truth


#: Without those that one node tells in every answer alike: they cannot be told from the truth.
ABOUT_LOOK_UPS = [
    lie
    for lie, fault in LIES.items()
    if (fault.methods in {(), RECEIPTS} or "block is" in lie)
    and lie not in {"everything is null", "receipts that all failed"}
]


@pytest.mark.parametrize("lie", ABOUT_LOOK_UPS)
async def test_look_up_is_the_truth_or_an_error_whatever_the_node_says(liar: Liar, lie: str):
    async def looked_up() -> tuple[LookedUpState, list[str]]:
        answer = await liar.stand.source.look_up(liar.token_tx, watching(liar.ours))
        return answer.state, list(answer.pays)

    truth = await looked_up()
    assert truth == (LookedUpState.INCLUDED, [f"{liar.stand.source.chain}/{liar.token_tx}/log:0"])
    liar.lie(LIES[lie])
    try:
        found = await looked_up()
    except Retryable:
        found = truth
    assert found == truth


@pytest.mark.parametrize("gone", ["pruned", "empty"])
async def test_pruned_history_is_not_said_to_reach(liar: Liar, gone: str):
    assert await liar.stand.source.history_reaches(liar.height)
    liar.node.set(history_from=liar.height + 1, history_gone=gone)
    try:
        reaches = await liar.stand.source.history_reaches(liar.height)
    except Retryable:
        reaches = False
    assert not reaches


async def test_lagging_node_is_behind_and_never_says_that_nothing_came(liar: Liar):
    header = await liar.stand.header(liar.height)
    liar.node.set(lag=FINALITY_LAG + 2)
    with pytest.raises(Retryable):
        await liar.stand.header(liar.height)
    with pytest.raises(Retryable):
        await liar.stand.source.read_block(header, watching(liar.ours))


@pytest.fixture
async def pair() -> AsyncIterator[tuple[DevnetScript, ChainSource, DevnetNode]]:
    """Two nodes of one chain behind one source; the second may be told to lie."""
    async with on_devnet() as script:
        script.devnet.add_node(script.chain_id, "b")
        urls = [script.url, script.devnet.url(script.chain_id, "b")]
        async with standing(script, limits=LIMITS, urls=urls) as stand:
            script.mine(3)
            yield script, stand.source, script.devnet.node(script.chain_id, "b")


async def test_second_node_on_the_same_chain_agrees(pair):
    script, source, _ = pair
    assert await source.agree(await source.header_at(script.height()))


async def test_second_node_on_another_branch_does_not_agree(pair):
    script, source, second = pair
    second.set(on_block=script.story.block().hash)
    script.reorganise(1)
    assert not await source.agree(await source.header_at(script.height()))


@pytest.mark.parametrize("what", ["silence", "server error", "everything is null", "no JSON"])
async def test_what_one_node_cannot_say_the_other_does(pair, what: str):
    script, source, _ = pair
    ours = script.new_address()
    script.pay_token(ours, 6)
    script.mine()
    lie(script.devnet.node(script.chain_id), source, LIES[what])
    header = await source.header_at(script.height())
    read = await source.read_block(header, watching(ours))
    assert [told(one) for one in read.transfers] == [("log:0", ours, 6)]


async def test_pushed_head_ends_the_wait_long_before_its_time():
    async with on_devnet() as script:
        urls = [script.url, script.socket_url]
        async with standing(script, urls=urls) as stand, asyncio.timeout(10):
            # the first wait subscribes; each of the others is ended by its own head, and by no later one
            await stand.source.wait_for_change(60.0)
            for _ in range(3):
                script.mine()
                await stand.source.wait_for_change(60.0)
