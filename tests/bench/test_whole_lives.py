"""Whole lives of matched transfers (seen, final, two events): Kafka, PostgreSQL and us on the same
cores; the intake alone; and as a floor the bulk insert of the same rows."""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import select, text

from reconciler.services.apply_facts import apply_facts
from reconciler.services.sweep import sweep_lane
from reconciler.storage import rows, tables
from reconciler.storage.bulk import insert
from reconciler.storage.reads import columns_of, fetch
from reconciler.storage.unit_of_work import Work
from reconciler.stream.promise import Batch, Lane
from reconciler.stream.topics import PAYMENT_EVENTS
from tests.bench.report import Row, show
from tests.bench.service import BenchService, kafka, postgres
from tests.parts.world import World, address

LIVES = 6_000
STEP = 200


async def test_whole_lives() -> None:
    with postgres() as url, kafka() as bootstrap:
        async with BenchService.open(url, bootstrap) as service:
            floor = await _floor_and_intake(service)
            lives_s = await _lives(service)
    show("whole lives", [*floor, lives_s])


async def _lives(service: BenchService) -> Row:
    """Publish blocks of payments as fast as the log takes them, until every second event is out."""
    chain = service.world.ethereum
    await service.place(LIVES, LIVES)
    await service.begin_at_the_log()
    async with service.running():
        await service.drained()
        before = await _events(service)
        started = time.perf_counter()
        for start in range(LIVES, 2 * LIVES, STEP):
            facts = [chain.seen(address(n), 25_000_000) for n in range(start, start + STEP)]
            await service.publish(*facts, chain.watermark())
        await service.publish(*(chain.watermark() for _ in range(3)))
        while await _events(service) < before + 2 * LIVES:
            await asyncio.sleep(0.02)
        spent = time.perf_counter() - started
    return Row(
        what="whole life of a matched transfer",
        value=LIVES / spent,
        unit="lives/s",
        budget=">= 1,200/s",
        beside="Kafka, PostgreSQL and the service share the cores",
    )


async def _events(service: BenchService) -> int:
    """Count offsets of the events' lanes: close enough, since markers only add after the last one."""
    bounds = [await service.stream.bounds(Lane(PAYMENT_EVENTS, n)) for n in range(6)]
    if not any(end for _, end in bounds):
        return 0
    found = 0
    for number, (first, end) in enumerate(bounds):
        at = _COUNTED.setdefault(number, [first, 0])
        while at[0] < end:
            batch = await service.stream.read(
                Lane(PAYMENT_EVENTS, number), from_offset=at[0], records_max=5_000, wait_s=0.2
            )
            at[1] += len(batch.records)
            if batch.next_offset == at[0]:
                break
            at[0] = batch.next_offset
        found += at[1]
    return found


_COUNTED: dict[int, list[int]] = {}


async def _floor_and_intake(service: BenchService) -> list[Row]:
    """Apply facts without the log, then insert the very rows that it wrote into empty tables."""
    world = service.world
    await service.place(0, LIVES)
    seen_s = await _apply_seen(world)
    started = time.perf_counter()
    while await sweep_lane(world.store, world.context, world.ethereum.lanes[0].name):
        pass
    final_s = time.perf_counter() - started
    floor_s = await _insert_again(world)
    return [
        Row(
            what="intake alone, facts to committed outbox",
            value=LIVES / seen_s,
            unit="transfers/s",
            budget=">= 4,000/s",
            beside=f"bulk insert of the same rows: {LIVES / floor_s:,.0f}/s",
        ),
        Row(what="sweep alone, final to committed outbox", value=LIVES / final_s, unit="orders/s"),
    ]


async def _apply_seen(world: World) -> float:
    chain, lane = world.ethereum, world.ethereum.lanes[0]
    batches = []
    for start in range(0, LIVES, 250):
        facts = [chain.seen(address(n), 25_000_000) for n in range(start, start + 250)]
        records = [world.record(lane, fact.to, fact) for fact in facts]
        batches.append(Batch(lane=lane, records=records, next_offset=records[-1].offset + 1))
    held = await world.position(lane)
    started = time.perf_counter()
    for batch in batches:
        await apply_facts(world.store, world.context, batch, held=held)
        held = batch.next_offset
    spent = time.perf_counter() - started
    await world.inbox()
    for _ in range(4):
        await world.facts(chain.watermark())
    return spent


async def _insert_again(world: World) -> float:
    """The floor: the same rows of the same tables, in the same batches, and nothing else."""
    kinds = [
        (tables.transfers, rows.TransferRow),
        (tables.journal, rows.JournalRow),
        (tables.outbox, rows.OutboxRow),
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
    for start in range(0, LIVES, 250):
        started = time.perf_counter()
        async with world.engine.begin() as connection:
            await connection.execute(text("SELECT 1"))
            for table, found in taken:
                await insert(connection, _floor_table(table), found[start : start + 250])
        spent += time.perf_counter() - started
    return spent


def _floor_table(table):
    """Give the empty copy of a table."""
    name = f"floor_{table.name}"
    known = table.metadata.tables.get(name)
    return known if known is not None else table.to_metadata(table.metadata, name=name)
