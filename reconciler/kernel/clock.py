"""Time. Nobody calls `now()` in place: a clock is taken, so that tests and the simulator own it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from reconciler.kernel.checks import check


class Clock(Protocol):
    """What time it is, and waiting."""

    def now(self) -> datetime:
        """Give the wall clock, aware, in UTC. It may jump; use it only to say when."""
        ...

    def monotonic_s(self) -> float:
        """Give seconds since some start; never falls. Use it to measure how long."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait. Zero or less only lets others run."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Give the wall clock."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Give the machine's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        await asyncio.sleep(max(seconds, 0))


class ManualClock:
    """A clock that moves when it is told to. Sleepers wake in the order of their deadlines."""

    def __init__(self, start: datetime) -> None:
        check(start.tzinfo is not None, f"a clock starts at an aware instant, found {start!r}")
        self._start = start.astimezone(UTC)
        self._passed = timedelta()
        self._order = itertools.count()
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Give the instant that the clock was moved to."""
        return self._start + self._passed

    def monotonic_s(self) -> float:
        """Give the seconds that the clock was moved since its start."""
        return self._passed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Wait until `advance` has passed that point."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake = asyncio.get_running_loop().create_future()
        deadline = self._passed + timedelta(seconds=seconds)
        heapq.heappush(self._sleepers, (deadline, next(self._order), wake))
        await wake

    @property
    def sleepers(self) -> int:
        """Count who waits: a test goes on once all that it drives are asleep."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    def next_deadline(self) -> datetime | None:
        """Tell when the next sleeper wants to wake; None when nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._start + self._sleepers[0][0] if self._sleepers else None

    def advance(self, span: timedelta) -> None:
        """Move on; wakes whoever waited for a moment up to the new one."""
        check(span >= timedelta(), f"a clock does not go back, found {span}")
        self._passed += span
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            _, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)

    def advance_to(self, moment: datetime) -> None:
        """Move on to an instant; one that has passed changes nothing."""
        self.advance(max(moment - self.now(), timedelta()))
