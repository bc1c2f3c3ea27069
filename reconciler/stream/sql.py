"""The log in tables of the same database, for a shop that has not outgrown one.

Reads and writes `reconciler.storage.stream_tables`. Offsets are dense per lane: they are taken from the
lane's head row, which stays locked until the commit. An autoincrement id would not do: it is not the
order of commits, and readers lost 1,438 of 8,000 messages that way (measured).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row, and_, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction

from reconciler.storage.stream_tables import (
    stream_lanes,
    stream_messages,
    stream_topics,
    stream_writers,
)
from reconciler.stream.checks import check_lane, check_messages, differences, lane_counts
from reconciler.stream.promise import (
    Batch,
    Fenced,
    Group,
    Lane,
    OutcomeUnknown,
    Outgoing,
    Record,
    StreamUnavailable,
    TopicSpec,
    Writer,
)
from reconciler.stream.reader import check_kept
from reconciler.stream.sql_cleanup import clean_for_ever
from reconciler.stream.sql_database import (
    UNREACHABLE,
    Database,
    News,
    Wake,
    listen,
    to_datetime,
    unavailable_when_unreachable,
    wait_for_news,
)
from reconciler.stream.sql_group import SqlGroup
from reconciler.stream.tasks import stop_tasks
from schemas.envelope import Headers

APPEND_TIMEOUT_S: Final = 30.0
INSERT_ROWS_MAX: Final = 1_000

_encode_headers: Final = msgspec.msgpack.Encoder().encode
_decode_headers: Final = msgspec.msgpack.Decoder(Headers).decode


class SqlStream:
    """The log over an engine for PostgreSQL (asyncpg) or SQLite (aiosqlite).

    The tables are those of `stream_metadata`; migrations make them. One process uses one `SqlStream`:
    in it an append wakes readers at once. On PostgreSQL other processes are notified; behind both
    stands a poll of 250 ms.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        *,
        clean_interval_s: float = 60.0,
        lease_s: float = 10.0,
        frozen_after_ms: int = 5_000,
    ) -> None:
        self._database = Database(engine, frozen_after_ms=frozen_after_ms)
        self._appended = Wake()
        self._shared = Wake()
        self._clean_interval_s = clean_interval_s
        self._lease_s = lease_s
        self._lane_ids: dict[Lane, int] = {}
        self._specs: dict[str, TopicSpec] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect; begin to listen and to clean."""
        await self._load()
        self._tasks.append(
            asyncio.create_task(clean_for_ever(self._database, self._clean_interval_s))
        )
        if self._database.is_postgresql:
            wakes = {News.APPENDED: self._appended, News.SHARED: self._shared}
            self._tasks.append(asyncio.create_task(listen(self._database, wakes)))

    async def close(self) -> None:
        """Stop listening. The engine is the caller's."""
        await stop_tasks(self._tasks)
        self._appended.all()

    def wake(self) -> None:
        """Wake the readers of this process: after the commit of a transaction with `append_in`."""
        self._appended.all()

    async def create_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        """Make the topics that are missing."""
        with unavailable_when_unreachable("creating topics"):
            async with self._database.writing() as connection:
                made = [spec.name for spec in specs if await self._create_topic(connection, spec)]
        await self._load()
        return made

    async def compare_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        """Say how topics differ."""
        await self._load()
        return [
            sentence for spec in specs for sentence in differences(spec, self._specs.get(spec.name))
        ]

    def writer(self, name: str) -> Writer:
        """Make the appender of a name."""
        return self.sql_writer(name)

    def sql_writer(self, name: str) -> SqlWriter:
        """Make the appender of a name, with what only this stream can: `SqlWriter.append_in`."""
        return SqlWriter(self, self._database, name)

    def group(self, name: str, topics: Sequence[str]) -> Group:
        """Make a member of a group."""
        return SqlGroup(
            self._database,
            self._shared,
            name=name,
            topics=topics,
            lease_s=self._lease_s,
            bounds=self.bounds,
            fetch=self._fetch,
        )

    async def read(
        self, lane: Lane, *, from_offset: int, records_max: int, wait_s: float = 0.0
    ) -> Batch:
        """Read committed records of one lane."""
        return await self._wait_for_records(lane, from_offset, records_max, wait_s)

    async def bounds(self, lane: Lane) -> tuple[int, int]:
        """Give (first kept offset, next offset)."""
        await self._lane_id(lane)
        with unavailable_when_unreachable(f"bounds of {lane.name}"):
            async with self._database.reading() as connection:
                row = (await connection.execute(_bounds_of(lane))).one()
        return int(row.first_offset), int(row.next_offset)

    async def append_in(self, connection: AsyncConnection, messages: Sequence[Outgoing]) -> None:
        """Append inside a transaction of the caller's: all of it becomes visible with its commit.

        Must be the last thing that the transaction does, and done once: lane heads are the last locks.
        Call `wake` after the commit. No name guards it: see `SqlWriter.append_in` for one that does.

        **Raises**: `MessageTooLarge`, `TopicsDiffer`; errors of SQLAlchemy as they are, for the unit
        of work to repeat.
        """
        if not messages:
            return
        await self._know_lanes(messages, connection)
        check_messages(messages, self._specs)
        await self._database.guard_locks(connection)
        await self._insert(connection, messages)
        await self._database.notify(connection, News.APPENDED)

    async def _insert(self, connection: AsyncConnection, messages: Sequence[Outgoing]) -> None:
        offsets: dict[Lane, int] = {}
        times_us: dict[Lane, int] = {}
        for lane, count in lane_counts(messages):
            offsets[lane], times_us[lane] = await self._take_offsets(connection, lane, count)
        rows: list[dict[str, Any]] = []
        for message in messages:
            lane = message.lane
            rows.append(
                {
                    "lane_id": self._lane_ids[lane],
                    "log_offset": offsets[lane],
                    "message_key": message.key,
                    "message_value": message.value,
                    "headers": _encode_headers(message.headers),
                    "time_us": times_us[lane],
                    "compacted": self._specs[lane.topic].cleanup == "compact",
                }
            )
            offsets[lane] += 1
        for start in range(0, len(rows), INSERT_ROWS_MAX):
            await connection.execute(insert(stream_messages), rows[start : start + INSERT_ROWS_MAX])

    async def _take_offsets(
        self, connection: AsyncConnection, lane: Lane, count: int
    ) -> tuple[int, int]:
        """Lock the lane's head, move it, and give the first of the offsets and their time."""
        heads = stream_lanes.c
        moved = (
            update(stream_lanes)
            .where(heads.lane_id == self._lane_ids[lane])
            .values(
                next_offset=heads.next_offset + count,
                last_time_us=self._database.greatest(heads.last_time_us, self._database.now_us()),
            )
            .returning(heads.next_offset, heads.last_time_us)
        )
        row = (await connection.execute(moved)).one()
        return int(row.next_offset) - count, int(row.last_time_us)

    async def _look(self, lane: Lane, from_offset: int, records_max: int) -> tuple[int, Batch]:
        """Read what is there now; give also the lane's first kept offset, of the same moment.

        One statement, so that a clean-up in between cannot take records away unseen.
        """
        lane_id = await self._lane_id(lane)
        query = _records_of(lane_id, from_offset, records_max)
        with unavailable_when_unreachable(f"reading {lane.name}"):
            async with self._database.reading() as connection:
                rows = (await connection.execute(query)).all()
        first, end = int(rows[0].first_offset), int(rows[0].next_offset)
        records = [_to_record(lane, row) for row in rows if row.log_offset is not None]
        full = len(records) == records_max
        next_offset = records[-1].offset + 1 if full else max(from_offset, end)
        return first, Batch(lane=lane, records=records, next_offset=next_offset)

    async def _fetch(self, lane: Lane, from_offset: int, records_max: int, wait_s: float) -> Batch:
        """Read for a member of a group, which must not miss a record."""
        return await self._wait_for_records(lane, from_offset, records_max, wait_s, all_kept=True)

    async def _wait_for_records(
        self,
        lane: Lane,
        from_offset: int,
        records_max: int,
        wait_s: float,
        *,
        all_kept: bool = False,
    ) -> Batch:
        """Look until there is something, or the time is up.

        **Raises**: `PositionLost` with `all_kept`, when the first record kept is a later one.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait_s
        while True:
            news = self._appended.next()
            first, batch = await self._look(lane, from_offset, records_max)
            if all_kept:
                check_kept(lane, from_offset, first)
            from_offset = max(from_offset, first)
            left_s = deadline - clock()
            if batch.records or batch.next_offset > from_offset or left_s <= 0:
                return batch
            await wait_for_news(news, left_s)

    async def _create_topic(self, connection: AsyncConnection, spec: TopicSpec) -> bool:
        topic = (
            self._database.insert(stream_topics)
            .values(
                name=spec.name,
                partitions=spec.partitions,
                cleanup=spec.cleanup,
                retention_s=spec.retention_s,
                message_bytes_max=spec.message_bytes_max,
            )
            .on_conflict_do_nothing()
            .returning(stream_topics.c.name)
        )
        if (await connection.execute(topic)).first() is None:
            return False
        lanes = [{"topic": spec.name, "partition_index": index} for index in range(spec.partitions)]
        await connection.execute(insert(stream_lanes), lanes)
        return True

    async def _load(self) -> None:
        """Learn which topics and lanes there are."""
        with unavailable_when_unreachable("reading topics"):
            async with self._database.reading() as connection:
                await self._load_from(connection)

    async def _load_from(self, connection: AsyncConnection) -> None:
        topics = (await connection.execute(select(stream_topics))).all()
        lanes = (await connection.execute(select(stream_lanes))).all()
        self._specs = {topic.name: _to_spec(topic) for topic in topics}
        self._lane_ids = {
            Lane(topic=row.topic, partition=row.partition_index): row.lane_id for row in lanes
        }

    async def _lane_id(self, lane: Lane) -> int:
        if lane not in self._lane_ids:
            await self._load()
        check_lane(lane, self._specs)
        return self._lane_ids[lane]

    async def _know_lanes(self, messages: Sequence[Outgoing], connection: AsyncConnection) -> None:
        if any(message.lane not in self._lane_ids for message in messages):
            await self._load_from(connection)


class SqlWriter:
    """The one appender of its name: the one whose epoch stands in the writers' table."""

    def __init__(self, stream: SqlStream, database: Database, name: str) -> None:
        self._stream = stream
        self._database = database
        self._name = name
        self._epoch: int | None = None
        self._unsettled = False
        self._appending = asyncio.Lock()

    async def start(self) -> None:
        """Take the name over.

        The row of the name is locked by an append until it is over: once we have it, an append of the
        writer before us has happened, or never will.
        """
        taken = (
            self._database.insert(stream_writers)
            .values(name=self._name, epoch=1)
            .on_conflict_do_update(
                index_elements=[stream_writers.c.name],
                set_={"epoch": stream_writers.c.epoch + 1},
            )
            .returning(stream_writers.c.epoch)
        )
        with unavailable_when_unreachable(f"writer {self._name}"):
            async with self._appending, self._database.writing() as connection:
                await self._database.guard_locks(connection)
                epoch = (await connection.execute(taken)).scalar_one()
        self._epoch = epoch
        self._unsettled = False

    async def append(self, messages: Sequence[Outgoing]) -> None:
        """Make all of them visible together."""
        if not messages:
            return
        async with self._appending:
            if self._unsettled:
                message = f"writer {self._name}: the last append is not settled, start it again"
                raise OutcomeUnknown(message)
            await self._append(messages)
        self._stream.wake()

    async def append_in(self, connection: AsyncConnection, messages: Sequence[Outgoing]) -> None:
        """Append inside a transaction of the caller's, if the name is still ours.

        As `SqlStream.append_in`, and it must come before nothing but the commit.

        **Raises**: `Fenced` as well: roll back and exit.
        """
        if messages:
            await self._hold_name(connection)
            await self._stream.append_in(connection, messages)

    async def close(self) -> None:
        """Nothing is held between two appends."""

    async def _append(self, messages: Sequence[Outgoing]) -> None:
        committing = False
        try:
            async with asyncio.timeout(APPEND_TIMEOUT_S), self._database.engine.connect() as held:
                transaction = await held.begin()
                await self._database.guard_locks(held)
                await self.append_in(held, messages)
                committing = True
                await self._commit(transaction)
                committing = False
        except UNREACHABLE as error:
            message = f"writer {self._name}: {error}"
            if committing:
                raise OutcomeUnknown(message) from error
            raise StreamUnavailable(message) from error
        finally:
            # Also when we were cancelled in the middle of the commit.
            self._unsettled = committing

    async def _commit(self, transaction: AsyncTransaction) -> None:
        await transaction.commit()

    async def _hold_name(self, connection: AsyncConnection) -> None:
        held = (
            update(stream_writers)
            .where(stream_writers.c.name == self._name, stream_writers.c.epoch == self._epoch)
            .values(epoch=stream_writers.c.epoch)
            .returning(stream_writers.c.epoch)
        )
        if (await connection.execute(held)).first() is None:
            message = f"writer {self._name}: a younger one has the name (ours: {self._epoch})"
            raise Fenced(message)


def _to_spec(row: Row[Any]) -> TopicSpec:
    return TopicSpec(
        name=row.name,
        partitions=row.partitions,
        cleanup=row.cleanup,
        retention_s=row.retention_s,
        message_bytes_max=row.message_bytes_max,
    )


def _bounds_of(lane: Lane) -> Any:
    return select(stream_lanes.c.first_offset, stream_lanes.c.next_offset).where(
        stream_lanes.c.topic == lane.topic, stream_lanes.c.partition_index == lane.partition
    )


def _records_of(lane_id: int, from_offset: int, records_max: int) -> Any:
    """Select the head of a lane beside its records: one row without a record when there is none."""
    messages = stream_messages.c
    wanted = and_(messages.lane_id == stream_lanes.c.lane_id, messages.log_offset >= from_offset)
    return (
        select(
            stream_lanes.c.first_offset,
            stream_lanes.c.next_offset,
            messages.log_offset,
            messages.message_key,
            messages.message_value,
            messages.headers,
            messages.time_us,
        )
        .select_from(stream_lanes.outerjoin(stream_messages, wanted))
        .where(stream_lanes.c.lane_id == literal(lane_id))
        .order_by(messages.log_offset)
        .limit(records_max)
    )


def _to_record(lane: Lane, row: Row[Any]) -> Record:
    return Record(
        lane=lane,
        offset=row.log_offset,
        key=bytes(row.message_key),
        value=None if row.message_value is None else bytes(row.message_value),
        headers=_decode_headers(row.headers),
        time=to_datetime(row.time_us),
    )
