"""Everything that a run has beside the service: time, chains, log, database, and who watches over it."""

from __future__ import annotations

import asyncio
import hashlib
import traceback
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from reconciler.config.settings import Settings
from tests.parts.memory_stream import MemoryLog
from tests.simulate.database import Database
from tests.simulate.loop import VirtualLoop
from tests.simulate.plan import FAULTS_UNTIL_S, Faults, Plan
from tests.simulate.settings import SHARED_ADDRESS, SHARED_UTXO_ADDRESS, settings_of
from tests.simulate.street import EvmStreet, Movement, Street
from tests.simulate.utxo_street import UtxoStreet

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
_NO_FAULTS = Faults()


class Violation(Exception):
    """A promise was broken. The sentence says which and where."""


class World:
    """One run. `trace` tells what happened; its hash is equal for equal seeds."""

    def __init__(self, plan: Plan, loop: VirtualLoop, *, tell: bool = False) -> None:
        self.plan = plan
        self.loop = loop
        self.settings: Settings = settings_of(plan)
        self.database = Database()
        self.log = MemoryLog(_LogClock(self), marker_holes=plan.seed % 2 == 1)
        self.log.create(self.settings.topic_specs())
        self.streets = [self._street(number) for number in range(plan.chains)]
        self.shared_address = SHARED_UTXO_ADDRESS if plan.utxo else SHARED_ADDRESS
        self.broken: asyncio.Future[None] = loop.create_future()
        self.calm = False
        #: While a person may still hold something, nothing has ended.
        self.operator_is_done = False
        self.outbox_written = asyncio.Event()
        self._tell = tell
        self._hash = hashlib.sha256()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.lines = 0

    def _street(self, number: int) -> Street:
        lot = self.lot(f"chain {number}")
        if self.plan.utxo:
            return UtxoStreet(number, lot, self._unix)
        return EvmStreet(number, lot, self._unix, lag=self.plan.finality_lag)

    def lot(self, name: str) -> Random:
        """Chance of its own for everybody, so that one more draw of one moves no other."""
        return Random(f"{self.plan.seed}/{name}")

    @property
    def faults(self) -> Faults:
        return _NO_FAULTS if self.calm else self.plan.faults

    def now(self) -> datetime:
        return START + timedelta(seconds=self.loop.time())

    def _unix(self) -> int:
        return int(self.now().timestamp())

    def answer_delay_s(self, lot: Random) -> float:
        """How long a node takes, one way."""
        share = self.faults.slow_answer_share
        if share and lot.random() < share:
            return lot.choice((0.5, 2.0, 7.0))
        return 0.02

    def paid_to(self, address: str) -> list[Movement]:
        """Give everything that was ever sent to an address, mined or not."""
        return [
            movement
            for street in self.streets
            for movements in street.movements.values()
            for movement in movements
            if movement.to == address
        ]

    def do(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let somebody work beside the service; what goes wrong there ends the run."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            self.broke(f"the simulator: {error!r}", error)

    def trace(self, what: str, *words: object) -> None:
        """Tell what happened."""
        line = f"{self.loop.time():9.3f} {what} {' '.join(map(str, words))}"
        self.lines += 1
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        if self._tell:
            print(line, flush=True)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def violated(self, sentence: str) -> None:
        """End the run: a promise is broken."""
        self.trace("VIOLATION", sentence)
        if not self.broken.done():
            self.broken.set_exception(Violation(sentence))

    def broke(self, sentence: str, error: BaseException | None) -> None:
        """End the run with what came out of somebody."""
        if isinstance(error, Violation):
            self.violated(str(error))
            return
        if self._tell and error is not None:
            traceback.print_exception(error)
        self.violated(sentence)

    @property
    def faults_are_over(self) -> bool:
        return self.calm or self.loop.time() >= FAULTS_UNTIL_S


class _LogClock:
    """The log's own clock, which is the true one."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.now()

    def monotonic_s(self) -> float:
        return self._world.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))
