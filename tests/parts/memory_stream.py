"""The log in memory: `reconciler.stream.promise` to the letter, with its faults on demand.

One `MemoryLog` is the broker; each process of a test opens a `MemoryStream` on it. Kept equal to the
real ones by the same conformance suite.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from reconciler.kernel import check
from reconciler.kernel.clock import Clock, SystemClock
from reconciler.stream.checks import check_lane, check_messages, differences
from reconciler.stream.promise import (
    Batch,
    Fenced,
    Group,
    Lane,
    LaneLost,
    LaneReader,
    OutcomeUnknown,
    Outgoing,
    PositionLost,
    Record,
    Stream,
    StreamUnavailable,
    TopicSpec,
    Writer,
)
from tests.parts.streams import Log

START = datetime(2020, 1, 1, tzinfo=UTC)


class MemoryLog:
    """What all processes share. `marker_holes` spends an offset an append, as Kafka's markers do."""

    def __init__(self, clock: Clock | None = None, *, marker_holes: bool = False) -> None:
        self.clock = clock or SystemClock()
        self.marker_holes = marker_holes
        self.topics: dict[str, TopicSpec] = {}
        self.records: dict[Lane, list[Record]] = {}
        self.first: dict[Lane, int] = {}
        self.next: dict[Lane, int] = {}
        self.epochs: dict[str, int] = {}
        self.members: dict[str, list[MemoryGroup]] = {}
        self.reachable = True
        self.appended = asyncio.Condition()
        self._faults: list[tuple[str, Exception, bool]] = []

    # Faults

    def fail_next_append(self, error: Exception, *, writer: str = "", lands: bool = False) -> None:
        """Let the next append (of a writer) fail; `lands` says whether it happened all the same."""
        self._faults.append((writer, error, lands))

    def forget_before(self, lane: Lane, offset: int) -> None:
        """Let retention drop what lies below an offset."""
        self.records[lane] = [r for r in self.records[lane] if r.offset >= offset]
        self.first[lane] = max(self.first[lane], offset)

    def compact(self, topic: str) -> None:
        """Keep only the last record of each key, tombstones gone."""
        check(self.topics[topic].cleanup == "compact", f"{topic} is not compacted")
        for lane, records in self.records.items():
            if lane.topic == topic:
                last = {record.key: record for record in records}
                self.records[lane] = [
                    r for r in records if last[r.key] is r and r.value is not None
                ]

    # What a broker does

    def create(self, specs: Sequence[TopicSpec]) -> list[str]:
        made = [spec for spec in specs if spec.name not in self.topics]
        for spec in made:
            self.topics[spec.name] = spec
            for partition in range(spec.partitions):
                lane = Lane(spec.name, partition)
                self.records[lane], self.first[lane], self.next[lane] = [], 0, 0
        return [spec.name for spec in made]

    def differences(self, specs: Sequence[TopicSpec]) -> list[str]:
        return [line for spec in specs for line in differences(spec, self.topics.get(spec.name))]

    def require(self) -> None:
        if not self.reachable:
            raise StreamUnavailable("the log cannot be reached")

    def admit(self, name: str, epoch: int, messages: Sequence[Outgoing]) -> None:
        """Refuse what this writer may not append."""
        self.require()
        check_messages(messages, self.topics)
        self.require_name(name, epoch)

    def require_name(self, name: str, epoch: int) -> None:
        if self.epochs.get(name) != epoch:
            raise Fenced(f"a younger writer has the name {name}")

    async def commit(self, name: str, epoch: int, messages: Sequence[Outgoing]) -> None:
        self.require_name(name, epoch)
        fault = next((f for f in self._faults if f[0] in {"", name}), None)
        if fault is not None:
            self._faults.remove(fault)
            if fault[2]:
                await self._land(messages)
            raise fault[1]
        await self._land(messages)

    async def _land(self, messages: Sequence[Outgoing]) -> None:
        async with self.appended:
            for message in messages:
                lane, records = message.lane, self.records[message.lane]
                time = max(self.clock.now(), records[-1].time if records else START)
                records.append(
                    Record(
                        lane=lane,
                        offset=self.next[lane],
                        key=message.key,
                        value=message.value,
                        headers=message.headers,
                        time=time,
                    )
                )
                self.next[lane] += 1
            for lane in {message.lane for message in messages} if self.marker_holes else ():
                self.next[lane] += 1
            self.appended.notify_all()

    def slice(self, lane: Lane, offset: int, records_max: int) -> Batch:
        found = [r for r in self.records[lane] if r.offset >= offset][: records_max + 1]
        records = found[:records_max]
        at_end = len(found) <= records_max
        next_offset = max(offset, self.next[lane]) if at_end else records[-1].offset + 1
        return Batch(lane=lane, records=records, next_offset=next_offset)

    async def wait_for(self, ready: Callable[[], bool], wait_s: float) -> None:
        """Wait until something is there, at most this long."""
        try:
            async with asyncio.timeout(wait_s), self.appended:
                await self.appended.wait_for(ready)
        except TimeoutError:
            return

    async def rebalance(self, name: str) -> None:
        members = self.members.get(name, [])
        lanes = sorted(
            {lane for member in members for lane in self.records if lane.topic in member.topics}
        )
        shares: dict[int, set[Lane]] = {id(member): set() for member in members}
        for number, lane in enumerate(lanes):
            wanting = [member for member in members if lane.topic in member.topics]
            shares[id(wanting[number % len(wanting)])].add(lane)
        for member in members:
            member.take(shares[id(member)])
        async with self.appended:
            self.appended.notify_all()


class MemoryWriter:
    """A name's appender."""

    def __init__(self, log: MemoryLog, name: str) -> None:
        self._log, self._name = log, name
        self._epoch: int | None = None
        self._unsettled = False
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        self._log.require()
        self._epoch = self._log.epochs[self._name] = self._log.epochs.get(self._name, 0) + 1
        self._unsettled = False

    async def append(self, messages: Sequence[Outgoing]) -> None:
        check(self._epoch is not None, f"writer {self._name} was not started")
        async with self._one_at_a_time:
            if not messages:
                return
            if self._unsettled:
                raise OutcomeUnknown(f"the last append of {self._name} is not settled")
            self._log.admit(self._name, self._epoch or 0, messages)
            self._unsettled = True
            try:
                await self._commit(messages)
            except TimeoutError as error:
                raise OutcomeUnknown(f"no answer to an append of {self._name}") from error
            except (StreamUnavailable, Fenced):
                self._unsettled = False
                raise
            self._unsettled = False

    async def _commit(self, messages: Sequence[Outgoing]) -> None:
        await self._log.commit(self._name, self._epoch or 0, messages)

    async def close(self) -> None:
        """The name stays ours: only a younger writer takes it."""


class MemoryReader:
    """One lane of a group's member."""

    def __init__(self, log: MemoryLog, lane: Lane) -> None:
        self._log, self._lane = log, lane
        self._offset: int | None = None
        self.lost = False

    @property
    def lane(self) -> Lane:
        return self._lane

    async def seek(self, offset: int | None) -> None:
        self._require()
        self._offset = None
        first, end = self._log.first[self._lane], self._log.next[self._lane]
        if offset is not None and offset < first:
            raise PositionLost(f"{self._lane.name}: {offset} is below the beginning {first}")
        if offset is not None and offset > end:
            raise PositionLost(f"{self._lane.name}: {offset} is beyond the end {end}")
        self._offset = first if offset is None else offset

    async def read(self, *, records_max: int, wait_s: float) -> Batch:
        check(self._offset is not None, f"{self._lane.name}: read before seek")
        offset = self._offset or 0
        await self._log.wait_for(lambda: self.lost or self._log.next[self._lane] > offset, wait_s)
        self._require()
        if offset < self._log.first[self._lane]:
            self._offset = None
            raise PositionLost(f"{self._lane.name}: {offset} is no longer kept")
        batch = self._log.slice(self._lane, offset, records_max)
        self._offset = batch.next_offset
        return batch

    def _require(self) -> None:
        self._log.require()
        if self.lost:
            raise LaneLost(self._lane.name)


class MemoryGroup:
    """A member of a group."""

    def __init__(self, log: MemoryLog, name: str, topics: Sequence[str]) -> None:
        self._log, self._name, self.topics = log, name, tuple(topics)
        self._readers: dict[Lane, MemoryReader] = {}
        self._changed = asyncio.Event()

    async def start(self) -> None:
        self._log.require()
        for topic in self.topics:
            check_lane(Lane(topic, 0), self._log.topics)
        self._log.members.setdefault(self._name, []).append(self)
        await self._log.rebalance(self._name)

    async def lanes(self) -> Mapping[Lane, LaneReader]:
        return dict(self._readers)

    async def changed(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def close(self) -> None:
        members = self._log.members.get(self._name, [])
        if self in members:
            members.remove(self)
            self.take(set())
            await self._log.rebalance(self._name)

    def take(self, lanes: set[Lane]) -> None:
        """Have exactly these lanes from now on."""
        if lanes != set(self._readers):
            self._changed.set()
        for lane in sorted(set(self._readers) - lanes):
            self._readers.pop(lane).lost = True
        for lane in sorted(lanes - set(self._readers)):
            self._readers[lane] = MemoryReader(self._log, lane)


class MemoryStream:
    """One process's connection to the log."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log

    async def start(self) -> None:
        self.log.require()

    async def close(self) -> None:
        """Nothing is held."""

    async def create_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        self.log.require()
        return self.log.create(specs)

    async def compare_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        self.log.require()
        return self.log.differences(specs)

    def writer(self, name: str) -> Writer:
        return MemoryWriter(self.log, name)

    def group(self, name: str, topics: Sequence[str]) -> Group:
        return MemoryGroup(self.log, name, topics)

    async def read(
        self, lane: Lane, *, from_offset: int, records_max: int, wait_s: float = 0.0
    ) -> Batch:
        self.log.require()
        check_lane(lane, self.log.topics)
        offset = max(from_offset, self.log.first[lane])
        await self.log.wait_for(lambda: self.log.next[lane] > offset, wait_s)
        self.log.require()
        return self.log.slice(lane, offset, records_max)

    async def bounds(self, lane: Lane) -> tuple[int, int]:
        self.log.require()
        check_lane(lane, self.log.topics)
        return self.log.first[lane], self.log.next[lane]


def stream_of(specs: Sequence[TopicSpec], log: MemoryLog | None = None) -> MemoryStream:
    """Open a log on which these topics exist."""
    log = log or MemoryLog()
    log.create(specs)
    return MemoryStream(log)


class InMemory(Log):
    """The log in memory, as the conformance suite opens it."""

    def __init__(self, *, marker_holes: bool) -> None:
        super().__init__()
        self.log = MemoryLog(marker_holes=marker_holes)

    async def prepare(self) -> None:
        """Nothing has to be there."""

    def _make(self) -> Stream:
        return MemoryStream(self.log)

    async def forget_before(self, lane: Lane, offset: int) -> None:
        self.log.forget_before(lane, offset)


def resized(spec: TopicSpec, partitions: int) -> TopicSpec:
    """Give the same topic with another number of partitions."""
    return msgspec.structs.replace(spec, partitions=partitions)
