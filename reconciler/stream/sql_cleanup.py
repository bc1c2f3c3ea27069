"""Takes out of the SQL stream what its topics no longer keep, a bounded number at a time.

Topics kept by time lose their oldest records, and readers see that by the lane's first offset.
Compacted topics lose records that a newer one of the same key has made needless, and tombstones after
a day; their first offset stays.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from chains.heed import heed_cancellation
from reconciler.storage.stream_tables import stream_lanes, stream_messages, stream_topics
from reconciler.stream.sql_database import UNREACHABLE, Database

#: Messages looked at in one transaction: its locks are short.
STEP_MESSAGES_MAX: Final = 2_000
#: Steps a lane in one round; the rest waits for the next round.
ROUND_STEPS_MAX: Final = 50
#: Kafka's own default for `delete.retention.ms`.
TOMBSTONE_KEPT_S: Final = 86_400
US: Final = 1_000_000

log = structlog.get_logger(__name__)


async def clean_for_ever(database: Database, interval_s: float) -> None:
    """Clean every so often; a database that cannot be reached is tried again the next time."""
    while True:
        heed_cancellation()
        await asyncio.sleep(interval_s)
        try:
            removed = await clean(database)
        except UNREACHABLE as error:
            log.warning("the stream could not be cleaned", reason=str(error))
        else:
            if removed:
                log.info("the stream was cleaned", messages=removed)


async def clean(database: Database) -> int:
    """Clean every lane once, within bounds. Give how many messages are gone."""
    query = select(stream_lanes.c.lane_id, stream_topics.c.cleanup, stream_topics.c.retention_s)
    async with database.reading() as connection:
        lanes = (await connection.execute(query.join(stream_topics))).all()
    removed = 0
    for lane_id, cleanup, retention_s in lanes:
        for _ in range(ROUND_STEPS_MAX):
            if cleanup == "compact":
                looked_at, gone = await _compact_step(database, lane_id)
            else:
                looked_at, gone = await _retention_step(database, lane_id, retention_s)
            removed += gone
            if looked_at < STEP_MESSAGES_MAX:
                break
    return removed


async def _retention_step(
    database: Database, lane_id: int, retention_s: int | None
) -> tuple[int, int]:
    """Remove the oldest messages that are too old. Times rise within a lane: they are its beginning."""
    if retention_s is None:
        return 0, 0
    messages = stream_messages.c
    oldest = (
        select(messages.log_offset, messages.time_us)
        .where(messages.lane_id == lane_id)
        .order_by(messages.log_offset)
        .limit(STEP_MESSAGES_MAX)
        .subquery()
    )
    too_old = select(func.max(oldest.c.log_offset)).where(
        oldest.c.time_us < database.now_us() - retention_s * US
    )
    async with database.reading() as connection:
        last = (await connection.execute(too_old)).scalar_one()
    if last is None:
        return 0, 0
    async with database.writing() as connection:
        await connection.execute(
            update(stream_lanes)
            .where(stream_lanes.c.lane_id == lane_id, stream_lanes.c.first_offset <= last)
            .values(first_offset=last + 1)
        )
        gone = await _delete(connection, messages.lane_id == lane_id, messages.log_offset <= last)
    return gone, gone


async def _compact_step(database: Database, lane_id: int) -> tuple[int, int]:
    """Look at the next messages that are new since the last time; remove what they replace."""
    head = select(stream_lanes.c.compacted_to, stream_lanes.c.next_offset).where(
        stream_lanes.c.lane_id == lane_id
    )
    async with database.reading() as connection:
        start, end = (await connection.execute(head)).one()
    upto = min(end, start + STEP_MESSAGES_MAX)
    removed = 0
    async with database.writing() as connection:
        if upto > start:
            removed += await _remove_replaced(connection, lane_id, start, upto)
            await connection.execute(
                update(stream_lanes)
                .where(stream_lanes.c.lane_id == lane_id, stream_lanes.c.compacted_to < upto)
                .values(compacted_to=upto)
            )
        removed += await _remove_tombstones(database, connection, lane_id, upto)
    return upto - start, removed


async def _remove_replaced(connection: AsyncConnection, lane_id: int, start: int, upto: int) -> int:
    newer, older = stream_messages.alias("newer").c, stream_messages.c
    keys = select(newer.message_key).where(
        newer.lane_id == lane_id, newer.log_offset >= start, newer.log_offset < upto
    )
    last_of_key = (
        select(func.max(newer.log_offset))
        .where(
            newer.lane_id == lane_id,
            newer.message_key == older.message_key,
            newer.log_offset < upto,
            newer.compacted,
        )
        .scalar_subquery()
    )
    return await _delete(
        connection,
        older.lane_id == lane_id,
        older.compacted,
        older.message_key.in_(keys),
        older.log_offset < last_of_key,
    )


async def _remove_tombstones(
    database: Database, connection: AsyncConnection, lane_id: int, upto: int
) -> int:
    messages = stream_messages.c
    old_enough = (
        select(messages.log_offset)
        .where(
            messages.lane_id == lane_id,
            messages.message_value.is_(None),
            messages.log_offset < upto,
            messages.time_us < database.now_us() - TOMBSTONE_KEPT_S * US,
        )
        .limit(STEP_MESSAGES_MAX)
    )
    return await _delete(
        connection, messages.lane_id == lane_id, messages.log_offset.in_(old_enough)
    )


async def _delete(connection: AsyncConnection, *conditions: Any) -> int:
    return (await connection.execute(delete(stream_messages).where(*conditions))).rowcount
