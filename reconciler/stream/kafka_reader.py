"""Reads one lane of Kafka: a client of its own, at an offset that the caller names each time.

A client that reads several lanes lets one wait for the other: it sends no fetch to a broker while one is
under way, and none while a lane has records that nobody took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiokafka.errors import OffsetOutOfRangeError

from reconciler.stream.kafka_client import (
    UNREACHABLE,
    Cluster,
    stop_consumer,
    unavailable_when_unreachable,
)
from reconciler.stream.promise import Batch, Lane, PositionLost, Record, StreamUnavailable

#: How long a look takes at most, so that holes at the end of a lane are passed soon.
LOOK_MS: Final = 100
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LaneTail:
    """The committed records of one lane."""

    def __init__(self, cluster: Cluster, lane: Lane) -> None:
        self._lane = lane
        self._partition = cluster.partition(lane)
        self._cluster = cluster
        self._consumer: Any = None
        self._offset: int | None = None
        self._reading = asyncio.Lock()
        self._closed = False

    async def fetch(self, from_offset: int, records_max: int, wait_s: float) -> Batch:
        """Read on from an offset, possibly nothing after `wait_s`.

        **Raises**: `PositionLost` when the log has nothing at that offset; `StreamUnavailable`.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait_s
        async with self._reading:
            with unavailable_when_unreachable(f"reading {self._lane.name}"):
                self._check_open()
                consumer = await self._at(from_offset)
                # Whatever goes wrong from here on, the next fetch seeks again.
                self._offset = None
                while True:
                    self._check_open()
                    left_ms = max(0, int((deadline - clock()) * 1_000))
                    records = await self._look(consumer, records_max, min(LOOK_MS, left_ms))
                    # The client hands out what it fetched before a seek (shown).
                    fresh = [each for each in records if each.offset >= from_offset]
                    position = max(from_offset, await consumer.position(self._partition))
                    if fresh or position > from_offset or clock() >= deadline:
                        break
        self._offset = position
        return Batch(
            lane=self._lane,
            records=[self._to_record(each) for each in fresh],
            next_offset=position,
        )

    async def close(self) -> None:
        """Give up the connection. May be called twice."""
        self._closed = True
        async with self._reading:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                await stop_consumer(consumer)

    def _check_open(self) -> None:
        if self._closed:
            message = f"{self._lane.name} was closed"
            raise OSError(message)

    async def _at(self, offset: int) -> Any:
        """Give a client that stands at an offset.

        A client that has read waits at the broker for what comes next, up to `FETCH_WAIT_MS`, and the
        broker answers a connection's requests in order: a seek would wait behind that (half a
        second, shown). A new client takes a few milliseconds.
        """
        if self._consumer is not None and self._offset != offset:
            used, self._consumer = self._consumer, None
            await stop_consumer(used)
        if self._consumer is None:
            consumer = self._cluster.consumer()
            try:
                await consumer.start()
            except BaseException:
                await stop_consumer(consumer)
                raise
            consumer.assign([self._partition])
            consumer.seek(self._partition, offset)
            self._consumer = consumer
        return self._consumer

    async def _look(self, consumer: Any, records_max: int, wait_ms: int) -> Sequence[Any]:
        try:
            found = await consumer.getmany(
                self._partition, timeout_ms=wait_ms, max_records=records_max
            )
        except OffsetOutOfRangeError as error:
            message = f"{self._lane.name}: the log has nothing at {error}"
            raise PositionLost(message) from error
        records: Sequence[Any] = found.get(self._partition, [])
        return records

    def _to_record(self, record: Any) -> Record:
        """Take a record in. A shop's client may leave out its key, or the value of a header."""
        return Record(
            lane=self._lane,
            offset=record.offset,
            key=record.key or b"",
            value=record.value,
            headers=tuple((name, value or b"") for name, value in record.headers),
            time=EPOCH + timedelta(milliseconds=record.timestamp),
        )


class LaneTails:
    """Tails of lanes, made when they are first read; no more than there are lanes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tails: dict[Lane, LaneTail] = {}
        self._closed = False

    async def fetch(self, lane: Lane, from_offset: int, records_max: int, wait_s: float) -> Batch:
        """Read a lane; who reads the same one at the same time waits."""
        if self._closed:
            # Whoever is late must not open what nobody would close.
            message = f"{lane.name} was closed"
            raise StreamUnavailable(message)
        tail = self._tails.get(lane)
        if tail is None:
            tail = self._tails[lane] = LaneTail(self._cluster, lane)
        return await tail.fetch(from_offset, records_max, wait_s)

    def lanes(self) -> Sequence[Lane]:
        """Give the lanes that have a tail."""
        return list(self._tails)

    async def close(self, lane: Lane) -> None:
        """Close the tail of a lane, if it has one."""
        tail = self._tails.pop(lane, None)
        if tail is not None:
            await tail.close()

    async def close_all(self) -> None:
        """Close every tail, for good; one that fails at it keeps none of the others open."""
        self._closed = True
        tails = tuple(self._tails.values())
        self._tails.clear()
        results = await asyncio.gather(*(tail.close() for tail in tails), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, UNREACHABLE):
                raise result
