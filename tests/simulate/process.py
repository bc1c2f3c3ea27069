"""A process of the service: tasks behind a gate, which is closed when the process dies.

Simulated: a process that dies between any two awaits (what it had begun in the database is rolled
back, what it had in memory is gone, its place in a group stays until its session has lapsed), one
that is stopped and goes on later, a wall clock of its own that is off and jumps. Everything that a
process does to the world goes through the gate, so that whatever a dead one's `finally` blocks still
try has no effect. Not simulated: a process that dies within a statement or a pure computation.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulate import database
from tests.simulate.database import Database

if TYPE_CHECKING:
    from tests.simulate.world import World

#: After so long a group gives the lanes of a dead member to others.
SESSION_S = 6.0


class ProcessClock:
    """What time a process believes it is."""

    def __init__(self, world: World, off_s: float) -> None:
        self._world = world
        self.off_s = off_s

    def now(self) -> datetime:
        return self._world.now() + timedelta(seconds=self.off_s)

    def monotonic_s(self) -> float:
        return self._world.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))


class Process:
    """One life of one process (`tests.simulate.database.Client`)."""

    def __init__(self, world: World, name: str, lot: Random) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.lot = lot
        self.clock = ProcessClock(world, lot.uniform(-2, 2))
        self.task: asyncio.Task[Any] | None = None
        self.on_death: list[Callable[[], None]] = []
        self._paused: asyncio.Future[None] | None = None

    # --- its life ---

    def start(self, live: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        context = contextvars.copy_context()
        context.run(database.client.set, self)

        async def run() -> None:
            await live()

        self.task = asyncio.get_running_loop().create_task(run(), context=context)
        return self.task

    def kill(self) -> None:
        """Die here and now."""
        if not self.alive:
            return
        self.alive = False
        self.database.roll_back_of(self)
        self.resume()
        for leave in self.on_death:
            leave()
        if self.task is not None:
            self.task.cancel()

    def pause(self) -> None:
        """Stand still at the next gate. What it holds in the database is taken from it."""
        if self._paused is None:
            self.database.roll_back_of(self)
            self._paused = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        paused, self._paused = self._paused, None
        if paused is not None and not paused.done():
            paused.set_result(None)

    @property
    def is_paused(self) -> bool:
        return self._paused is not None

    # --- the gate ---

    async def gate(self) -> None:
        """Pass, if the process lives and is not stopped."""
        while self._paused is not None:
            await asyncio.shield(self._paused)
        if not self.alive or self._dies():
            raise asyncio.CancelledError

    def _dies(self) -> bool:
        """Die right here, for whatever is between two awaits: in the middle of a transaction, behind a
        commit, before the answer to an append.
        """
        share = self.world.faults.dies_share
        if not share or self.lot.random() >= share:
            return False
        self.world.trace("dies", self.name)
        self.kill()
        return True

    async def pass_time(self, seconds: float) -> None:
        """Take some time on the way through the gate."""
        await self.gate()
        if seconds > 0:
            await asyncio.sleep(seconds)
            await self.gate()

    # --- as a client of the database ---

    @property
    def database(self) -> Database:
        return self.world.database

    def turn(self) -> Awaitable[None] | None:
        """Say what to wait for before the database is asked, if anything."""
        if self._paused is not None or not self.alive:
            return self.gate()
        if self.world.faults.dies_share and self._dies():
            return self.gate()
        share = self.world.plan.yield_share
        if share and self.lot.random() < share:
            return self._let_others_run()
        return None

    def before_begin(self) -> None:
        busy = self.world.faults.database_busy_share
        if busy and self.lot.random() < busy:
            message = "database is locked"
            raise database.sqlite3.OperationalError(message)

    def before_statement(self) -> None:
        lost = self.world.faults.database_lost_share
        if lost and self.lot.random() < lost:
            self.database.roll_back_of(self)

    def after_commit(self) -> None:
        unknown = self.world.faults.commit_unknown_share
        if unknown and self.lot.random() < unknown:
            message = "the connection broke while committing"
            raise ConnectionResetError(message)

    async def _let_others_run(self) -> None:
        await asyncio.sleep(self.lot.choice((0, 0, 0.001, 0.05)))
        await self.gate()
