"""Time that only passes when everybody waits, and a seeded scheduler over it.

Simulated: the order in which tasks that are ready take their next step, and how long anything takes.
Not simulated: threads, sockets, signals; whoever asks for one of them fails.

The same seed gives the same run: the next step is drawn from the seed, timers fire in the order of
their deadlines, and tasks have numbers as hashes, since sets of tasks are walked when groups are
cancelled and an object's address differs from process to process.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Coroutine
from random import Random
from typing import Any, Final

#: More steps without time passing would be a loop that never waits.
STEPS_WITHOUT_TIME_MAX: Final = 200_000


class StalledError(Exception):
    """Nobody is ready and nobody waits for a time: the run would stand still for ever."""


class SpinningError(Exception):
    """Somebody runs and runs, and time does not pass."""


class NumberedTask(asyncio.Task):  # type: ignore[type-arg]
    """A task that hashes by its number."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.base_events.BaseEventLoop):
    """An event loop on virtual time. `shuffled` draws the next step; else it is first come, first."""

    def __init__(self, chance: Random, *, shuffled: bool) -> None:
        super().__init__()
        self.steps = 0
        self._chance = chance.random
        self._shuffled = shuffled
        self._now_s = 0.0
        self._tasks_made = 0
        self._moved_at = 0
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._now_s

    def _make_task(
        self, _loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **more: Any
    ) -> NumberedTask:
        task = NumberedTask(coroutine, loop=self, **more)
        self._tasks_made += 1
        task.number = self._tasks_made
        return task

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled
        if not ready:
            while timers and timers[0]._cancelled:
                heapq.heappop(timers)._scheduled = False
            if not timers:
                message = "nobody is ready and nobody waits for a time"
                raise StalledError(message)
            self._now_s = max(self._now_s, timers[0]._when)
            self._moved_at = self.steps
        while timers and timers[0]._when <= self._now_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        self._step(ready)

    def _step(self, ready: Any) -> None:
        self.steps += 1
        if self.steps - self._moved_at > STEPS_WITHOUT_TIME_MAX:
            message = f"{STEPS_WITHOUT_TIME_MAX} steps at {self._now_s} s"
            raise SpinningError(message)
        count = len(ready)
        if self._shuffled and count > 1:
            place = int(self._chance() * count)
            ready.rotate(-place)
            handle = ready.popleft()
            ready.rotate(place)
        elif count:
            handle = ready.popleft()
        else:
            return
        if not handle._cancelled:
            handle._run()

    def _write_to_self(self) -> None:
        """There is no other thread to wake us."""

    def _process_events(self, event_list: Any) -> None:
        """There are no sockets."""
