"""What only the SQL stream does: share a transaction, clean itself, live by leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.storage.engine import make_engine
from reconciler.storage.stream_tables import stream_lanes, stream_messages, stream_metadata
from reconciler.stream.promise import (
    Fenced,
    Lane,
    OutcomeUnknown,
    Outgoing,
    StreamUnavailable,
    TopicSpec,
    read_all,
)
from reconciler.stream.sql import SqlStream
from reconciler.stream.sql_cleanup import STEP_MESSAGES_MAX, TOMBSTONE_KEPT_S, clean
from reconciler.stream.sql_database import Database
from tests.parts.postgres import PostgresServer

EVENTS = TopicSpec(name="events", partitions=2, cleanup="delete", retention_s=3_600)
LAST = TopicSpec(name="last", partitions=1, cleanup="compact", retention_s=None)
EVENT = Lane(topic="events", partition=0)
LATEST = Lane(topic="last", partition=0)
US = 1_000_000


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[AsyncEngine]:
    made = make_engine(request.getfixturevalue(f"{request.param}_url"))
    async with made.begin() as connection:
        await connection.run_sync(stream_metadata.create_all)
    yield made
    await made.dispose()


@pytest.fixture
async def stream(engine: AsyncEngine) -> AsyncIterator[SqlStream]:
    made = SqlStream(engine, lease_s=1.0)
    await made.start()
    await made.create_topics([EVENTS, LAST])
    yield made
    await made.close()


def message(lane: Lane, key: bytes, value: bytes | None = b"v") -> Outgoing:
    return Outgoing(lane=lane, key=key, value=value, headers=())


async def append(stream: SqlStream, *messages: Outgoing) -> None:
    writer = stream.writer("test")
    await writer.start()
    await writer.append(messages)


async def make_older(engine: AsyncEngine, lane: Lane, *, upto: int, seconds: int) -> None:
    lane_id = select(stream_lanes.c.lane_id).where(
        stream_lanes.c.topic == lane.topic, stream_lanes.c.partition_index == lane.partition
    )
    async with engine.begin() as connection:
        await connection.execute(
            update(stream_messages)
            .where(
                stream_messages.c.lane_id == lane_id.scalar_subquery(),
                stream_messages.c.log_offset < upto,
            )
            .values(time_us=stream_messages.c.time_us - seconds * US)
        )


async def test_messages_appear_with_the_commit_of_the_callers_transaction(
    stream: SqlStream, engine: AsyncEngine
) -> None:
    async with engine.connect() as connection, connection.begin() as transaction:
        await stream.append_in(connection, [message(EVENT, b"lost")])
        await transaction.rollback()
    async with engine.begin() as connection:
        await stream.append_in(connection, [message(EVENT, b"kept"), message(LATEST, b"kept")])
        assert await read_all(stream, EVENT) == []
    stream.wake()
    (record,) = await read_all(stream, EVENT)
    assert (record.key, record.offset) == (b"kept", 0)


async def test_a_fenced_writer_spoils_the_callers_transaction(
    stream: SqlStream, engine: AsyncEngine
) -> None:
    old, young = stream.sql_writer("relay/0"), stream.sql_writer("relay/0")
    await old.start()
    await young.start()
    with pytest.raises(Fenced):
        async with engine.begin() as connection:
            await old.append_in(connection, [message(EVENT, b"old")])
    async with engine.begin() as connection:
        await young.append_in(connection, [message(EVENT, b"young")])
    assert [record.key for record in await read_all(stream, EVENT)] == [b"young"]


async def test_old_messages_leave_and_the_lane_says_from_where_it_is_kept(
    stream: SqlStream, engine: AsyncEngine
) -> None:
    await append(stream, *(message(EVENT, b"%d" % number) for number in range(10)))
    await make_older(engine, EVENT, upto=4, seconds=3_601)
    assert await clean(Database(engine)) == 4
    assert await stream.bounds(EVENT) == (4, 10)
    assert [record.offset for record in await read_all(stream, EVENT)] == [4, 5, 6, 7, 8, 9]
    assert await clean(Database(engine)) == 0


async def test_a_backlog_is_cleaned_in_steps(stream: SqlStream, engine: AsyncEngine) -> None:
    count = STEP_MESSAGES_MAX + 100
    await append(stream, *(message(EVENT, b"k") for _ in range(count)))
    await make_older(engine, EVENT, upto=count, seconds=3_601)
    assert await clean(Database(engine)) == count
    assert await stream.bounds(EVENT) == (count, count)
    await append(stream, message(EVENT, b"next"))
    (record,) = await read_all(stream, EVENT)
    assert record.offset == count


async def test_a_compacted_topic_keeps_the_last_of_each_key(
    stream: SqlStream, engine: AsyncEngine
) -> None:
    for value in (b"1", b"2"):
        await append(stream, message(LATEST, b"a", value), message(LATEST, b"b", value))
    await append(stream, message(LATEST, b"c", b"1"))
    assert await clean(Database(engine)) == 2
    await append(stream, message(LATEST, b"a", b"3"))
    assert await clean(Database(engine)) == 1
    kept = [(record.key, record.value) for record in await read_all(stream, LATEST)]
    assert kept == [(b"b", b"2"), (b"c", b"1"), (b"a", b"3")]
    assert await stream.bounds(LATEST) == (0, 6)


async def test_a_tombstone_stays_a_day_and_what_it_replaced_goes_at_once(
    stream: SqlStream, engine: AsyncEngine
) -> None:
    await append(stream, message(LATEST, b"a"), message(LATEST, b"a", None))
    assert await clean(Database(engine)) == 1
    assert [record.value for record in await read_all(stream, LATEST)] == [None]
    await make_older(engine, LATEST, upto=2, seconds=TOMBSTONE_KEPT_S + 1)
    assert await clean(Database(engine)) == 1
    assert await read_all(stream, LATEST) == []
    batch = await stream.read(LATEST, from_offset=0, records_max=10)
    assert batch.next_offset == 2


async def test_topics_kept_by_time_are_not_compacted(
    stream: SqlStream, engine: AsyncEngine
) -> None:
    await append(stream, message(EVENT, b"a"), message(EVENT, b"a"))
    assert await clean(Database(engine)) == 0


async def test_lanes_of_a_member_that_died_are_taken_over(
    stream: SqlStream, engine: AsyncEngine
) -> None:
    dies, lives = stream.group("g", ["events"]), stream.group("g", ["events"])
    await dies.start()
    assert len(await dies.lanes()) == 2
    for task in dies._tasks:
        task.cancel()
    await lives.start()
    async with asyncio.timeout(10):
        while len(await lives.lanes()) < 2:
            await lives.changed(1.0)
    await lives.close()
    assert await dies.lanes() == {}


@pytest.mark.postgres
async def test_another_process_is_notified(postgres_url: str) -> None:
    """Far faster than the poll: a hundred turns take less than a quarter of the polls' time."""
    engines = [make_engine(postgres_url) for _ in range(2)]
    async with engines[0].begin() as connection:
        await connection.run_sync(stream_metadata.create_all)
    one, other = (SqlStream(engine) for engine in engines)
    await one.start()
    await one.create_topics([EVENTS])
    await other.start()
    writer = one.writer("test")
    await writer.start()
    offset = 0
    clock = asyncio.get_running_loop().time
    started = clock()
    for _ in range(100):
        reading = asyncio.create_task(
            other.read(EVENT, from_offset=offset, records_max=1, wait_s=10)
        )
        await asyncio.sleep(0)
        await writer.append([message(EVENT, b"k")])
        offset = (await reading).next_offset
    assert clock() - started < 100 * 0.25 / 4
    for stream, engine in zip((one, other), engines, strict=True):
        await stream.close()
        await engine.dispose()


@pytest.mark.postgres
async def test_the_log_goes_on_after_the_database_was_killed() -> None:
    server = PostgresServer()
    await asyncio.to_thread(server.start)
    engine = make_engine(server.new_database())
    async with engine.begin() as connection:
        await connection.run_sync(stream_metadata.create_all)
    stream = SqlStream(engine, lease_s=2.0)
    await stream.start()
    await stream.create_topics([EVENTS])
    group, writer = stream.group("g", ["events"]), stream.writer("w")
    await group.start()
    await writer.start()
    await writer.append([message(EVENT, b"before")])

    await asyncio.to_thread(server.kill)
    with pytest.raises((StreamUnavailable, OutcomeUnknown)):
        await writer.append([message(EVENT, b"lost")])
    await asyncio.to_thread(server.restart)

    async with asyncio.timeout(30):
        await writer.start()
        await writer.append([message(EVENT, b"after")])
        while EVENT not in await group.lanes():
            await group.changed(1.0)
        reader = (await group.lanes())[EVENT]
        await reader.seek(None)
        found: list[bytes] = []
        while len(found) < 2:
            batch = await reader.read(records_max=10, wait_s=1.0)
            found += [record.key for record in batch.records]
    assert found == [b"before", b"after"]
    await group.close()
    await stream.close()
    await engine.dispose()
    await asyncio.to_thread(server.stop)
