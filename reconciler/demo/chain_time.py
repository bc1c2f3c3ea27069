"""What time it is on the demo's chains: the machine's, held back while a customer is still to act.

An order ends by chain time, so on a slow machine a customer could be late who was meant to be in time.
A story holds the chains before the end of its order until its customer has acted. Blocks then bear
earlier times, as blocks of a slow chain do; nothing else is bent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from reconciler.kernel.clock import Clock

#: Left between a hold and the end that it protects: one second for each block that still pays.
MARGIN_S: Final = 4


class ChainTime:
    """Gives blocks their times. One for all chains of a demo."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holds: list[int] = []

    @contextmanager
    def held_before(self, end: datetime) -> Iterator[None]:
        """Keep blocks earlier than `end` while the block runs."""
        limit = int(end.timestamp()) - 1
        self._holds.append(limit)
        try:
            yield
        finally:
            self._holds.remove(limit)

    def next_block_s(self, parent_s: int, *, waiting: bool) -> int | None:
        """Give the next block's time, or None when there should be none now.

        Block times rise. Under a hold only blocks that something waits for are made, so that the
        seconds which are left serve payments; when none is left, blocks share the last one.
        **Units**: seconds since 1970.
        """
        now = int(self._clock.now().timestamp())
        limit = min(self._holds, default=None)
        if limit is None or now < limit - MARGIN_S:
            return now if now > parent_s else None
        if parent_s < limit - MARGIN_S:
            return limit - MARGIN_S
        return max(parent_s, min(parent_s + 1, limit)) if waiting else None
