"""A week of a chain of 12 seconds a block, read at once: the work grows with it and no faster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, func, select

from reconciler.intake.lane import BATCH_MAX
from reconciler.services.apply_facts import apply_facts
from reconciler.storage import tables
from reconciler.storage.positions import PositionMovedError
from reconciler.stream.promise import Batch, Lane, Outgoing, Record
from reconciler.stream.topics import transfers_topic
from reconciler.watch.checkpoint import CHUNK_OFFSETS, read_tail
from schemas.codec import decode_as
from schemas.facts import Watermark
from tests.parts.applying import SPECS
from tests.parts.memory_stream import MemoryLog, MemoryStream
from tests.parts.world import ETHEREUM, World

WEEK = timedelta(days=7)
WEEK_BLOCKS = int(WEEK.total_seconds()) // 12
#: Blocks behind the head that are not final; some more than Ethereum has.
NOT_FINAL = 100
#: Statements that a batch may take beyond those of the first, for what falls due in it.
DUE_MAX = 40
LANE = Lane(transfers_topic(ETHEREUM), 0)


def week_of(world: World) -> list[Record]:
    """A watermark a block, as a watcher that never rests writes them."""
    chain = world.ethereum
    records = []
    for _ in range(WEEK_BLOCKS):
        chain.finalized = max(0, chain.height - NOT_FINAL)
        records.append(world.record(LANE, "block", chain.watermark()))
    return records


def batches_of(records: list[Record]) -> list[Batch]:
    parts = [records[start : start + BATCH_MAX] for start in range(0, len(records), BATCH_MAX)]
    return [Batch(lane=LANE, records=part, next_offset=part[-1].offset + 1) for part in parts]


async def rows_of(world: World, table: Any) -> int:
    async with world.engine.connect() as connection:
        found = await connection.execute(select(func.count()).select_from(table))
        return int(found.scalar_one())


async def test_intake_that_slept_a_week_does_its_last_batch_like_its_first() -> None:
    """Work is counted in statements of the database; what is told a second time changes nothing."""
    world = await World.open()
    world.context.lanes = {ETHEREUM: 1}
    await world.place("o-1")
    await world.inbox(world.now + WEEK)
    statements = 0

    @event.listens_for(world.engine.sync_engine, "before_cursor_execute")
    def _count(*_: Any) -> None:
        nonlocal statements
        statements += 1

    week = week_of(world)
    costs: list[int] = []
    for batch in batches_of(week):
        before = statements
        await world.apply_batch(batch)
        costs.append(statements - before)
    assert (await world.last("o-1")).phase == "expired"
    assert costs[-1] <= costs[0]
    # One batch judges the order as well, whose time ends in it.
    assert sorted(costs)[-2] <= costs[0]
    assert max(costs) <= costs[0] + DUE_MAX
    kept, told = await rows_of(world, tables.lane_log), await rows_of(world, tables.outbox)
    assert kept == WEEK_BLOCKS

    # Told again at the old offsets, and at new ones, as by a log that was copied.
    (first, *_, last) = batches_of(week)
    with pytest.raises(PositionMovedError):
        await apply_facts(world.store, world.context, first, held=None)
    for batch in (first, last):
        before = statements
        moved = [world.record(LANE, "block", _read(record)) for record in batch.records]
        await world.apply_records(LANE, moved)
        # Each asks what stood at its height, and notes that the chain was heard.
        assert statements - before <= 2 * len(moved) + DUE_MAX
    # The covered block's watermark again is kept: `orders` may have been read further since.
    assert await rows_of(world, tables.lane_log) == kept + 1
    assert await rows_of(world, tables.outbox) == told
    await world.close()


def _read(record: Record) -> Watermark:
    return decode_as(Watermark, record.value or b"")


async def test_watcher_that_starts_behind_a_week_reads_the_end_of_its_log_and_no_more() -> None:
    world = World.without_database()
    log = MemoryLog()
    log.create(SPECS)
    stream, read = MemoryStream(log), 0
    writer = stream.writer("test")
    await writer.start()
    week = week_of(world)
    for batch in batches_of(week):
        await writer.append(
            [
                Outgoing(lane=r.lane, key=r.key, value=r.value, headers=r.headers)
                for r in batch.records
            ]
        )
    look = stream.read

    async def counted(*arguments: Any, **named: Any) -> Batch:
        nonlocal read
        batch = await look(*arguments, **named)
        read += len(batch.records)
        return batch

    stream.read = counted  # type: ignore[method-assign]
    tail = await read_tail(stream, ETHEREUM, reorganisation_limit=64)
    assert tail.checkpoint is not None
    assert tail.checkpoint.last.height == world.ethereum.height
    assert tail.checkpoint.watermarks[0].height <= world.ethereum.finalized
    assert read <= CHUNK_OFFSETS
