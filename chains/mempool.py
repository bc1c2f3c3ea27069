"""The loop's look into the mempool, between two blocks.

Asks a `ChainSource` what waits to be mined, as often as the settings say, and gives steps that move
no line. A look that fails is put off and loses nothing; a chain without a mempool is asked once.
"""

from __future__ import annotations

from collections.abc import Callable

from chains.clock import Clock
from chains.errors import ChainError, Retryable, Unsupported
from chains.line import Taken
from chains.marks import Marks
from chains.pace import FollowSettings
from chains.port import ChainSource, LogMemory, Step, WatchedAddresses
from chains.unmined import MISSES_MAX, UnminedTransfers
from schemas.facts import TransferDropped


class MempoolWatch:
    """What waits to be mined on one chain."""

    def __init__(
        self,
        source: ChainSource,
        marks: Marks,
        *,
        log: LogMemory,
        watched: WatchedAddresses,
        clock: Clock,
        settings: FollowSettings,
        failed: Callable[[ChainError, int], float],
    ) -> None:
        self._source = source
        self._marks = marks
        self._log = log
        self._remembers = False
        self._watched = watched
        self._clock = clock
        self._settings = settings
        self._failed = failed
        self._unmined = UnminedTransfers(
            again_s=settings.mempool_again_s, transfers_max=settings.mempool_transfers_max
        )
        self._next_at_s: float | None = 0.0
        self._failures = 0

    def due_in_s(self) -> float | None:
        """Tell when the next look is due; None where there is no mempool."""
        if self._next_at_s is None:
            return None
        return max(0.0, self._next_at_s - self._clock.monotonic_s())

    async def next_step(self) -> Step | None:
        """Look, if it is time to; give what is new."""
        if self.due_in_s() != 0.0 or self._marks.line.said is None:
            return None
        if not self._source.shows_mempool:
            self._next_at_s = None
            return None
        await self._remember()
        try:
            found = await self._source.pending(self._watched, self._unmined.outpoints)
        except (Retryable, Unsupported) as error:
            self._failures += 1
            rest_s = self._failed(error, self._failures)
            self._next_at_s = self._clock.monotonic_s() + max(rest_s, self._settings.mempool_s)
            return None
        self._failures = 0
        if found is None:
            return None
        most, now_s = self._settings.mempool_facts_a_step, self._clock.monotonic_s()
        facts = self._unmined.compare(found, now_s, facts_max=most)
        self._next_at_s = now_s + (0.0 if len(facts) >= most else self._settings.mempool_s)
        return self._marks.again(facts) if facts else None

    async def _remember(self) -> None:
        """Take over what the last run announced: whoever spent the same since replaces it."""
        if not self._remembers:
            back_s = (MISSES_MAX + 1) * self._settings.mempool_again_s
            self._unmined.take_over(await self._log.announced(back_s), self._clock.monotonic_s())
            self._remembers = True

    def loses_to(self, taken: Taken) -> bool:
        """Tell whether a block spends what a waiting transfer would."""
        return bool(self._unmined.contested_by(taken))

    def mined(self, taken: Taken) -> tuple[Taken, list[TransferDropped]]:
        """Take a block's transfers off what waits; give it with their first sight, and what is gone."""
        known = self._unmined.inherited(taken)
        return known, self._unmined.settle(known)
