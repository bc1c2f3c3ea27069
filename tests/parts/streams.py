"""Each kind of stream over its real part, for tests that must hold on all of them."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from sqlalchemy import delete, update

from reconciler.storage.engine import make_engine
from reconciler.storage.stream_tables import stream_lanes, stream_messages, stream_metadata
from reconciler.stream.kafka import KafkaStream
from reconciler.stream.promise import Lane, Outgoing, Stream, Writer
from reconciler.stream.sql import SqlStream


class Log(ABC):
    """One log. Every `open` is a client of its own, as another process would be."""

    def __init__(self) -> None:
        self._opened: list[Stream] = []

    async def open(self) -> Stream:
        stream = self._make()
        await stream.start()
        self._opened.append(stream)
        return stream

    async def close(self) -> None:
        for stream in self._opened:
            await stream.close()

    @abstractmethod
    async def prepare(self) -> None:
        """Make what must be there before the first client starts."""

    @abstractmethod
    def _make(self) -> Stream: ...

    @abstractmethod
    async def forget_before(self, lane: Lane, offset: int) -> None:
        """As retention would."""


class SqlLog(Log):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.is_sqlite = url.startswith("sqlite")
        self._engines: list[Any] = []

    async def prepare(self) -> None:
        async with self._engine().begin() as connection:
            await connection.run_sync(stream_metadata.create_all)

    async def close(self) -> None:
        await super().close()
        for engine in self._engines:
            await engine.dispose()

    def _engine(self) -> Any:
        self._engines.append(make_engine(self._url))
        return self._engines[-1]

    def _make(self) -> Stream:
        return SqlStream(self._engine(), lease_s=8.0, frozen_after_ms=2_500)

    async def forget_before(self, lane: Lane, offset: int) -> None:
        its_lane = (stream_lanes.c.topic == lane.topic) & (
            stream_lanes.c.partition_index == lane.partition
        )
        async with self._engines[0].begin() as connection:
            moved = update(stream_lanes).where(its_lane).values(first_offset=offset)
            lane_id = (await connection.execute(moved.returning(stream_lanes.c.lane_id))).scalar()
            await connection.execute(
                delete(stream_messages).where(
                    stream_messages.c.lane_id == lane_id, stream_messages.c.log_offset < offset
                )
            )


class KafkaLog(Log):
    def __init__(self, bootstrap: str, prefix: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self._prefix = prefix

    async def prepare(self) -> None:
        """Topics are all there is to make."""

    def _make(self) -> Stream:
        return KafkaStream(self._bootstrap, prefix=self._prefix, session_s=10.0)

    async def forget_before(self, lane: Lane, offset: int) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        partition = TopicPartition(self._prefix + lane.topic, lane.partition)
        await admin.delete_records({partition: RecordsToDelete(before_offset=offset)})
        await admin.close()


class Held:
    """An append that stops just before its commit, until it is let go."""

    def __init__(self, writer: Any, messages: Sequence[Outgoing]) -> None:
        self._reached = asyncio.Event()
        self._release = asyncio.Event()
        self._writer = writer
        self._commit = writer._commit
        writer._commit = self._wait
        self._append = asyncio.create_task(writer.append(messages))

    async def reached(self) -> None:
        stopped = asyncio.create_task(self._reached.wait())
        await asyncio.wait([stopped, self._append], return_when=asyncio.FIRST_COMPLETED)
        if self._append.done():
            self._append.result()
        await stopped

    async def let_go(self) -> None:
        self._release.set()
        await self._append

    async def _wait(self, *arguments: Any) -> None:
        self._writer._commit = self._commit
        self._reached.set()
        await self._release.wait()
        await self._commit(*arguments)


@contextlib.asynccontextmanager
async def held(writer: Writer, messages: Sequence[Outgoing]) -> AsyncIterator[Held]:
    append = Held(writer, messages)
    await append.reached()
    try:
        yield append
    finally:
        append._append.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await append._append


def lose_the_answer(writer: Any, *, after_commit: bool) -> None:
    """The next commit's answer never comes: the commit happened, or it did not."""
    commit = writer._commit

    async def commit_without_answer(*arguments: Any) -> None:
        writer._commit = commit
        if after_commit:
            await commit(*arguments)
        raise TimeoutError

    writer._commit = commit_without_answer
