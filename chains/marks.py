"""Watermarks: what the loop says about the blocks that it read, and the steps that they close.

Bookkeeping over the `Line`; reads the clock, asks no node. The only place that makes a watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from chains.clock import Clock
from chains.line import Line, Taken
from chains.port import Step
from schemas.caip import ChainName
from schemas.facts import ChainFact, Watermark


class Marks:
    """Makes watermarks and closes steps. `finalized` is what the chain calls final, kept by the loop."""

    def __init__(self, line: Line, *, chain: ChainName, log_id: str, clock: Clock) -> None:
        self.line = line
        self.finalized = line.said.finalized_height if line.said else 0
        self.said_at_s = clock.monotonic_s()
        self.watchlist_upto: Callable[[], int] = lambda: 0
        self._chain = chain
        self._log_id = log_id
        self._clock = clock
        self._before: list[ChainFact] = []

    def of(self, taken: Taken) -> Watermark:
        """Speak for a span. Its time is never later than the moment of reading."""
        now = self._clock.now()
        return Watermark(
            chain=self._chain,
            from_height=taken.from_height,
            height=taken.header.height,
            hash=taken.header.hash,
            parent_hash=taken.parent_hash,
            time=min(taken.header.coverage_time, now),
            finalized_height=self.finalized,
            read_at=now,
            log_id=self._log_id,
            watchlist_upto=self.watchlist_upto(),
        )

    def say(self, taken: Taken, facts: Sequence[ChainFact]) -> Step:
        """Give a step that moves the line over a span."""
        watermark = self.of(taken)
        self.line.say(taken, watermark)
        return self._step([*facts, watermark])

    def say_silent(self) -> list[ChainFact]:
        """Speak for the blocks that were read and not said yet; nothing when there are none."""
        silent = self.line.silent
        if silent is None:
            return []
        watermark = self.of(silent)
        self.line.say(silent, watermark)
        return [watermark]

    def silent_step(self) -> Step | None:
        """Give a step that says the silent blocks, if there are any."""
        facts = self.say_silent()
        return self._step(facts) if facts else None

    def again(self, facts: Sequence[ChainFact] = ()) -> Step | None:
        """Give a step that moves nothing: facts, closed by the last watermark said again.

        None before the first watermark.
        """
        said = self.line.said
        if said is None:
            return None
        again = replace(
            said,
            read_at=self._clock.now(),
            finalized_height=self.finalized,
            watchlist_upto=self.watchlist_upto(),
        )
        self.line.say_again(again)
        return self._step([*facts, again])

    def put_before(self, facts: Sequence[ChainFact]) -> None:
        """Let facts that nothing closes yet open the next step."""
        self._before.extend(facts)

    def since_said_s(self) -> float:
        """Tell how long ago the last watermark was given."""
        return self._clock.monotonic_s() - self.said_at_s

    def _step(self, facts: Sequence[ChainFact]) -> Step:
        before, self._before = self._before, []
        self.said_at_s = self._clock.monotonic_s()
        return Step(facts=(*before, *facts))
