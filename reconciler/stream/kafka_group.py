"""Readers that share lanes through a consumer group of Kafka.

The group only says who has which lane; nothing is read through it and no position is kept in it. Every
lane is read by a client of its own, so that a lane that stays is read on through a rebalance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import structlog
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from chains.heed import heed_cancellation
from reconciler.stream.kafka_client import (
    RETRY_BACKOFF_MS,
    UNREACHABLE,
    Cluster,
    FindSpecs,
    stop_consumer,
    unavailable_when_unreachable,
)
from reconciler.stream.kafka_reader import LaneTails
from reconciler.stream.promise import Lane, LaneReader, StreamUnavailable
from reconciler.stream.reader import Bounds, Fetch, GroupReader
from reconciler.stream.tasks import stop_tasks

POLL_MS: Final = 500
JOIN_TIMEOUT_S: Final = 60.0
RETRY_S: Final = 1.0

log = structlog.get_logger(__name__)


class KafkaGroup(ConsumerRebalanceListener):  # type: ignore[misc]
    """One member of a group."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        name: str,
        topics: Sequence[str],
        session_s: float,
        find_specs: FindSpecs,
        bounds: Bounds,
        tails: LaneTails,
        fetch: Fetch,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._topics = tuple(topics)
        self._session_s = session_s
        self._find_specs = find_specs
        self._bounds = bounds
        self._tails = tails
        self._fetch = fetch
        self._consumer: Any = None
        self._readers: dict[Lane, GroupReader] = {}
        self._changed = asyncio.Event()
        self._revoked_at: float | None = None
        self._failure: BaseException | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Join."""
        await self._find_specs([Lane(topic=topic, partition=0) for topic in self._topics])
        session_ms = int(self._session_s * 1_000)
        consumer = self._cluster.consumer(
            group_id=self._cluster.prefix + self._name,
            # Nothing is read through the group: its positions mean nothing.
            auto_offset_reset="latest",
            retry_backoff_ms=RETRY_BACKOFF_MS,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 10,
        )
        consumer.subscribe([self._cluster.prefix + topic for topic in self._topics], listener=self)
        self._consumer = consumer
        try:
            with unavailable_when_unreachable(f"group {self._name}"):
                async with asyncio.timeout(JOIN_TIMEOUT_S):
                    await consumer.start()
        except BaseException:
            self._consumer = None
            await stop_consumer(consumer)
            raise
        self._tasks.append(asyncio.create_task(self._poll_for_ever(consumer)))

    async def lanes(self) -> Mapping[Lane, LaneReader]:
        """Give the lanes that are ours now."""
        self._check_alive()
        self._drop_when_expired()
        self._changed.clear()
        return dict(self._readers)

    async def changed(self, wait_s: float) -> None:
        """Wait for another sharing."""
        self._check_alive()
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            self._drop_when_expired()

    async def close(self) -> None:
        """Leave: the lanes are free at once."""
        try:
            await stop_tasks(self._tasks)
        finally:
            consumer, self._consumer = self._consumer, None
            try:
                if consumer is not None:
                    with unavailable_when_unreachable(f"leaving group {self._name}"):
                        await stop_consumer(consumer)
            finally:
                self._keep(())
                await self._tails.close_all()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Note that lanes are being shared anew. Ours are read on until we know what we keep."""
        if self._revoked_at is None and revoked:
            self._revoked_at = asyncio.get_running_loop().time()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Keep the readers of lanes that stay, drop those that went, make those that came."""
        partitions = list(assigned)
        if self._consumer is not None and partitions:
            self._consumer.pause(*partitions)
        self._revoked_at = None
        self._keep(self._cluster.lane(partition) for partition in partitions)

    def _holds(self, reader: GroupReader) -> bool:
        self._drop_when_expired()
        return self._readers.get(reader.lane) is reader

    def _check_alive(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
        if self._failure is not None:
            message = f"group {self._name}: {self._failure!r}"
            raise StreamUnavailable(message) from self._failure

    def _drop_when_expired(self) -> None:
        """Without a new sharing for as long as a session, others may have our lanes."""
        now = asyncio.get_running_loop().time()
        if self._revoked_at is not None and now > self._revoked_at + self._session_s:
            log.warning("no lanes were given back in time", group=self._name)
            self._revoked_at = None
            self._keep(())

    def _keep(self, lanes: Iterable[Lane]) -> None:
        kept = sorted(lanes)
        if kept == list(self._readers):
            return
        self._readers = {
            lane: self._readers.get(lane)
            or GroupReader(lane, holds=self._holds, bounds=self._bounds, fetch=self._fetch)
            for lane in kept
        }
        self._changed.set()

    async def _poll_for_ever(self, consumer: Any) -> None:
        """Keep the client's group alive and hear its errors; no record comes, all lanes are paused."""
        while True:
            heed_cancellation()
            try:
                await consumer.getmany(timeout_ms=POLL_MS)
                self._failure = None
                await self._close_tails_of_lost_lanes()
            except UNREACHABLE as error:
                log.warning("the group is in trouble", group=self._name, reason=repr(error))
                retriable = isinstance(error, KafkaError) and error.retriable
                self._failure = None if retriable else error
                await asyncio.sleep(RETRY_S)

    async def _close_tails_of_lost_lanes(self) -> None:
        for lane in self._tails.lanes():
            if lane not in self._readers:
                await self._tails.close(lane)
