"""The log on Apache Kafka, for a shop that has outgrown one machine.

Reads and writes the topics of `reconciler.stream.topics`. Appends are transactions, readers see
committed data only, positions live in our database and never in Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconciler.stream.checks import check_lane
from reconciler.stream.kafka_client import (
    REQUEST_TIMEOUT_MS,
    UNREACHABLE,
    Cluster,
    stop_consumer,
    unavailable_when_unreachable,
    unreachable_in_words,
)
from reconciler.stream.kafka_group import KafkaGroup
from reconciler.stream.kafka_reader import LaneTails
from reconciler.stream.kafka_topics import Topic, compare, create_missing, find_topics
from reconciler.stream.kafka_writer import KafkaWriter
from reconciler.stream.promise import (
    Batch,
    Group,
    Lane,
    PositionLost,
    TopicSpec,
    Writer,
)
from reconciler.stream.reader import check_kept

#: A fetch that has to give what is there waits for the broker this long. **Units**: seconds.
FETCH_TIMEOUT_S: Final = REQUEST_TIMEOUT_MS / 1_000
#: Below this a wait is shorter than a fetch may take.
SHORT_WAIT_S: Final = 0.5
START_TIMEOUT_S: Final = 30.0


class KafkaStream:
    """The log on a Kafka cluster.

    `prefix` stands before every topic, group and writer; empty in production. `options` go to every
    client (`security_protocol`, `ssl_context`, `sasl_mechanism`, …). `replicas` of a new topic;
    None for as many as there are brokers, three at most. `session_s`: a member of a group that is
    not heard for so long is dead.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        prefix: str = "",
        options: Mapping[str, Any] | None = None,
        replicas: int | None = None,
        session_s: float = 10.0,
    ) -> None:
        self._cluster = Cluster(bootstrap=bootstrap, prefix=prefix, options=options or {})
        self._replicas = replicas
        self._session_s = session_s
        self._topics: Mapping[str, Topic] = {}
        self._tails = LaneTails(self._cluster)
        self._asker: Any = None

    async def start(self) -> None:
        """Connect."""
        asker = self._cluster.consumer()
        self._tails = LaneTails(self._cluster)
        try:
            with unreachable_in_words(self._cluster.bootstrap):
                async with asyncio.timeout(START_TIMEOUT_S):
                    await asker.start()
                    self._topics = await find_topics(self._cluster)
        except BaseException:
            await stop_consumer(asker)
            raise
        self._asker = asker

    async def close(self) -> None:
        """Disconnect."""
        asker, self._asker = self._asker, None
        try:
            await self._tails.close_all()
        finally:
            if asker is not None:
                with contextlib.suppress(*UNREACHABLE):
                    await stop_consumer(asker)

    async def create_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        """Make the topics that are missing."""
        made = await create_missing(self._cluster, specs, self._replicas)
        self._topics = await find_topics(self._cluster)
        return made

    async def compare_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        """Say how topics differ."""
        self._topics = await find_topics(self._cluster)
        return [line for spec in specs for line in compare(spec, self._topics.get(spec.name))]

    def writer(self, name: str) -> Writer:
        """Make the appender of a name."""
        return KafkaWriter(self._cluster, name, self._specs_of)

    def group(self, name: str, topics: Sequence[str]) -> Group:
        """Make a member of a group."""
        tails = LaneTails(self._cluster)

        async def fetch(lane: Lane, from_offset: int, records_max: int, wait_s: float) -> Batch:
            return await self._fetch(tails, lane, from_offset, records_max, wait_s)

        return KafkaGroup(
            self._cluster,
            name=name,
            topics=topics,
            session_s=self._session_s,
            find_specs=self._specs_of,
            bounds=self.bounds,
            tails=tails,
            fetch=fetch,
        )

    async def read(
        self, lane: Lane, *, from_offset: int, records_max: int, wait_s: float = 0.0
    ) -> Batch:
        """Read committed records of one lane."""
        await self._specs_of([lane])
        try:
            return await self._fetch(self._tails, lane, from_offset, records_max, wait_s)
        except PositionLost:
            first, _ = await self.bounds(lane)
            if first > from_offset:
                return await self._fetch(self._tails, lane, first, records_max, wait_s)
            return Batch(lane=lane, records=[], next_offset=from_offset)

    async def bounds(self, lane: Lane) -> tuple[int, int]:
        """Give (first kept offset, next offset of committed data): Kafka's last stable offset."""
        await self._specs_of([lane])
        partition = self._cluster.partition(lane)
        with unavailable_when_unreachable(f"bounds of {lane.name}"):
            first, end = await asyncio.gather(
                self._asker.beginning_offsets([partition]), self._asker.end_offsets([partition])
            )
        return int(first[partition]), int(end[partition])

    async def _fetch(
        self, tails: LaneTails, lane: Lane, from_offset: int, records_max: int, wait_s: float
    ) -> Batch:
        """Fetch; what is there already is given however short the wait is."""
        if wait_s < SHORT_WAIT_S:
            first, end = await self.bounds(lane)
            check_kept(lane, from_offset, first)
            if from_offset < end:
                wait_s = FETCH_TIMEOUT_S
        return await tails.fetch(lane, from_offset, records_max, wait_s)

    async def _specs_of(self, lanes: Sequence[Lane]) -> Mapping[str, TopicSpec]:
        """Give the specs of these lanes' topics. **Raises**: `TopicsDiffer` when one is missing."""
        if any(lane.topic not in self._topics for lane in lanes):
            self._topics = await find_topics(self._cluster)
        specs = {name: topic.spec for name, topic in self._topics.items()}
        for lane in lanes:
            check_lane(lane, specs)
        return specs
