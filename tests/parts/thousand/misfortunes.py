"""What goes wrong in a run, at moments that only the seed knows: every process dies and comes again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from random import Random

from tests.parts.kafka.cluster import KafkaCluster
from tests.parts.processes import ProductProcess

DOWN_S = (0.1, 1.5)
BROKER_DOWN_S = 8.0
#: Longer than its group waits for it: it wakes up and finds its lanes with others.
SLEEPS_S = 9.0
#: A process is struck in its work, so many seconds after it has begun it …
WORKS_S = (0.0, 2.0)
#: … or when it finds nothing to do for so long.
IDLE_S_MAX = 20.0


class Misfortunes:
    """Kills processes so many times each, spread over the play; then leaves them alone."""

    def __init__(
        self,
        seed: int,
        processes: Sequence[ProductProcess],
        *,
        times: int,
        progress: Callable[[], float],
        sleepers: Sequence[ProductProcess] = (),
        cluster: KafkaCluster | None = None,
    ) -> None:
        random = Random(f"misfortunes {seed}")
        self._processes = processes
        self._progress = progress
        self._sleepers = sleepers
        self._cluster = cluster
        self._broker = random.randrange(3)
        self._broker_at = random.uniform(0.2, 0.6)
        self._strikes = {
            process.name: [
                (
                    random.uniform(turn / times, (turn + 0.9) / times),
                    random.uniform(*WORKS_S),
                    random.uniform(*DOWN_S),
                )
                for turn in range(times)
            ]
            for process in processes
        }
        self.done = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for process in self._processes:
                tasks.create_task(self._strike(process))
            if self._cluster is not None:
                tasks.create_task(self._lose_a_broker(self._cluster))
        self.done = True

    async def watch(self) -> None:
        """Nobody may end by himself."""
        while True:
            for process in self._processes:
                assert process.is_down or process.code is None, (
                    f"{process.name} ended with {process.code} by itself; {process.tail()}"
                )
            await asyncio.sleep(0.5)

    async def _strike(self, process: ProductProcess) -> None:
        for at, works_s, down_s in self._strikes[process.name]:
            await self._reach(at)
            await self._until_at_work(process)
            await asyncio.sleep(works_s)
            process.kill()
            await asyncio.sleep(down_s)
            process.start()
        if process in self._sleepers:
            await self._until_at_work(process)
            process.freeze()
            await asyncio.sleep(SLEEPS_S)
            process.thaw()

    async def _until_at_work(self, process: ProductProcess) -> None:
        idle_until = time.monotonic() + IDLE_S_MAX
        while not process.is_at_work() and time.monotonic() < idle_until:
            await asyncio.sleep(0.1)

    async def _lose_a_broker(self, cluster: KafkaCluster) -> None:
        await self._reach(self._broker_at)
        cluster.kill(self._broker)
        await asyncio.sleep(BROKER_DOWN_S)
        await cluster.restart(self._broker)

    async def _reach(self, progress: float) -> None:
        while self._progress() < progress:
            await asyncio.sleep(0.1)
