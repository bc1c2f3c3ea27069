"""A story of one loop on a scripted chain, and the naive reader who applies what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from chains.follow import Follower
from chains.pace import FollowSettings
from chains.port import Checkpoint, Step, WatchEntry
from reconciler.watch.checkpoint import standing_watermarks
from schemas.facts import BlockRetracted, TransferDropped, TransferSeen, Watermark
from tests.parts.scripted_source import (
    START,
    ScriptedSource,
    StoppedClock,
    address,
    display,
    entry,
)


class StepsLog:
    """The log of these steps, as what a loop asks for that remembers too little."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.asked = 0

    async def older(self, down_to: int) -> Sequence[Watermark]:
        del down_to
        facts = [fact for step in self._steps for fact in step.facts]
        return standing_watermarks(f for f in facts if isinstance(f, Watermark | BlockRetracted))

    async def announced(self, back_s: float) -> Sequence[TransferSeen]:
        del back_s
        self.asked += 1
        waiting: dict[str, TransferSeen] = {}
        for fact in [fact for step in self._steps for fact in step.facts]:
            if isinstance(fact, TransferSeen | TransferDropped):
                waiting.pop(fact.transfer, None)
            if isinstance(fact, TransferSeen) and fact.block is None:
                waiting[fact.transfer] = fact
        return list(waiting.values())


class Story:
    """A chain, a loop on it, and the facts that came out."""

    def __init__(self, *, limit: int = 16, settings: FollowSettings | None = None) -> None:
        self.clock = StoppedClock(START + timedelta(hours=1))
        self.source = ScriptedSource(self.clock)
        self.limit = limit
        self.settings = settings
        self.steps: list[Step] = []
        self.log = StepsLog(self.steps)
        self.observed: list[object] = []
        self.offset = 0
        self.loop: Follower | None = None

    def begin(self, *, start_at: int | None = 0, checkpoint: Checkpoint | None = None) -> Follower:
        self.loop = Follower(
            self.source,
            entry=entry(self.limit),
            checkpoint=checkpoint,
            log_id="log-1",
            start_at=start_at,
            log=self.log,
            clock=self.clock,
            observer=self.observed.append,
            settings=self.settings,
            lot=lambda: 1.0,
        )
        return self.loop

    def restart(self) -> Follower:
        """Begin again from the log, as a new process does."""
        marks = [fact for fact in self.facts if isinstance(fact, Watermark)]
        return self.begin(start_at=None, checkpoint=Checkpoint(watermarks=marks))

    def watch(self, *numbers: int, since: datetime = START + timedelta(days=30)) -> None:
        assert self.loop is not None
        for number in numbers:
            raw = address(number)
            one = WatchEntry(raw=raw, display=display(raw), since=since, offset=self.offset)
            self.offset += 1
            self.loop.add_addresses([one], read_upto_offset=self.offset)

    async def step(self) -> Step:
        assert self.loop is not None
        step = await self.loop.next_step()
        self.steps.append(step)
        return step

    async def covers(self, height: int, *, steps_max: int = 400) -> None:
        """Take steps until this height of the present branch is covered."""
        name = self.source.branch[height]
        for _ in range(steps_max):
            mark = (await self.step()).watermark
            if mark is not None and mark.height == height and mark.hash == name:
                return
        message = f"never covered {height}"
        raise AssertionError(message)

    async def until(self, kind: type, *, steps_max: int = 400) -> list[object]:
        """Take steps until one has such a fact; give those facts."""
        for _ in range(steps_max):
            found = [fact for fact in (await self.step()).facts if isinstance(fact, kind)]
            if found:
                return found
        message = f"never gave {kind.__name__}"
        raise AssertionError(message)

    @property
    def facts(self) -> list[object]:
        return [fact for step in self.steps for fact in step.facts]

    def of(self, kind: type) -> list:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def applied(steps: Sequence[Step]) -> tuple[dict[str, tuple[int, str]], tuple[int, str] | None]:
    """Apply steps as a naive reader does: which transfers stand where, and what is covered.

    Refuses what a reader would hold or pass over: a watermark that does not follow coverage, a
    retraction of what was not covered last.
    """
    standing: dict[str, tuple[int, str]] = {}
    covered: tuple[int, str] | None = None
    for step in steps:
        for fact in step.facts:
            if isinstance(fact, TransferSeen):
                assert fact.block is not None
                standing[fact.transfer] = (fact.block.height, fact.block.hash)
            elif isinstance(fact, BlockRetracted):
                assert covered == (fact.height, fact.hash), "what was never covered is taken back"
                covered = (fact.parent.height, fact.parent.hash)
                standing = {k: at for k, at in standing.items() if at[0] <= fact.parent.height}
            elif isinstance(fact, Watermark):
                own = (fact.height, fact.hash)
                if covered is None or fact.height > covered[0]:
                    if covered is not None:
                        assert (fact.from_height - 1, fact.parent_hash) == covered
                    covered = own
                elif fact.height == covered[0]:
                    assert own == covered
    return standing, covered
