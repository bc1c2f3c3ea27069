"""One chain's watcher: takes steps from the loop and publishes each in one transaction.

Only one watcher of a chain lives: a second one fences the first, which ends and never tries again.
After `OutcomeUnknown` nobody knows whether the last step arrived: the writer is started again, the
checkpoint read again, and a new loop goes on from what really stands in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from chains.heed import heed_cancellation
from chains.port import Checkpoint, FollowLoop, FollowStatus, LogMemory, Step
from reconciler.kernel.clock import Clock
from reconciler.kernel.refusals import TakenOver
from reconciler.observability import metrics
from reconciler.observability.health import HeadAge, Verdict
from reconciler.observability.logs import logger
from reconciler.observability.metrics import Meters
from reconciler.observability.stopping import leaves
from reconciler.stream.promise import (
    Fenced,
    OutcomeUnknown,
    Outgoing,
    Stream,
    StreamError,
    StreamUnavailable,
    TopicsDiffer,
    TopicSpec,
    Writer,
)
from reconciler.watch.checkpoint import ReadLog, Tail, read_tail
from reconciler.watch.inputs import POLL_S, Requests, Watchlist, again_since, for_ever
from reconciler.watch.look_ups import LookUps
from reconciler.watch.publishing import messages_of
from schemas.caip import ChainName
from schemas.codec import kind_name
from schemas.facts import BlockRetracted, Watermark

#: Between two attempts to reach the log, doubling. There is no last attempt: a watcher without a log
#: has nothing better to do, every failure is counted, and readiness is red meanwhile.
BACK_OFF_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
#: One step is sent so often before the writer is started again.
SENDS_MAX: Final = 5
OBSERVE_S: Final = 1.0

#: Makes the loop that goes on from a checkpoint; the text is the log id for an empty topic.
FollowFactory = Callable[[Checkpoint | None, str, LogMemory], FollowLoop]

log = logger("watch")


class AnotherWatcher(TakenOver):
    """A younger watcher of this chain has taken over. This one ends."""


class WatchTerms(Struct, frozen=True, kw_only=True):
    """What a watcher is set to. `specs` are the topics that it reads and writes."""

    chain: ChainName
    lanes: int
    reorganisation_limit: int
    requests_again: timedelta
    head_age_max: timedelta
    specs: tuple[TopicSpec, ...]


class Watcher:
    """Runs until it is cancelled, fenced, or the chain says something fatal."""

    def __init__(
        self,
        terms: WatchTerms,
        *,
        stream: Stream,
        follow: FollowFactory,
        make_log_id: Callable[[], str],
        clock: Clock,
        meters: Meters,
    ) -> None:
        self._terms = terms
        self._stream = stream
        self._log = ReadLog(stream, terms.chain, lanes=terms.lanes)
        self._follow = follow
        self._make_log_id = make_log_id
        self._clock = clock
        self._meters = meters
        self._loop: FollowLoop | None = None
        self._log_failures = 0
        self._retracted_in_a_row = 0
        #: When the watermarks were written that may be the log's last one if nobody else writes: the
        #: one that stood there or was last taken, and the one whose outcome is not known.
        self._told: deque[datetime | None] = deque(maxlen=2)
        self.head_age = HeadAge(clock, age_max=terms.head_age_max)

    async def run(self) -> None:
        """Watch.

        **Raises**: `AnotherWatcher`; `chains.errors.Fatal`; `TopicsDiffer` when topics are set up
        otherwise than the settings say (another number of lanes, for one).
        """
        while True:
            heed_cancellation()
            try:
                await self._one_life()
            except (StreamError, BaseExceptionGroup) as error:
                await self._after(error)

    async def _after(self, error: BaseException) -> None:
        """Decide what a life's end means: begin another one, or end with a reason."""
        failures = leaves(error)
        if any(isinstance(failure, Fenced) for failure in failures):
            raise AnotherWatcher(self._taken_over()) from None
        lasting = [f for f in failures if not isinstance(f, OutcomeUnknown | StreamUnavailable)]
        if len(lasting) == 1:
            raise lasting[0]
        if lasting:
            raise error
        await self._back_off(failures[0])

    def status(self) -> FollowStatus | None:
        """Tell where the loop stands; None while there is none."""
        return self._loop.status() if self._loop else None

    def verdict(self) -> Verdict:
        """Say whether the log can be reached and the loop goes on, for readiness."""
        status = self.status()
        if status is None:
            return Verdict(ok=False, why=f"no loop yet, {self._log_failures} failures of the log")
        if status.held is not None:
            return Verdict(ok=False, why=f"held: {status.held}")
        return Verdict(ok=True, why=f"covered {status.covered_height} of {status.head_height}")

    async def _one_life(self) -> None:
        terms = self._terms
        differences = await self._stream.compare_topics(terms.specs)
        if differences:
            raise TopicsDiffer("; ".join(differences))
        await self._refuse_to_come_back()
        writer = self._stream.writer(f"watch/{terms.chain}")
        try:
            # First: what an older watcher had in flight is settled before the log is read back.
            await writer.start()
            await self._watch(writer)
        finally:
            self._loop = None
            await writer.close()

    async def _refuse_to_come_back(self) -> None:
        """End if somebody else has written since our last life: an old watcher that slept through a
        time-out must not fence its successor.
        """
        if self._told and (await self._read_tail()).told_at not in self._told:
            raise AnotherWatcher(self._taken_over())

    async def _read_tail(self) -> Tail:
        terms = self._terms
        return await read_tail(
            self._stream, terms.chain, reorganisation_limit=terms.reorganisation_limit
        )

    def _taken_over(self) -> str:
        return f"another watcher of {self._terms.chain} has taken over; this one ends"

    async def _watch(self, writer: Writer) -> None:
        terms, started_at = self._terms, self._clock.now()
        tail = await self._read_tail()
        self._told.append(tail.told_at)
        last = tail.checkpoint.last if tail.checkpoint else None
        log_id = last.log_id if last else self._make_log_id()
        loop = self._follow(tail.checkpoint, log_id, self._log)
        watchlist = Watchlist(self._stream, terms.chain, self._meters)
        await watchlist.load(loop)
        since = again_since(last.read_at if last else None, terms.requests_again)
        requests = Requests(
            self._stream, terms.chain, self._meters, again_since=since, started_at=started_at
        )
        look_ups = LookUps(
            self._stream,
            terms.chain,
            self._meters,
            again_since=since,
            answered=tail.answered,
            unsettled=tail.unsettled,
            clock=self._clock,
        )
        self._loop = loop
        log.info(
            "watching",
            chain=terms.chain,
            from_height=last.height + 1 if last else None,
            watched=loop.status().watched,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(for_ever(lambda: self._tell(watchlist.take, loop)))
            tasks.create_task(for_ever(lambda: self._tell(requests.take, loop)))
            tasks.create_task(for_ever(lambda: self._tell(look_ups.take, loop)))
            tasks.create_task(for_ever(self._observe))
            # In the block itself: a group that fails once its block has ended leaves a cancellation
            # of ours counted, and the next life would end for it (Python 3.11).
            await for_ever(lambda: self._publish_next(loop, writer))

    async def _tell(self, take: Callable[..., Awaitable[None]], loop: FollowLoop) -> None:
        """Take what comes next; a log that cannot be read now is asked again by itself."""
        try:
            await take(loop, wait_s=POLL_S)
        except StreamUnavailable as error:
            await self._back_off(error)

    async def _publish_next(self, loop: FollowLoop, writer: Writer) -> None:
        step = await loop.next_step()
        terms, now = self._terms, self._clock.now()
        messages = messages_of(step, terms.chain, lanes=terms.lanes, now=now)
        if step.watermark is not None:
            self._told.append(now)
        with self._timed():
            await self._send(writer, messages)
        self._log_failures = 0
        self._count(step)

    async def _send(self, writer: Writer, messages: list[Outgoing]) -> None:
        """Append; a log that took nothing is asked again with the same step, a few times."""
        for attempt in range(1, SENDS_MAX + 1):
            try:
                await writer.append(messages)
            except StreamUnavailable as error:
                if attempt == SENDS_MAX:
                    raise
                await self._back_off(error)
            else:
                return

    async def _back_off(self, error: BaseException) -> None:
        wait_s = BACK_OFF_S[min(self._log_failures, len(BACK_OFF_S) - 1)]
        self._log_failures += 1
        self._meters.add(metrics.WATCH_LOG_FAILURES, chain=self._terms.chain)
        log.warning(
            "the log cannot be used now",
            chain=self._terms.chain,
            error=f"{type(error).__name__}: {error}",
            again_in_s=wait_s,
        )
        await self._clock.sleep(wait_s)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        started_s = self._clock.monotonic_s()
        yield
        self._meters.observe(
            metrics.WATCH_PUBLISH_DURATION,
            self._clock.monotonic_s() - started_s,
            chain=self._terms.chain,
        )

    def _count(self, step: Step) -> None:
        chain = self._terms.chain
        for fact in step.facts:
            self._meters.add(metrics.WATCH_FACTS, chain=chain, kind=kind_name(fact))
        retracted = sum(isinstance(fact, BlockRetracted) for fact in step.facts)
        if retracted:
            self._meters.add(metrics.WATCH_RETRACTED, retracted, chain=chain)
        self._retracted_in_a_row += retracted
        if self._retracted_in_a_row and isinstance(step.watermark, Watermark):
            depth, self._retracted_in_a_row = self._retracted_in_a_row, 0
            self._meters.observe(metrics.WATCH_REORGANISATION_DEPTH, depth, chain=chain)
        if len(step.facts) > 1:
            log.info(
                "step published",
                chain=chain,
                facts=len(step.facts),
                height=step.watermark.height if step.watermark else None,
                retracted=retracted,
            )

    async def _observe(self) -> None:
        """Show where the loop stands, also while it waits for a node."""
        status, chain = self.status(), self._terms.chain
        if status is not None:
            self.head_age.covered(status.covered_time)
            set_ = self._meters.set
            set_(metrics.CHAIN_HEAD_HEIGHT, status.head_height, chain=chain)
            set_(metrics.CHAIN_COVERED_HEIGHT, status.covered_height, chain=chain)
            set_(metrics.CHAIN_FINALIZED_HEIGHT, status.finalized_height, chain=chain)
            set_(metrics.WATCH_ADDRESSES, status.watched, chain=chain)
            set_(metrics.WATCH_BACK_SCANS, status.back_scans_open, chain=chain)
            set_(metrics.WATCH_FAILURES, status.failures_in_a_row, chain=chain)
            set_(metrics.WATCH_HELD, status.held is not None, chain=chain)
            if status.covered_time is not None:
                moment = status.covered_time.timestamp()
                set_(metrics.CHAIN_COVERED_TIMESTAMP, moment, chain=chain)
        await self._clock.sleep(OBSERVE_S)
