"""The loop on a node that speaks JSON-RPC: the scripted one with its faults, and a real one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import pytest

from chains.clock import SystemClock
from chains.devnet import Devnet
from chains.devnet.faults import (
    CutOff,
    DropSocket,
    Hang,
    HttpStatus,
    HugeBody,
    InvalidJson,
    Refuse,
    RefuseRange,
    SlowBody,
    Truncate,
)
from chains.follow import Follower
from chains.http_node import NodeLimits
from chains.port import Checkpoint, Step, WatchEntry
from chains.registry import open_source
from schemas.facts import TransferSeen, Watermark
from tests.parts.anvil.node import AnvilNode
from tests.parts.chain_scripts import AnvilScript, ChainScript, DevnetScript
from tests.parts.follow_story import StepsLog, applied
from tests.parts.listing import catalogue_of, chain_name

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
Stand = Callable[[], AbstractAsyncContextManager[ChainScript]]


@contextlib.asynccontextmanager
async def devnet_script() -> AsyncIterator[ChainScript]:
    async with Devnet() as devnet:
        yield DevnetScript(devnet, 31_337)


@contextlib.asynccontextmanager
async def anvil_script() -> AsyncIterator[ChainScript]:
    node = AnvilNode(finality_lag=4)
    node.start()
    try:
        yield AnvilScript(node)
    finally:
        node.stop()


@pytest.fixture(
    params=[
        pytest.param(devnet_script, id="devnet"),
        pytest.param(anvil_script, id="anvil", marks=pytest.mark.anvil),
    ]
)
async def script(request: pytest.FixtureRequest) -> AsyncIterator[ChainScript]:
    async with request.param() as made:
        yield made


class Watch:
    """A loop on a script's chain, and what came out of it."""

    def __init__(self, script: ChainScript, limits: NodeLimits | None = None) -> None:
        self.script = script
        self.catalogue = catalogue_of(script.chain_id, script.token)
        self.name = chain_name(script.chain_id)
        self.source = open_source(
            self.name,
            [script.url, script.socket_url],
            catalogue=self.catalogue,
            limits=limits or NodeLimits(),
        )
        self.steps: list[Step] = []
        self.begin(None)

    def begin(self, checkpoint: Checkpoint | None) -> None:
        self.loop = Follower(
            self.source,
            entry=self.catalogue.chain(self.name),
            checkpoint=checkpoint,
            log_id="log",
            start_at=1,
            log=StepsLog(self.steps),
            clock=SystemClock(),
        )

    def restart(self) -> None:
        marks = [f for step in self.steps for f in step.facts if isinstance(f, Watermark)]
        self.begin(Checkpoint(watermarks=marks))

    def watch(self, *addresses: str) -> None:
        entries = [
            WatchEntry(raw=bytes.fromhex(one[2:]), display=one, since=LONG_AGO, offset=place)
            for place, one in enumerate(addresses)
        ]
        self.loop.add_addresses(entries, read_upto_offset=len(entries))

    async def covers_head(self) -> None:
        height = self.script.height()
        block_hash = self.script.ask("eth_getBlockByNumber", hex(height), False)["hash"]
        while True:
            self.steps.append(await self.loop.next_step())
            mark = self.steps[-1].watermark
            if mark is not None and mark.hash == block_hash:
                return

    def paid(self) -> list[int]:
        standing, _ = applied(self.steps)
        amounts = {
            fact.transfer: int(fact.amount)
            for step in self.steps
            for fact in step.facts
            if isinstance(fact, TransferSeen)
        }
        return sorted(amounts[name] for name in standing)


async def test_payments_of_every_shape_are_followed_through_a_reorganisation_and_a_restart(
    script: ChainScript,
) -> None:
    us = script.new_address()
    watch = Watch(script)
    watch.watch(us)
    script.pay_coin(us, 5)
    script.pay_token(us, 7)
    script.mine()
    script.pay_inside(us, 11)
    script.pay_in_vain(us, 12)
    script.pay_unlisted(us, 13)
    script.mine(2)
    await watch.covers_head()
    assert watch.paid() == [5, 7, 11]

    again = script.pay_token(us, 19)
    gone = script.pay_token(us, 17)
    script.mine(2)
    await watch.covers_head()
    assert watch.paid() == [5, 7, 11, 17, 19]
    script.reorganise(2, again=[(again, 1)] if isinstance(script, DevnetScript) else [])
    script.mine(2)
    await watch.covers_head()
    assert gone not in {name.split("/")[1] for name in applied(watch.steps)[0]}
    expected = [5, 7, 11, 19] if isinstance(script, DevnetScript) else [5, 7, 11]
    assert watch.paid() == expected

    watch.restart()
    watch.watch(us)
    script.pay_coin(us, 23)
    script.mine()
    await watch.covers_head()
    assert watch.paid() == sorted([*expected, 23])
    await watch.source.close()


FAULTS = [
    HttpStatus(status=503, times=2),
    HttpStatus(status=429, times=1, retry_after_s=0),
    CutOff(times=2),
    Refuse(times=3),
    RefuseRange(times=5),
    Truncate(times=2, methods=("eth_getLogs", "eth_getBlockReceipts")),
    Hang(times=2),
    SlowBody(times=2, chunk_bytes=1, pause_s=0.1),
    HugeBody(times=2),
    InvalidJson(times=2),
    DropSocket(times=2),
]
#: A node is given up soon, so that the tests of it are short.
IMPATIENT = NodeLimits(timeout_s=0.5, answer_bytes_max=2**20)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("receipts_in_one", [True, False])
async def test_faults_delay_and_lose_nothing(fault, receipts_in_one):
    async with Devnet() as devnet:
        script = DevnetScript(devnet, 31_337)
        devnet.node(31_337).set(block_receipts=receipts_in_one)
        us = script.new_address()
        for number in range(30):
            script.pay_token(us, number + 1)
            script.mine()
        watch = Watch(script, IMPATIENT)
        watch.watch(us)
        await watch.source.start()
        devnet.node(31_337).faults.add(fault)
        await watch.covers_head()
        assert watch.paid() == list(range(1, 31))
        await watch.source.close()
