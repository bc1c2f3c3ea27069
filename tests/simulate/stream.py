"""The log as one process reaches it: the log in memory behind the gate of its process.

Simulated: a log that cannot be reached for a while or refuses at times, appends of which nobody
learns whether they happened, lanes that move between the members of a group, a dead member that keeps
its lanes until its session has lapsed, older writers that are fenced. What an append shows, it shows
at once on all lanes. Not simulated: retention, compaction (both in tests/contract).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from reconciler.stream.promise import (
    Batch,
    Lane,
    LaneReader,
    OutcomeUnknown,
    Outgoing,
    StreamUnavailable,
    TopicSpec,
)
from tests.parts.memory_stream import MemoryGroup, MemoryLog, MemoryStream
from tests.simulate.process import SESSION_S, Process


class ProcessStream:
    """A process's connection to the log (`reconciler.stream.promise.Stream`)."""

    def __init__(self, process: Process, log: MemoryLog) -> None:
        self._process = process
        self._log = log
        self._inner = MemoryStream(log)

    async def start(self) -> None:
        await reach(self._process)

    async def close(self) -> None:
        """Nothing is held."""

    async def create_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        await reach(self._process)
        return await self._inner.create_topics(specs)

    async def compare_topics(self, specs: Sequence[TopicSpec]) -> Sequence[str]:
        await reach(self._process)
        return await self._inner.compare_topics(specs)

    def writer(self, name: str) -> ProcessWriter:
        return ProcessWriter(self._process, self._log, name)

    def group(self, name: str, topics: Sequence[str]) -> ProcessGroup:
        return ProcessGroup(self._process, self._log, MemoryGroup(self._log, name, topics))

    async def read(
        self, lane: Lane, *, from_offset: int, records_max: int, wait_s: float = 0.0
    ) -> Batch:
        await reach(self._process)
        found = await self._inner.read(
            lane, from_offset=from_offset, records_max=records_max, wait_s=wait_s
        )
        await self._process.gate()
        return found

    async def bounds(self, lane: Lane) -> tuple[int, int]:
        await reach(self._process)
        return await self._inner.bounds(lane)


class ProcessWriter:
    """A writer of a process. What nobody knows of an append is drawn here."""

    def __init__(self, process: Process, log: MemoryLog, name: str) -> None:
        self._process = process
        self._log = log
        self._name = name
        self._inner = MemoryStream(log).writer(name)

    async def start(self) -> None:
        await reach(self._process)
        await self._inner.start()

    async def append(self, messages: Sequence[Outgoing]) -> None:
        process = self._process
        await reach(process)
        share = process.world.faults.unknown_outcome_share
        if share and messages and process.lot.random() < share:
            error = OutcomeUnknown(f"no answer to an append of {self._name}")
            lands = process.lot.random() < 0.5
            self._log.fail_next_append(error, writer=self._name, lands=lands)
        await self._inner.append(messages)
        # It stands in the log; whoever dies here does not know.
        await process.pass_time(process.lot.choice((0, 0, 0.005)))

    async def close(self) -> None:
        await self._inner.close()


class ProcessReader:
    """One lane of a member, behind the gate."""

    def __init__(self, process: Process, inner: LaneReader) -> None:
        self._process = process
        self._inner = inner

    @property
    def lane(self) -> Lane:
        return self._inner.lane

    async def seek(self, offset: int | None) -> None:
        await reach(self._process)
        await self._inner.seek(offset)

    async def read(self, *, records_max: int, wait_s: float) -> Batch:
        await reach(self._process)
        found = await self._inner.read(records_max=records_max, wait_s=wait_s)
        await self._process.gate()
        return found


class ProcessGroup:
    """A member of a group. A dead one stays a member for a while."""

    def __init__(self, process: Process, log: MemoryLog, inner: MemoryGroup) -> None:
        self._process = process
        self._log = log
        self._inner = inner

    async def start(self) -> None:
        await reach(self._process)
        await self._inner.start()
        self._process.on_death.append(self._leave_later)

    async def lanes(self) -> Mapping[Lane, LaneReader]:
        await reach(self._process)
        found = await self._inner.lanes()
        return {lane: ProcessReader(self._process, reader) for lane, reader in found.items()}

    async def changed(self, wait_s: float) -> None:
        await self._process.gate()
        await self._inner.changed(wait_s)

    async def close(self) -> None:
        await self._process.gate()
        await self._inner.close()

    def _leave_later(self) -> None:
        async def leave() -> None:
            await asyncio.sleep(SESSION_S)
            await self._inner.close()

        self._process.world.do(leave())


async def reach(process: Process) -> None:
    """Go to the log: through the gate, with some delay; it may not be there."""
    world = process.world
    await process.gate()
    slow = process.lot.random()
    if slow < 0.1:
        await process.pass_time(slow)
    late = world.faults.log_slow_share
    if late and process.lot.random() < late:
        await process.pass_time(process.lot.uniform(1, 6))
    world.log.require()
    share = world.faults.log_refuses_share
    if share and process.lot.random() < share:
        message = "the log does not answer"
        raise StreamUnavailable(message)


async def shuffle_lanes(log: MemoryLog, group: str, places: Sequence[int]) -> None:
    """Give the lanes of a group to its members anew, in another order."""
    members = log.members.get(group, [])
    if len(members) == len(places):
        members[:] = [members[place] for place in places]
    for member in members:
        member.take(set())
    await log.rebalance(group)
