"""The outbox of one shard: numbered batches, so that what arrived can be told after a crash.

A relay takes a shard with an epoch of its own. One that has lost the shard cannot number a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from sqlalchemy import select, update

from reconciler.storage.bulk import upsert
from reconciler.storage.reads import count_at_most, fetch, one_of
from reconciler.storage.tables import outbox, relays
from reconciler.storage.unit_of_work import Work
from schemas.values import Message


class ShardLostError(Exception):
    """A younger relay has taken the shard."""


class OutboxMessage(Struct):
    """A message as it waits."""

    id: int
    topic: str
    key: bytes
    headers: bytes
    value: bytes | None


class _Relay(Message, frozen=True):
    shard: int
    epoch: int
    batch: int


async def take_shard(work: Work, shard: int, *, held: int = 0) -> int:
    """Take a shard over; gives the epoch that its holder must name from now on.

    Whoever had it before names the epoch that it `held` and goes on with it. **Raises**:
    `ShardLostError` when a younger holder has come since.
    """
    await work.lock_names([f"relay/{shard}"])
    found = await work.connection.execute(
        select(relays.c.epoch, relays.c.batch).where(relays.c.shard == shard)
    )
    row = found.first()
    last, batch = (int(row[0]), int(row[1])) if row else (0, 0)
    if held:
        if held != last:
            message = f"another relay has taken shard {shard}"
            raise ShardLostError(message)
        return held
    epoch = last + 1
    await upsert(
        work.connection, relays, [_Relay(shard=shard, epoch=epoch, batch=batch)], keys=("shard",)
    )
    return epoch


async def is_waiting(work: Work, shard: int) -> bool:
    """Tell whether a message waits for a number; looked at often, so it takes no lock."""
    found = await work.connection.execute(
        select(outbox.c.id)
        .where(outbox.c.shard == shard, ~outbox.c.sent, outbox.c.batch.is_(None))
        .limit(1)
    )
    return found.first() is not None


async def number_batch(work: Work, shard: int, *, epoch: int, limit: int) -> int | None:
    """Give the oldest waiting messages a number; None when nothing waits.

    Asked again, it gives the same number until that batch is marked: a connection may be lost while
    it commits, and the unit of work is then repeated. A later number must not overtake one that was
    never sent. **Raises**: `ShardLostError` when the epoch is no longer ours.
    """
    unsent = await numbered(work, shard)
    if unsent:
        await _require_epoch(work, shard, epoch)
        return unsent[0]
    waiting = (
        select(outbox.c.id)
        .where(outbox.c.shard == shard, ~outbox.c.sent, outbox.c.batch.is_(None))
        .order_by(outbox.c.id)
        .limit(limit)
    )
    ids = [row[0] for row in await work.connection.execute(waiting)]
    if not ids:
        return None
    moved = await work.connection.execute(
        update(relays)
        .where(relays.c.shard == shard, relays.c.epoch == epoch)
        .values(batch=relays.c.batch + 1)
        .returning(relays.c.batch)
    )
    number = moved.scalar_one_or_none()
    if number is None:
        message = f"another relay has taken shard {shard}"
        raise ShardLostError(message)
    await work.connection.execute(
        update(outbox).where(one_of(work, outbox.c.id, ids)).values(batch=int(number))
    )
    return int(number)


async def _require_epoch(work: Work, shard: int, epoch: int) -> None:
    found = await work.connection.execute(select(relays.c.epoch).where(relays.c.shard == shard))
    if found.scalar_one_or_none() != epoch:
        message = f"another relay has taken shard {shard}"
        raise ShardLostError(message)


async def numbered(work: Work, shard: int) -> Sequence[int]:
    """List the numbers of batches that are not marked as sent, oldest first."""
    found = await work.connection.execute(
        select(outbox.c.batch)
        .where(outbox.c.shard == shard, ~outbox.c.sent, outbox.c.batch.is_not(None))
        .distinct()
        .order_by(outbox.c.batch)
    )
    return [int(row[0]) for row in found]


async def messages_of(work: Work, shard: int, batch: int) -> Sequence[OutboxMessage]:
    """Read a batch in the order in which it was written."""
    statement = (
        select(outbox.c.id, outbox.c.topic, outbox.c.key, outbox.c.headers, outbox.c.value)
        .where(outbox.c.shard == shard, ~outbox.c.sent, outbox.c.batch == batch)
        .order_by(outbox.c.id)
    )
    return await fetch(work, OutboxMessage, statement)


async def mark_sent(work: Work, shard: int, batch: int) -> None:
    """Note that a batch arrived."""
    await work.connection.execute(
        update(outbox)
        .where(outbox.c.shard == shard, ~outbox.c.sent, outbox.c.batch == batch)
        .values(sent=True)
    )


class Backlog(Struct, frozen=True):
    """How many messages of a shard wait, counted up to a most, and since when the oldest does."""

    pending: int
    oldest: datetime | None


async def backlog(work: Work, shard: int, *, count_max: int) -> Backlog:
    """Tell what waits to leave. Reads the index of what is not sent, and no more of it than asked."""
    unsent = (outbox.c.shard == shard, ~outbox.c.sent)
    first = select(outbox.c.recorded_at).where(*unsent).order_by(outbox.c.id).limit(1)
    oldest = (await work.connection.execute(first)).scalar_one_or_none()
    pending = await count_at_most(work, select(outbox.c.id).where(*unsent), count_max)
    return Backlog(pending, oldest)
