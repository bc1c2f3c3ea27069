"""How the loop paces itself: spans, sizes and the rest after a failure.

Pure. Read by every part of the loop; each number is a setting with this page's value as default.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import SystemRandom
from typing import Final

from msgspec import Struct

from chains.errors import ChainError, NodeBusy

#: Doubling stops being a number long before this.
_DOUBLINGS_MAX: Final = 16
_MINUTE_S: Final = 60.0
chance: Final[Callable[[], float]] = SystemRandom().random


class FollowSettings(Struct, frozen=True, kw_only=True):
    """**Units**: in the names; blocks where none is named."""

    empty_watermark_s: float = 1.0
    resend_s: float = 30.0
    identify_s: float = 60.0
    wait_s: float = 1.0
    back_scan_s_max: float = 86_400.0
    blocks_at_once: int = 8
    range_blocks: int = 64
    #: A range is worth its extra questions from this many final blocks on.
    range_blocks_min: int = 4
    recent_blocks_max: int = 1_024
    recent_recipients_max: int = 200_000
    look_ups_a_step: int = 20
    look_ups_a_minute: int = 60
    #: Rests before what was unknown or waiting is asked again; together longer than an order is open.
    look_up_again_s: tuple[float, ...] = (
        15.0,
        30.0,
        60.0,
        120.0,
        240.0,
        480.0,
        960.0,
        1_920.0,
        3_840.0,
    )
    covered_a_step: int = 1_000
    #: How often the mempool is looked at, on chains that have one.
    mempool_s: float = 2.0
    #: Mempool transfers are announced again so often. Source: DESIGN section 5.
    mempool_again_s: float = 600.0
    mempool_transfers_max: int = 100_000
    mempool_facts_a_step: int = 1_000
    requests_max: int = 10_000
    rest_first_s: float = 0.25
    rest_s_max: float = 30.0
    #: So many failures in a row show as blindness in the status.
    blind_after: int = 5


class Allowance:
    """So many in any minute. **Units**: seconds of a clock that never falls."""

    def __init__(self, a_minute: int) -> None:
        self._a_minute = a_minute
        self._taken_at_s: deque[float] = deque()

    def room(self, now_s: float) -> int:
        """Tell how many may be taken now."""
        while self._taken_at_s and now_s - self._taken_at_s[0] >= _MINUTE_S:
            self._taken_at_s.popleft()
        return self._a_minute - len(self._taken_at_s)

    def take(self, now_s: float) -> None:
        """Take one; whoever takes has asked for room."""
        self._taken_at_s.append(now_s)


def rest_s(
    failures: int, error: ChainError, settings: FollowSettings, lot: Callable[[], float]
) -> float:
    """Double the rest with every failure, with jitter; never shorter than the node asked for."""
    rest: float = settings.rest_first_s * 2 ** min(failures - 1, _DOUBLINGS_MAX)
    rest = min(settings.rest_s_max, rest) * (0.5 + lot() / 2)
    asked = error.retry_after_s if isinstance(error, NodeBusy) else None
    return max(rest, asked or 0.0)
