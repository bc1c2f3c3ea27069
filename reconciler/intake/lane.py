"""One lane under way: seek to the stored position, arm, then apply batch after batch.

The reader is armed with the position of the database, never with one of the group. Whoever finds the
position moved was not alone on the lane: seek again and go on. Nothing is ever skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from chains.heed import heed_cancellation
from reconciler.intake.recall import recall
from reconciler.kernel.clock import Clock
from reconciler.observability import metrics
from reconciler.observability.health import Movement, Verdict
from reconciler.observability.logs import logger
from reconciler.observability.metrics import Meters
from reconciler.services.apply_commands import apply_commands, mark_inbox
from reconciler.services.apply_facts import apply_facts
from reconciler.services.context import ServiceContext
from reconciler.services.incoming import LaneStoppedError
from reconciler.services.ledger import Paired
from reconciler.storage import positions
from reconciler.storage.engine import DatabaseError
from reconciler.storage.positions import PositionMovedError
from reconciler.storage.unit_of_work import GaveUpError, Store
from reconciler.stream.promise import (
    Batch,
    LaneLost,
    LaneReader,
    PositionLost,
    Record,
    Stream,
    StreamUnavailable,
)
from reconciler.stream.topics import ORDERS

#: A batch holds locks for as long as it takes. Source: DESIGN section 8.
BATCH_MAX: Final = 250
#: The row of a shared address is hot: 148 ms to place an order behind 500 messages (measured).
SHARED_BATCH_MAX: Final = 50
WAIT_S: Final = 0.25
BACK_OFF_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
STUCK_AFTER: Final = timedelta(minutes=1)
#: Between two notes of how far `orders` was applied.
MARK_EVERY: Final = timedelta(seconds=1)

log = logger("intake")


class LaneTools(Struct, frozen=True, kw_only=True):
    """What every lane works with. `clock_slack`: how far our clock and the log's may differ."""

    store: Store
    context: ServiceContext
    stream: Stream
    clock: Clock
    meters: Meters
    shared_keys: frozenset[bytes]
    clock_slack: timedelta
    stuck_after: timedelta = STUCK_AFTER
    batch_max: int = BATCH_MAX
    batch_shared_max: int = SHARED_BATCH_MAX


class _Mark(Struct, frozen=True):
    """`orders` ended at `end` when the clock showed `time`."""

    time: datetime
    end: int


class LaneWorker:
    """Applies one lane until it is lost or cancelled."""

    def __init__(self, tools: LaneTools, reader: LaneReader, applied: asyncio.Event) -> None:
        self._tools = tools
        self._reader = reader
        self._applied = applied
        self._held: int | None = None
        self._mark: _Mark | None = None
        self._marked_at: datetime | None = None
        self._failures = 0
        self._why_still: str | None = None
        self._movement = Movement(tools.clock, stuck_after=tools.stuck_after)

    @property
    def lane_name(self) -> str:
        """The lane, as one word."""
        return self._reader.lane.name

    def verdict(self) -> Verdict:
        """Say whether the lane moves, for readiness."""
        if self._why_still is not None:
            return Verdict(ok=False, why=self._why_still)
        return self._movement()

    async def run(self) -> None:
        """Apply. Returns when the lane went to somebody else."""
        while True:
            heed_cancellation()
            try:
                await self._seek()
                while True:
                    heed_cancellation()
                    await self._step()
            except LaneLost:
                log.info("lane_lost", lane=self.lane_name)
                return
            except PositionMovedError as error:
                log.info("position_moved", lane=self.lane_name, error=str(error))
            except (PositionLost, LaneStoppedError) as error:
                # Records are gone, or of a kind that we do not know: a person must look. We wait.
                await self._stand_still(error)
            except (StreamUnavailable, GaveUpError, DatabaseError, ConnectionError) as error:
                await self._back_off(error)

    async def _seek(self) -> None:
        tools, lane = self._tools, self._reader.lane
        if lane.topic == ORDERS:
            await recall(tools.store, tools.context, tools.stream)
        self._held = await tools.store.read(lambda work: positions.position(work, lane.name))
        await self._reader.seek(self._held)
        await self._refuse_another_log()
        self._mark = None

    async def _refuse_another_log(self) -> None:
        """Stand still where the record that was applied last is another one now.

        A topic that was deleted and made again counts its offsets anew: once it is longer than the old
        position, going on there would pass over what it holds. **Raises**: `PositionLost`.
        """
        tools, lane = self._tools, self._reader.lane
        last = await tools.store.read(lambda work: positions.last_applied(work, lane.name))
        if last is None:
            return
        try:
            batch = await tools.stream.read(
                lane, from_offset=last.offset, records_max=1, wait_s=WAIT_S
            )
        except PositionLost:
            return  # retention took what was applied: nothing to compare with
        found = next((r for r in batch.records if r.offset == last.offset), None)
        if found is not None and found.digest != last.digest:
            message = f"the record at {last.offset} is not the one that was applied: another log"
            raise PositionLost(message)

    async def _step(self) -> None:
        if self._reader.lane.topic == ORDERS:
            await self._look_at_the_end()
        batch = await self._reader.read(records_max=self._tools.batch_max, wait_s=WAIT_S)
        for part in self._parts(batch):
            await self._apply(part)
        self._failures, self._why_still = 0, None
        if self._reader.lane.topic == ORDERS:
            await self._note_inbox()
        await self._measure()

    def _parts(self, batch: Batch) -> Sequence[Batch]:
        """Cut a batch that touches a shared address, or the counter of a key, into short ones."""
        if batch.next_offset == self._held and not batch.records:
            return ()
        size = self._tools.batch_shared_max
        if not self._touches_shared(batch) or len(batch.records) <= size:
            return (batch,)
        cuts = [batch.records[start : start + size] for start in range(0, len(batch.records), size)]
        ends = [records[-1].offset + 1 for records in cuts[:-1]] + [batch.next_offset]
        return [
            msgspec.structs.replace(batch, records=records, next_offset=end)
            for records, end in zip(cuts, ends, strict=True)
        ]

    def _touches_shared(self, batch: Batch) -> bool:
        if batch.lane.topic == ORDERS:
            return bool(self._tools.shared_keys) or self._tools.context.derives
        return any(record.key in self._tools.shared_keys for record in batch.records)

    async def _apply(self, batch: Batch) -> None:
        tools = self._tools
        started_s = tools.clock.monotonic_s()
        quiet = False
        if batch.lane.topic == ORDERS:
            done = await apply_commands(tools.store, tools.context, batch, held=self._held)
            tools.meters.add(
                metrics.INTAKE_APPLIED, done.applied, topic=batch.lane.topic, kind="command"
            )
            for code, count in done.refusals.items():
                tools.meters.add(metrics.INTAKE_REJECTED, count, code=code)
            self._count_matched(done.matched)
        else:
            facts = await apply_facts(tools.store, tools.context, batch, held=self._held)
            for kind in ("facts", "watermarks", "unreadable"):
                tools.meters.add(
                    metrics.INTAKE_APPLIED,
                    getattr(facts, kind),
                    topic=batch.lane.topic,
                    kind=kind,
                )
            quiet = not (facts.facts or facts.unreadable)
            self._count_matched(facts.matched)
            self._tell_coverage(batch.records)
        self._held = batch.next_offset
        self._applied.set()
        spent_s = tools.clock.monotonic_s() - started_s
        tools.meters.observe(metrics.INTAKE_BATCH_DURATION, spent_s, topic=batch.lane.topic)
        if batch.records:
            # A watermark comes with every block: by itself it is no news to a person.
            tell = log.debug if quiet else log.info
            tell(
                "applied",
                lane=self.lane_name,
                records=len(batch.records),
                next_offset=batch.next_offset,
                seconds=round(spent_s, 4),
            )

    def _count_matched(self, matched: Mapping[Paired, int]) -> None:
        for (chain, rule), count in matched.items():
            self._tools.meters.add(metrics.TRANSFERS_MATCHED, count, chain=chain, rule=rule)

    def _tell_coverage(self, records: Sequence[Record]) -> None:
        if records:
            chain = self._tools.context.chain_of_topic[self._reader.lane.topic]
            self._tools.meters.set(
                metrics.INTAKE_COVERAGE_TIMESTAMP, records[-1].time.timestamp(), chain=chain
            )

    async def _look_at_the_end(self) -> None:
        """Note where `orders` ends now: once we have applied up to there, this time is covered."""
        if self._mark is not None:
            return
        now = self._tools.clock.now()
        if self._marked_at is not None and now - self._marked_at < MARK_EVERY:
            return
        _, end = await self._tools.stream.bounds(self._reader.lane)
        self._mark = _Mark(now - self._tools.clock_slack, end)

    async def _note_inbox(self) -> None:
        mark = self._mark
        if mark is None or (self._held or 0) < mark.end:
            return
        if self._held is None:  # an empty lane has no position yet: give it one
            await self._apply(Batch(lane=self._reader.lane, records=(), next_offset=mark.end))
        await mark_inbox(self._tools.store, self._reader.lane, mark.time)
        self._mark, self._marked_at = None, self._tools.clock.now()

    async def _measure(self) -> None:
        lane = self._reader.lane
        _, end = await self._tools.stream.bounds(lane)
        lag = max(0, end - (self._held or 0))
        self._movement.at(self._held or 0, lag=lag)
        self._tools.meters.set(
            metrics.INTAKE_LAG, lag, topic=lane.topic, partition=str(lane.partition)
        )

    async def _stand_still(self, error: Exception) -> None:
        self._why_still = f"{self.lane_name} stands still: {error}"
        log.error("lane_stands_still", lane=self.lane_name, error=str(error))
        await self._tools.clock.sleep(BACK_OFF_S[-1])

    async def _back_off(self, error: Exception) -> None:
        wait_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1
        log.warning(
            "lane_waits",
            lane=self.lane_name,
            error=f"{type(error).__name__}: {str(error)[:300]}",
            again_in_s=wait_s,
        )
        await self._tools.clock.sleep(wait_s)
