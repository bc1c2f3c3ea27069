"""Whole lives of matched transfers (seen, final, two events): Kafka, PostgreSQL and us on the same
cores; the intake alone; and as a floor the bulk insert of the same rows.

Two lanes and two intakes, since there are two cores; every part is a process of its own, as in a shop.
"""

from __future__ import annotations

import asyncio
import json
import time

from sqlalchemy import MetaData, select, text

from reconciler.storage import rows, tables
from reconciler.storage.bulk import insert
from reconciler.storage.reads import columns_of, fetch
from reconciler.storage.unit_of_work import Work
from reconciler.stream.promise import Lane
from reconciler.stream.topics import PAYMENT_EVENTS
from tests.bench.processor import used
from tests.bench.report import Row, show
from tests.bench.service import BenchService, kafka, postgres
from tests.bench.side import BATCH, payment, spawn
from tests.parts.world import World

LIVES = 8_000
WARM = 2_000
LANES = 2
STEP = 200


async def test_whole_lives() -> None:
    with postgres() as url, kafka() as bootstrap:
        async with BenchService.open(url, bootstrap, lanes=LANES) as service:
            floor = await _floor_and_intake(service, url)
            lives_s = await _lives(service)
    show("whole lives", [*floor, lives_s])


async def _lives(service: BenchService) -> Row:
    """Publish blocks of payments as fast as the log takes them, until every second event is out.

    The first ones only warm everything up.
    """
    ear = Ear(service)
    await service.place(LIVES, WARM + LIVES)
    await service.begin_at_the_log()
    async with service.running(intakes=LANES):
        await service.drained()
        await _live(service, ear, LIVES, WARM)
        before, started = used(), time.perf_counter()
        await _live(service, ear, LIVES + WARM, LIVES)
        spent, cost = time.perf_counter() - started, used() - before
    parts = ", ".join(f"{kind} {s / LIVES * 1e6:,.0f}" for kind, s in cost.most_common())
    return Row(
        what="whole life of a matched transfer",
        value=LIVES / spent,
        unit="lives/s",
        budget=">= 1,200/s",
        beside=f"µs of processor a life: {parts}",
    )


async def _live(service: BenchService, ear: Ear, first: int, count: int) -> None:
    chain, before = service.world.ethereum, await ear.heard()
    for start in range(first, first + count, STEP):
        facts = [payment(chain, n) for n in range(start, start + STEP)]
        await service.publish(*facts, chain.watermark())
    await service.publish(*(chain.watermark() for _ in range(3)))
    while await ear.heard() < before + 2 * count:
        await asyncio.sleep(0.1)


class Ear:
    """Counts the events that a committed reader can see."""

    def __init__(self, service: BenchService) -> None:
        self._service = service
        self._next = dict.fromkeys(range(6), 0)
        self._count = 0

    async def heard(self) -> int:
        for number in self._next:
            while await self._read_on(Lane(PAYMENT_EVENTS, number)):
                pass
        return self._count

    async def _read_on(self, lane: Lane) -> bool:
        offset = self._next[lane.partition]
        _, end = await self._service.stream.bounds(lane)
        if offset >= end:
            return False
        batch = await self._service.stream.read(
            lane, from_offset=offset, records_max=5_000, wait_s=0.2
        )
        self._count += len(batch.records)
        self._next[lane.partition] = batch.next_offset
        return batch.next_offset > offset


async def _floor_and_intake(service: BenchService, url: str) -> list[Row]:
    """Apply facts without the log, then insert the very rows that it wrote into empty tables."""
    world = service.world
    await service.place(0, LIVES)
    seen_s = await _on_every_lane("seen", url)
    await world.inbox()
    for _ in range(4):
        mark = world.ethereum.watermark()
        for lane in world.ethereum.lanes:
            await world.facts(mark, lane=lane)
    final_s = await _on_every_lane("sweep", url)
    floor_s = await _insert_again(world)
    return [
        Row(
            what="intake alone, facts to committed outbox",
            value=LIVES / seen_s,
            unit="transfers/s",
            budget=">= 4,000/s",
            beside=f"bulk insert of the same rows, one after another: {LIVES / floor_s:,.0f}/s",
        ),
        Row(what="sweep alone, final to committed outbox", value=LIVES / final_s, unit="orders/s"),
    ]


async def _on_every_lane(what: str, url: str) -> float:
    """Let a process a lane do its share, all at once; gives the longest time."""
    lanes = [spawn(what, url, str(n), str(LANES), str(LIVES)) for n in range(LANES)]
    for process in lanes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in lanes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    said = [process.communicate()[0] for process in lanes]
    return max(float(json.loads(words)["seconds"]) for words in said)


async def _insert_again(world: World) -> float:
    """The floor: the same rows of the same tables, in the same batches, and nothing else."""
    kinds = [
        (tables.transfers, rows.TransferRow),
        (tables.journal, rows.JournalRow),
        (tables.outbox, rows.OutboxRow),
        (tables.unsent, rows.UnsentRow),
        (tables.orders, rows.OrderRow),
    ]
    async with world.engine.connect() as connection:
        work = Work(connection)
        taken = [
            (table, await fetch(work, kind, select(*columns_of(table, kind)).limit(LIVES)))
            for table, kind in kinds
        ]
    async with world.engine.begin() as connection:
        for table, _ in kinds:
            await connection.execute(
                text(f"CREATE TABLE floor_{table.name} (LIKE {table.name} INCLUDING ALL)")
            )
    spent = 0.0
    for start in range(0, LIVES, BATCH):
        started = time.perf_counter()
        async with world.engine.begin() as connection:
            await connection.execute(text("SELECT 1"))
            for table, found in taken:
                await insert(connection, _floor_table(table), found[start : start + BATCH])
        spent += time.perf_counter() - started
    return spent


def _floor_table(table):
    """Give the empty copy of a table."""
    return table.to_metadata(MetaData(), name=f"floor_{table.name}")
