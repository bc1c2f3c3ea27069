"""The outbox of one shard: numbered batches, so that what arrived can be told after a crash.

A relay takes a shard with an epoch of its own. One that has lost the shard cannot number a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from sqlalchemy import bindparam, delete, func, select, text, update

from reconciler.storage.bulk import insert, upsert
from reconciler.storage.reads import count_at_most, fetch, one_of
from reconciler.storage.rows import OutboxRow, UnsentRow
from reconciler.storage.tables import outbox, relays, unsent
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


async def put(work: Work, messages: Sequence[OutboxRow]) -> None:
    """Write messages, in their order. Ids rise with it: whoever waits for a lock of ours draws later."""
    ids = await _next_ids(work, len(messages))
    for message, number in zip(messages, ids, strict=True):
        message.id = number
    await insert(work.connection, outbox, messages)
    waiting = [UnsentRow(id=message.id, shard=message.shard) for message in messages]
    await insert(work.connection, unsent, waiting)


async def _next_ids(work: Work, count: int) -> Sequence[int]:
    if work.is_postgresql:
        drawn = await work.connection.execute(
            text("SELECT nextval('outbox_id_seq') FROM generate_series(1, :count)"),
            {"count": count},
        )
        return sorted(int(row[0]) for row in drawn)
    last = await work.connection.execute(select(func.coalesce(func.max(outbox.c.id), 0)))
    first = int(last.scalar_one()) + 1
    return range(first, first + count)


#: Asked forty times a second by a relay that is idle: building it takes longer than its answer.
_FIRST_UNSENT: Final = select(unsent.c.id).where(unsent.c.shard == bindparam("shard")).limit(1)


async def is_waiting(work: Work, shard: int) -> bool:
    """Tell whether a message has not left; looked at often, so it takes no lock.

    Also one that has a number: a relay that is idle has none of its own, so another one has been here.
    """
    found = await work.connection.execute(_FIRST_UNSENT, {"shard": shard})
    return found.first() is not None


async def number_above(work: Work, shard: int, number: int, *, epoch: int) -> None:
    """Let no batch of a shard have this number or a lower one from now on.

    **Raises**: `ShardLostError` when the epoch is no longer ours.
    """
    await _require_epoch(work, shard, epoch)
    await work.connection.execute(
        update(relays).where(relays.c.shard == shard, relays.c.batch < number).values(batch=number)
    )


async def number_batch(work: Work, shard: int, *, epoch: int, limit: int) -> int | None:
    """Give the oldest waiting messages a number; None when nothing waits.

    Asked again, it gives the same number until that batch is marked: a connection may be lost while
    it commits, and the unit of work is then repeated. A later number must not overtake one that was
    never sent. **Raises**: `ShardLostError` when the epoch is no longer ours.
    """
    under_way = await numbered(work, shard)
    if under_way:
        await _require_epoch(work, shard, epoch)
        return under_way[0]
    waiting = (
        select(unsent.c.id)
        .where(unsent.c.shard == shard, unsent.c.batch.is_(None))
        .order_by(unsent.c.id)
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
        update(unsent).where(one_of(work, unsent.c.id, ids)).values(batch=int(number))
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
        select(unsent.c.batch)
        .where(unsent.c.shard == shard, unsent.c.batch.is_not(None))
        .distinct()
        .order_by(unsent.c.batch)
    )
    return [int(row[0]) for row in found]


async def messages_of(work: Work, shard: int, batch: int) -> Sequence[OutboxMessage]:
    """Read a batch in the order in which it was written."""
    statement = (
        select(outbox.c.id, outbox.c.topic, outbox.c.key, outbox.c.headers, outbox.c.value)
        .join(unsent, unsent.c.id == outbox.c.id)
        .where(unsent.c.shard == shard, unsent.c.batch == batch)
        .order_by(outbox.c.id)
    )
    return await fetch(work, OutboxMessage, statement)


async def mark_sent(work: Work, shard: int, batch: int) -> None:
    """Note that a batch arrived."""
    await work.connection.execute(
        delete(unsent).where(unsent.c.shard == shard, unsent.c.batch == batch)
    )


class Backlog(Struct, frozen=True):
    """How many messages of a shard wait, counted up to a most, and since when the oldest does."""

    pending: int
    oldest: datetime | None


async def backlog(work: Work, shard: int, *, count_max: int) -> Backlog:
    """Tell what waits to leave. Reads only what was not sent, and no more of it than asked."""
    waits = unsent.c.shard == shard
    first = select(func.min(unsent.c.id)).where(waits).scalar_subquery()
    oldest = await work.connection.execute(select(outbox.c.recorded_at).where(outbox.c.id == first))
    pending = await count_at_most(work, select(unsent.c.id).where(waits), count_max)
    return Backlog(pending, oldest.scalar_one_or_none())
