"""The service of a run: the product's own composition root, in processes that come back after a death.

What runs is what `reconciler watch`, `intake`, `relay` or `run` would run. Replaced are only the
engine, the log and the clocks (given to `Parts`), the exchange of bytes with nodes, and how often
somebody looks whether something is new: a minute of waiting costs as many looks as it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any
from unittest import mock
from uuid import UUID

from chains.errors import Fatal
from chains.follow import FollowSettings
from reconciler import wiring
from reconciler.kernel.refusals import TakenOver
from reconciler.observability.health import Health
from reconciler.observability.metrics import Meters, Metric
from reconciler.observability.stopping import Job, leaves
from reconciler.storage.unit_of_work import Store
from reconciler.wiring import Parts
from schemas.caip import ChainName
from tests.simulate import database, street
from tests.simulate.process import Process
from tests.simulate.stream import ProcessStream
from tests.simulate.world import World

#: How long a process is down before its machine starts it again.
RESTARTS_AFTER_S = (0.5, 8.0)
STARTS_MAX = 400


class NoMeters(Meters):
    """Nobody looks at the meters of a simulated process."""

    def __init__(self) -> None:
        """Make none."""

    def add(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        """Count nothing."""

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Show nothing."""

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Measure nothing."""


class Role:
    """What one process does, over all its lives."""

    def __init__(self, world: World, name: str, jobs: Callable[[Parts], dict[str, Job]]) -> None:
        self.world = world
        self.name = name
        self.process: Process | None = None
        self._jobs = jobs
        self._lot = Random(f"{world.plan.seed}/{name}")
        self._lives = 0

    async def keep_alive(self) -> None:
        """Start it, and start it again whenever it has ended."""
        for _ in range(STARTS_MAX):
            self.process = process = self.new_process()
            await self.run(process)
            await asyncio.sleep(self._lot.uniform(*RESTARTS_AFTER_S))
        self.world.violated(f"{self.name} was started {STARTS_MAX} times")

    def new_process(self) -> Process:
        self._lives += 1
        return Process(self.world, f"{self.name}#{self._lives}", self._lot)

    async def run(self, process: Process) -> None:
        """Live one life to its end, whatever that is."""
        self.world.trace("start", process.name)
        task = process.start(partial(self._live, process))
        await asyncio.wait([task])
        why = "killed" if not process.alive else _why(task)
        process.kill()
        self.world.trace("end", process.name, why)
        if not task.cancelled() and task.exception() is not None:
            self._judge(process, task.exception())

    def _judge(self, process: Process, error: BaseException | None) -> None:
        """Tell an end that is meant to be from a bug."""
        expected = (TakenOver, Fatal, ConnectionError)
        assert error is not None
        if not all(isinstance(one, expected) for one in leaves(error)):
            self.world.broke(f"{process.name} ended with {error!r}", error)

    async def _live(self, process: Process) -> None:
        world = self.world
        parts = Parts(
            settings=world.settings,
            store=self._store(),
            stream=ProcessStream(process, world.log),
            clock=process.clock,
            meters=NoMeters(),
            health=Health(),
        )
        async with asyncio.TaskGroup() as tasks:
            for job in self._jobs(parts).values():
                tasks.create_task(job())

    def _store(self) -> Store:
        """Open the database. Whoever writes for the relays wakes them, in any process."""
        store = Store(database.engine())
        store.outbox_written = self.world.outbox_written
        return store


def roles_of(world: World) -> list[Role]:
    """Divide the service into processes as the plan says."""
    plan, chains = world.plan, world.settings.chains()
    if plan.all_in_one:
        return [Role(world, "run", partial(_everything, chains))]
    roles = [Role(world, f"watch {chain}", partial(_watch, [chain])) for chain in chains]
    roles += [Role(world, f"intake {number}", _intake) for number in range(plan.intakes)]
    roles += [Role(world, f"relay {shard}", partial(_relay, shard)) for shard in range(plan.shards)]
    return roles


def _watch(chains: list[ChainName], parts: Parts) -> dict[str, Job]:
    return {chain: wiring.watch_job_of(parts, chain)[0] for chain in chains}


def _intake(parts: Parts) -> dict[str, Job]:
    return {"intake": wiring.intake_of(parts).run}


def _relay(shard: int, parts: Parts) -> dict[str, Job]:
    return {"relay": wiring.relay_of(parts, shard).run}


def _everything(chains: list[ChainName], parts: Parts) -> dict[str, Job]:
    return _watch(chains, parts) | wiring.apply_and_send_jobs_of(parts)


def _why(task: asyncio.Task[Any]) -> str:
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    return "done" if error is None else type(leaves(error)[0]).__name__


#: (where, name, value): how often somebody looks. The product looks more often and finds the same.
_PACES: tuple[tuple[str, str, Any], ...] = (
    ("reconciler.intake.lane", "WAIT_S", 8.0),
    ("reconciler.intake.lane", "MARK_EVERY", timedelta(seconds=8)),
    ("reconciler.intake.intake", "SWEEP_EVERY_S", 12.0),
    ("reconciler.intake.intake", "LANES_EVERY_S", 4.0),
    ("reconciler.intake.intake", "PARKED_EVERY_S", 25.0),
    ("reconciler.intake.intake", "BLIND_EVERY_S", 15.0),
    ("reconciler.intake.intake", "MEASURE_EVERY_S", 100_000.0),
    ("reconciler.relay.relay", "POLL_S", 8.0),
    ("reconciler.relay.relay", "POLL_IDLE_S", 8.0),
    ("reconciler.relay.relay", "MEASURE_EVERY_S", 100_000.0),
    ("reconciler.watch.watcher", "POLL_S", 8.0),
    ("reconciler.watch.watcher", "OBSERVE_S", 30.0),
)


@contextmanager
def stand_ins(lot: Random) -> Iterator[None]:
    """Put the seed where the product asks for chance, and what is simulated where it is not."""

    def number() -> UUID:
        return UUID(int=lot.getrandbits(128))

    with ExitStack() as stack:
        for where, name, value in _PACES:
            stack.enter_context(mock.patch(f"{where}.{name}", value))
        for where, value in (
            ("reconciler.wiring.uuid4", number),
            ("reconciler.wiring.FollowSettings", partial(FollowSettings, wait_s=5.0)),
            ("reconciler.storage.unit_of_work.random.random", lot.random),
            ("chains.http_node.HttpNode._exchange", street.exchange),
            ("chains.evm.source._import_web3", street.nothing),
            ("sqlalchemy.ext.asyncio.engine.greenlet_spawn", database.spawn),
        ):
            stack.enter_context(mock.patch(where, value))
        stack.enter_context(
            mock.patch("chains.pool.RpcPool.__init__.__kwdefaults__", {"chance": lot.random})
        )
        defaults = {**_follower_defaults(), "lot": lot.random}
        stack.enter_context(mock.patch("chains.follow.Follower.__init__.__kwdefaults__", defaults))
        yield


def _follower_defaults() -> dict[str, Any]:
    from chains.follow import Follower

    return dict(Follower.__init__.__kwdefaults__ or {})
