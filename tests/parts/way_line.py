"""One chain of a whole way: our loop over its nodes, and what goes on to the services.

Which nodes stand behind it, and how money is paid there, is what its kinds add
(`tests.parts.whole_way.EvmLine`, `tests.parts.utxo_way.CoinLine`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from chains.catalog import Asset
from chains.follow import Follower, FollowSettings
from chains.http_node import NodeLimits
from chains.observe import BlockTaken, Observation, ReadFailed
from chains.port import ChainSource, Checkpoint, Step
from chains.registry import open_source
from schemas.caip import ChainName
from schemas.facts import Watermark
from tests.parts.follow_story import StepsLog
from tests.parts.world import World

if TYPE_CHECKING:
    from tests.parts.whole_way import Way

#: Waits that one pump lives through before it says that nothing more will come.
PATIENCE = 24
#: A step takes milliseconds; one that takes this long waits for a clock that is not ours.
STEP_S_MAX = 60.0
LIMITS = NodeLimits(timeout_s=30.0, connect_timeout_s=30.0, answer_bytes_max=4 * 2**20)


class Tip(NamedTuple):
    """The newest block of a chain. **Units**: `time` in seconds since 1970."""

    hash: str
    time: int


class WayClock:
    """The chain's time; a wait passes at once, and is counted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._passed_s = 0.0
        self._waits = 0
        self.patience = PATIENCE
        self.longest_wait_s = 0.0
        self.tired = asyncio.Event()

    def now(self) -> datetime:
        return self._world.now

    def monotonic_s(self) -> float:
        return self._passed_s

    def refresh(self) -> None:
        self._waits = 0
        self.tired.clear()

    def pass_by(self, seconds: float) -> None:
        self._passed_s += seconds

    async def sleep(self, seconds: float) -> None:
        self._passed_s += seconds
        self.longest_wait_s = max(self.longest_wait_s, seconds)
        self._waits += 1
        if self._waits > self.patience:
            self.tired.set()
            await asyncio.Event().wait()


class Line:
    """One chain: our loop over it, and what went on to the services."""

    def __init__(self, way: Way, chain: ChainName) -> None:
        self.way, self.name = way, chain
        self.limit = way.world.catalogue.chain(chain).reorganisation_limit
        self.urls: list[str] = []
        self.clock = WayClock(way.world)
        self.ignored: Counter[str] = Counter()
        self.failures: list[ReadFailed] = []
        self.marks: list[Watermark] = []
        self.loop: Follower | None = None
        self.source: ChainSource | None = None
        self.steps: list[Step] = []

    @property
    def tip(self) -> Tip:
        raise NotImplementedError

    def mine(self, blocks: int = 1, **more: Any) -> None:
        raise NotImplementedError

    def pass_time(self, span: timedelta) -> None:
        """Mine empty blocks until the chain's time is so much later."""
        raise NotImplementedError

    def asset(self, symbol: str) -> Asset:
        found = self.way.world.catalogue.assets_of(self.name)
        return next(asset for asset in found if asset.symbol == symbol)

    async def open(
        self,
        checkpoint: Checkpoint | None = None,
        *,
        start_at: int = 1,
        watermark_every_s: float = 1.0,
    ) -> None:
        """Start the source, and a loop that goes on from the checkpoint or from the first block."""
        catalogue = self.way.world.catalogue
        self.source = open_source(
            self.name,
            self.urls,
            catalogue=catalogue,
            clock=self.clock,
            observer=self._observe,
            limits=LIMITS,
        )
        self.loop = Follower(
            self.source,
            entry=msgspec.structs.replace(
                catalogue.chain(self.name), reorganisation_limit=self.limit
            ),
            checkpoint=checkpoint,
            log_id="log-1",
            start_at=start_at,
            log=StepsLog(self.steps),
            clock=self.clock,
            observer=self._observe,
            settings=FollowSettings(empty_watermark_s=watermark_every_s, resend_s=10**9),
            lot=lambda: 1.0,
        )
        self.way.offset[self.name] = 0
        self.way.world.store.outbox_written.set()

    async def close(self) -> None:
        if self.source is not None:
            await self.source.close()

    async def restart(self) -> None:
        """Another process takes over, with what the log remembers."""
        await self.close()
        await self.open(Checkpoint(watermarks=list(self.marks)) if self.marks else None)

    def _observe(self, seen: Observation) -> None:
        if isinstance(seen, BlockTaken):
            self.ignored.update(seen.ignored)
        elif isinstance(seen, ReadFailed):
            self.failures.append(seen)

    def is_done(self) -> bool:
        assert self.loop is not None
        status = self.loop.status()
        at_head = bool(self.marks) and self.marks[-1].hash == self.tip.hash
        waiting = status.back_scans_open or status.look_ups_open or self.loop._side.is_due()
        return at_head and not waiting

    async def step(self) -> bool:
        """Take one step of the loop to the services. False: nothing comes, or nothing more will."""
        if self.loop is None:
            return False
        await self.way.tell()
        if self.is_done():
            return False
        self.clock.refresh()
        stepping = asyncio.create_task(self.loop.next_step())
        tired = asyncio.create_task(self.clock.tired.wait())
        async with asyncio.timeout(STEP_S_MAX):
            await asyncio.wait({stepping, tired}, return_when=asyncio.FIRST_COMPLETED)
        tired.cancel()
        if not stepping.done():
            stepping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await stepping
            return False
        step = stepping.result()
        self.steps.append(step)
        for fact in step.facts:
            if isinstance(fact, Watermark) and (
                not self.marks or fact.height > self.marks[-1].height or step.watermark is fact
            ):
                self.marks = [mark for mark in self.marks if mark.height < fact.height]
                self.marks.append(fact)
        await self.way.publish(self, step)
        return True
