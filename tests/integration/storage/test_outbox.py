"""The outbox when the answer to a commit is lost: the unit of work is repeated and must say the same."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.storage import outbox, tables
from reconciler.storage.outbox import ShardLostError
from reconciler.storage.rows import OutboxRow
from reconciler.storage.unit_of_work import Store
from tests.parts.world import START

SHARD = 0


async def _store_with(engine: AsyncEngine, messages: int) -> tuple[Store, int]:
    store = Store(engine)
    async with engine.begin() as connection:
        await connection.run_sync(tables.metadata.create_all)
    rows = [
        OutboxRow(
            shard=SHARD,
            topic="payment-events",
            key=b"o-1",
            type="payment.adjusted",
            event_id=f"event-{number}",
            headers=b"\x90",
            value=b"{}",
            recorded_at=START,
        )
        for number in range(messages)
    ]
    await store.run(lambda work: outbox.put(work, rows))
    return store, await store.run(lambda work: outbox.take_shard(work, SHARD))


async def test_batch_whose_number_was_committed_unheard_is_numbered_no_second_time(
    engine: AsyncEngine,
) -> None:
    """A later batch that is sent before it would let it count as arrived: its events were lost."""
    store, epoch = await _store_with(engine, messages=2)

    async def number() -> int | None:
        return await store.run(
            lambda work: outbox.number_batch(work, SHARD, epoch=epoch, limit=1), name="number"
        )

    first = await number()
    assert await number() == first
    assert first is not None
    await store.run(lambda work: outbox.mark_sent(work, SHARD, first))
    assert await number() == first + 1


async def test_old_relay_numbers_nothing_even_where_a_batch_waits(engine: AsyncEngine) -> None:
    store, old = await _store_with(engine, messages=2)
    await store.run(lambda work: outbox.number_batch(work, SHARD, epoch=old, limit=1))
    await store.run(lambda work: outbox.take_shard(work, SHARD))
    with pytest.raises(ShardLostError):
        await store.run(lambda work: outbox.number_batch(work, SHARD, epoch=old, limit=1))
