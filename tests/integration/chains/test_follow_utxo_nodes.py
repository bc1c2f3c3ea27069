"""The loop on a scripted Bitcoin-like chain: branches, the mempool, double spends, and nodes that lie."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from chains.clock import SystemClock
from chains.devnet import Devnet, Spend
from chains.devnet.faults import (
    Behind,
    CutOff,
    DropSocket,
    Hang,
    HttpStatus,
    HugeBody,
    InvalidJson,
    Refuse,
    Replace,
    SetField,
    SlowBody,
    Truncate,
    WrongId,
)
from chains.devnet.utxo.faults import ChangeByte, CutHex, Elsewhere, ListUnknown
from chains.follow import Follower
from chains.http_node import NodeLimits
from chains.pace import FollowSettings
from chains.port import Step, WatchEntry
from chains.registry import open_source
from schemas.facts import TransferDropped, TransferSeen, Watermark
from tests.parts.follow_story import StepsLog, applied
from tests.parts.utxo_devnet import DevnetUtxoScript

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
#: A node is given up soon, so that the tests of it are short.
IMPATIENT = NodeLimits(timeout_s=0.5, answer_bytes_max=2**20)
STEPS_MAX = 2_000


class Watch:
    """A loop on a script's chain, and what came out of it."""

    def __init__(self, script: DevnetUtxoScript, *urls: str) -> None:
        self.script = script
        catalogue = script.catalogue_of(script.chain)
        self.source = open_source(
            script.chain,
            urls or [script.url],
            catalogue=catalogue,
            limits=IMPATIENT,
            poll_interval_s=0.01,
        )
        self.steps: list[Step] = []
        self.loop = Follower(
            self.source,
            entry=catalogue.chain(script.chain),
            checkpoint=None,
            log_id="log",
            start_at=1,
            log=StepsLog(self.steps),
            clock=SystemClock(),
            settings=FollowSettings(mempool_s=0.01),
        )

    def watch(self, *addresses: str) -> None:
        entries = [
            WatchEntry(raw=self.script.raw_of(one), display=one, since=LONG_AGO, offset=place)
            for place, one in enumerate(addresses)
        ]
        self.loop.add_addresses(entries, read_upto_offset=len(entries))

    async def step(self) -> Step:
        self.steps.append(await self.loop.next_step())
        return self.steps[-1]

    async def covers_head(self) -> None:
        for _ in range(STEPS_MAX):
            mark = (await self.step()).watermark
            if mark is not None and mark.hash == self.script.scripted.block().hash:
                return
        pytest.fail("the head was never covered")

    async def until(self, kind: type) -> list[Any]:
        for _ in range(STEPS_MAX):
            found = [fact for fact in (await self.step()).facts if isinstance(fact, kind)]
            if found:
                return found
        pytest.fail(f"never gave {kind.__name__}")

    def facts(self, kind: type) -> list[Any]:
        return [fact for step in self.steps for fact in step.facts if isinstance(fact, kind)]

    def paid(self) -> list[int]:
        """Give the amounts that stand in blocks, as a naive reader keeps them."""
        mined = [
            msgspec.structs.replace(step, facts=[fact for fact in step.facts if _is_mined(fact)])
            for step in self.steps
        ]
        standing, _ = applied(mined)
        amounts = {fact.transfer: int(fact.amount) for fact in self.facts(TransferSeen)}
        return sorted(amounts[name] for name in standing)


def _is_mined(fact: object) -> bool:
    return not isinstance(fact, TransferSeen) or fact.block is not None


@pytest.fixture
async def devnet() -> AsyncIterator[Devnet]:
    async with Devnet() as devnet:
        yield devnet


@pytest.fixture(params=["bitcoin-regtest", "litecoin-regtest", "dogecoin-regtest"])
def script(request: pytest.FixtureRequest, devnet: Devnet) -> DevnetUtxoScript:
    return DevnetUtxoScript(devnet, request.param)


@pytest.fixture
def bitcoin(devnet: Devnet) -> DevnetUtxoScript:
    return DevnetUtxoScript(devnet)


async def test_payments_are_followed_through_reorganisations_and_back(script: DevnetUtxoScript):
    us, them = script.new_address(), script.new_address()
    watch = Watch(script)
    watch.watch(us)
    script.pay_many([(us, 5), (them, 6), (us, 7)])
    script.mine(2)
    await watch.covers_head()
    assert watch.paid() == [5, 7]

    again, later, gone = (script.pay_coin(us, amount) for amount in (11, 13, 17))
    script.mine(2)
    await watch.covers_head()
    assert watch.paid() == [5, 7, 11, 13, 17]
    rival = script.scripted.replace(gone, hold=True, payments=None, fee=9_999)
    script.reorganise(2, again=[(again, 1), (rival, 0)])
    await watch.covers_head()
    assert watch.paid() == [5, 7, 11, 17]
    assert [fact.transfer.split("/")[1] for fact in watch.facts(TransferDropped)] == [gone]
    script.mine()
    await watch.covers_head()
    assert watch.paid() == [5, 7, 11, 13, 17]
    assert script.scripted.depth(later) == 1
    script.scripted.flip_back()
    script.mine(3)
    await watch.covers_head()
    assert watch.paid() == [5, 7, 11, 13, 17]
    names = {fact.transfer.split("/")[1] for fact in watch.facts(TransferSeen)}
    assert {again, later, gone, rival} <= names
    await watch.source.close()


async def test_waiting_payment_is_seen_replaced_and_mined(bitcoin: DevnetUtxoScript):
    us, them = bitcoin.new_address(), bitcoin.new_address()
    watch = Watch(bitcoin)
    watch.watch(us)
    await watch.covers_head()
    first = bitcoin.pay_coin(us, 5)
    (seen,) = await watch.until(TransferSeen)
    assert (seen.transfer, seen.block) == (f"{bitcoin.chain}/{first}/out:0", None)
    raised = bitcoin.scripted.replace(first)
    (dropped,) = await watch.until(TransferDropped)
    assert dropped.replaced_by == raised
    stolen = bitcoin.replace(raised, (them, 5))
    bitcoin.mine()
    await watch.covers_head()
    assert watch.paid() == []
    assert {fact.replaced_by for fact in watch.facts(TransferDropped)} == {raised, stolen}
    await watch.source.close()


async def test_payment_that_only_the_miners_know_is_seen_when_it_is_mined(
    bitcoin: DevnetUtxoScript,
):
    us = bitcoin.new_address()
    bitcoin.node.set(hears=False)
    watch = Watch(bitcoin)
    watch.watch(us)
    parent = bitcoin.pay_coin(us, 10_000)
    bitcoin.scripted.pay_coin(us, 7, Spend(inputs=(f"{parent}:0",)))
    await watch.covers_head()
    bitcoin.mine()
    await watch.covers_head()
    assert watch.paid() == [7, 10_000]
    assert all(fact.block is not None for fact in watch.facts(TransferSeen))
    await watch.source.close()


async def test_branch_without_its_work_is_never_believed(devnet: Devnet, bitcoin: DevnetUtxoScript):
    us = bitcoin.new_address()
    watch = Watch(bitcoin)
    watch.watch(us)
    bitcoin.mine(3)
    await watch.covers_head()
    bitcoin.pay_coin(us, 5)
    forged = bitcoin.scripted.mine_aside(worked=False)
    bitcoin.node.set(on_block=forged.hash)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.5):
            while True:
                await watch.step()
    assert bitcoin.node.requests > 10
    assert forged.hash not in {fact.hash for fact in watch.facts(Watermark)}
    assert watch.paid() == []
    bitcoin.node.set(on_block=None)
    bitcoin.mine()
    await watch.covers_head()
    assert watch.paid() == [5]
    await watch.source.close()


FAULTS = [
    HttpStatus(status=503, times=2),
    HttpStatus(status=429, times=1, retry_after_s=0),
    CutOff(times=2),
    Hang(times=2),
    SlowBody(times=2, chunk_bytes=1, pause_s=0.1),
    HugeBody(times=2),
    InvalidJson(times=2),
    DropSocket(times=2),
    Refuse(times=3, code=-28, message="Loading block index…"),
    WrongId(times=2),
    Behind(times=5, blocks=4),
    Replace(times=3, methods=("getblock", "getblockheader")),
    Replace(times=3, skip=2, methods=("getblockhash",), result="ab" * 32),
    Truncate(times=2, methods=("getrawmempool",)),
    ListUnknown(times=3, methods=("getrawmempool",)),
    SetField(times=3, methods=("getblockheader",), field="height", value=3),
    SetField(times=3, methods=("getblockheader",), field="time", value=1),
    SetField(times=3, methods=("getblockheader",), field="merkleroot", value="00" * 32),
    SetField(times=3, methods=("getblockheader",), field="bits", value="1d00ffff"),
    ChangeByte(times=2, methods=("getblock",), at=36),
    ChangeByte(times=2, methods=("getblock",), at=-5),
    ChangeByte(times=2, methods=("getblock",), at=-45),
    ChangeByte(times=2, methods=("getrawtransaction",), at=60),
    CutHex(times=2, methods=("getblock", "getrawtransaction")),
    CutHex(times=2, methods=("getblock",), digits=3),
    Elsewhere(times=3, methods=("getblock",)),
    Elsewhere(times=3, methods=("getblockheader",)),
    Elsewhere(times=3, methods=("getblockhash",)),
    Elsewhere(times=3, methods=("getrawtransaction",)),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_lies_delay_and_lose_nothing(bitcoin: DevnetUtxoScript, fault: Any):
    us = bitcoin.new_address()
    for number in range(30):
        bitcoin.pay_coin(us, number + 1)
        bitcoin.mine()
    bitcoin.pay_coin(us, 77)
    bitcoin.pay_coin(us, 78)
    watch = Watch(bitcoin)
    watch.watch(us)
    await watch.source.start()
    bitcoin.node.faults.add(fault)
    await watch.covers_head()
    assert watch.paid() == list(range(1, 31))
    while {int(fact.amount) for fact in watch.facts(TransferSeen)} < {*range(1, 31), 77, 78}:
        await watch.step()
    assert sorted(int(f.amount) for f in watch.facts(TransferSeen) if f.block is None) == [77, 78]
    bitcoin.mine()
    await watch.covers_head()
    assert watch.paid() == [*range(1, 31), 77, 78]
    assert bitcoin.node.faults.struck()
    await watch.source.close()
