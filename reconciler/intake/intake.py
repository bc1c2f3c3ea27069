"""The process: one task a lane that is ours, one sweeper a chain lane, and those of the whole."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Final

from msgspec import Struct

from chains.heed import heed_cancellation
from chains.registry import parse_address
from reconciler.intake.gauges import MEASURE_EVERY_S, measure
from reconciler.intake.lane import (
    BACK_OFF_S,
    BATCH_MAX,
    SHARED_BATCH_MAX,
    STUCK_AFTER,
    LaneTools,
    LaneWorker,
    log,
)
from reconciler.intake.sealer import Sealer, SealingTerms
from reconciler.kernel.clock import Clock
from reconciler.observability import metrics
from reconciler.observability.health import Health
from reconciler.observability.metrics import Meters
from reconciler.observability.stopping import leaves
from reconciler.services.apply_commands import reject_parked
from reconciler.services.blindness import BLIND_AFTER, watch_for_blindness
from reconciler.services.context import ServiceContext
from reconciler.services.sweep import SWEEP_MAX, sweep_lane
from reconciler.storage.engine import DatabaseError
from reconciler.storage.unit_of_work import GaveUpError, Store
from reconciler.stream.promise import Lane, LaneReader, Stream, StreamUnavailable
from reconciler.stream.topics import ORDERS
from schemas.codes import Rejection

#: A sweeper looks at least so often; it is woken by every applied batch.
SWEEP_EVERY_S: Final = 1.0
LANES_EVERY_S: Final = 1.0
PARKED_EVERY_S: Final = 10.0
BLIND_EVERY_S: Final = 5.0
GROUP: Final = "intake"


class IntakeTerms(Struct, frozen=True, kw_only=True):
    """What an intake is set to.

    `clock_slack`: how far our clock and the log's may differ. `blind_after`: how long a chain may be
    silent before its orders are told that they wait. `stuck_after`: how long a lane with something to
    read may stand before the process is not ready. Batches and sweeps are counted in rows.
    """

    clock_slack: timedelta = timedelta(seconds=2)
    blind_after: timedelta = BLIND_AFTER
    stuck_after: timedelta = STUCK_AFTER
    batch_max: int = BATCH_MAX
    batch_shared_max: int = SHARED_BATCH_MAX
    sweep_max: int = SWEEP_MAX


class Intake:
    """Runs until it is cancelled."""

    def __init__(
        self,
        terms: IntakeTerms,
        *,
        store: Store,
        context: ServiceContext,
        stream: Stream,
        clock: Clock,
        meters: Meters,
        health: Health,
        sealing: SealingTerms | None = None,
    ) -> None:
        self._sealer = Sealer(sealing or SealingTerms(), store=store, clock=clock, meters=meters)
        self._tools = LaneTools(
            store=store,
            context=context,
            stream=stream,
            clock=clock,
            meters=meters,
            shared_keys=_shared_keys(context),
            clock_slack=terms.clock_slack,
            stuck_after=terms.stuck_after,
            batch_max=terms.batch_max,
            batch_shared_max=terms.batch_shared_max,
        )
        self._health = health
        self._blind_after = terms.blind_after
        self._sweep_max = terms.sweep_max
        self._running: dict[Lane, list[asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Join the group and work the lanes that it gives us; count what stands open meanwhile."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._measure())
            while True:
                heed_cancellation()
                await self._one_life_or_wait()

    async def _one_life_or_wait(self) -> None:
        try:
            await self._one_life()
        except (StreamUnavailable, ConnectionError, ExceptionGroup) as error:
            if not all(isinstance(e, StreamUnavailable | ConnectionError) for e in leaves(error)):
                raise
            log.warning("intake_waits", error=str(leaves(error)[0])[:300])
            await self._tools.clock.sleep(BACK_OFF_S[-1])

    async def _measure(self) -> None:
        """Set the gauges of what stands open, also while the log cannot be reached."""
        tools = self._tools
        while True:
            heed_cancellation()
            try:
                await measure(tools.store, tools.meters)
            except (GaveUpError, DatabaseError, ConnectionError) as error:
                log.warning("not_measured", error=str(error)[:300])
            await tools.clock.sleep(MEASURE_EVERY_S)

    async def _one_life(self) -> None:
        tools = self._tools
        topics = [ORDERS, *tools.context.chain_of_topic]
        group = tools.stream.group(GROUP, topics)
        await group.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reject_parked())
                tasks.create_task(self._watch_for_blindness())
                tasks.create_task(self._sealer.run(), name="sealer")
                while True:
                    heed_cancellation()
                    lanes = await group.lanes()
                    await self._stop(set(self._running) - set(lanes))
                    for lane, reader in lanes.items():
                        self._start(tasks, lane, reader)
                    await group.changed(LANES_EVERY_S)
        finally:
            await self._stop(set(self._running))
            await group.close()

    def _start(self, tasks: asyncio.TaskGroup, lane: Lane, reader: LaneReader) -> None:
        """Work a lane; one whose worker ended because it was lost is begun anew."""
        running = self._running.get(lane)
        if running is not None and not running[0].done():
            return
        for task in running or ():
            task.cancel()
        applied = asyncio.Event()
        worker = LaneWorker(self._tools, reader, applied)
        self._health.register(f"lane {lane.name}", worker.verdict)
        started = [tasks.create_task(worker.run(), name=f"lane {lane.name}")]
        if lane.topic != ORDERS:
            started.append(tasks.create_task(self._sweep(lane, applied), name=f"sweep {lane.name}"))
        self._running[lane] = started

    async def _stop(self, lanes: set[Lane]) -> None:
        for lane in sorted(lanes):
            tasks = self._running.pop(lane)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._health.forget(f"lane {lane.name}")

    async def _sweep(self, lane: Lane, applied: asyncio.Event) -> None:
        """Judge what the lane's coverage made due, a little at a time."""
        tools = self._tools
        while True:
            heed_cancellation()
            applied.clear()
            started_s = tools.clock.monotonic_s()
            try:
                count = await sweep_lane(
                    tools.store, tools.context, lane.name, limit=self._sweep_max
                )
            except (GaveUpError, DatabaseError, ConnectionError) as error:
                log.warning("sweep_waits", lane=lane.name, error=str(error)[:300])
                await tools.clock.sleep(BACK_OFF_S[-1])
                continue
            if count:
                spent_s = tools.clock.monotonic_s() - started_s
                tools.meters.add(metrics.SWEEP_ROWS, count, sweeper="due")
                tools.meters.observe(metrics.SWEEP_DURATION, spent_s, sweeper="due")
                log.info("swept", lane=lane.name, orders=count, seconds=round(spent_s, 4))
            if count >= self._sweep_max:
                await tools.clock.sleep(0)
                continue
            await _wait(applied, SWEEP_EVERY_S)

    async def _reject_parked(self) -> None:
        """Reject commands whose order did not come in time."""
        tools = self._tools
        while True:
            heed_cancellation()
            await tools.clock.sleep(PARKED_EVERY_S)
            try:
                count = await reject_parked(
                    tools.store, tools.context, before=tools.clock.now() - tools.context.parked_for
                )
                tools.meters.add(metrics.INTAKE_REJECTED, count, code=Rejection.UNKNOWN_ORDER)
            except (GaveUpError, DatabaseError, ConnectionError) as error:
                log.warning("parked_wait", error=str(error)[:300])

    async def _watch_for_blindness(self) -> None:
        """Hold chains that have gone silent, release those that speak again."""
        tools = self._tools
        while True:
            heed_cancellation()
            await tools.clock.sleep(BLIND_EVERY_S)
            try:
                blind = await watch_for_blindness(
                    tools.store, tools.context, now=tools.clock.now(), blind_after=self._blind_after
                )
            except (GaveUpError, DatabaseError, ConnectionError) as error:
                log.warning("blindness_unknown", error=str(error)[:300])
                continue
            for chain in tools.context.lanes:
                tools.meters.set(metrics.INTAKE_HELD, float(chain in blind), chain=chain)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


def _shared_keys(context: ServiceContext) -> frozenset[bytes]:
    """Give the record keys of the routes' shared addresses."""
    return frozenset(
        parse_address(route.chain, route.shared_address).key.encode()
        for route in context.routes.values()
        if route.shared_address is not None
    )
