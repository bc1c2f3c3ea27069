"""One lane of a group's member: knows its position and whether it may read. Alike for both streams.

Reads through what it is given; writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from reconciler.kernel.checks import InvariantBroken
from reconciler.stream.promise import (
    Batch,
    Lane,
    LaneLost,
    PositionLost,
    StreamUnavailable,
)

#: Read a lane: (lane, from offset, most records, wait in seconds).
#: **Raises**: `PositionLost`, `StreamUnavailable`.
Fetch = Callable[[Lane, int, int, float], Awaitable[Batch]]
Bounds = Callable[[Lane], Awaitable[tuple[int, int]]]


class GroupReader:
    """Reads on from where it was armed, as long as its group holds the lane."""

    def __init__(
        self,
        lane: Lane,
        *,
        holds: Callable[[GroupReader], bool],
        bounds: Bounds,
        fetch: Fetch,
    ) -> None:
        self._lane = lane
        self._holds = holds
        self._bounds = bounds
        self._fetch = fetch
        self._position: int | None = None

    @property
    def lane(self) -> Lane:
        """Which lane."""
        return self._lane

    async def seek(self, offset: int | None) -> None:
        """Arm the reader."""
        self._position = None
        self._check_held()
        first, end = await self._bounds(self._lane)
        if offset is not None:
            check_kept(self._lane, offset, first)
            if offset > end:
                message = f"{self._lane.name}: offset {offset} is beyond the end, {end}"
                raise PositionLost(message)
        self._check_held()
        self._position = first if offset is None else offset

    async def read(self, *, records_max: int, wait_s: float) -> Batch:
        """Give what comes next. Cancelled or failed, it has not moved."""
        position = self._position
        if position is None:
            message = f"{self._lane.name}: read before seek"
            raise InvariantBroken(message)
        self._check_held()
        try:
            batch = await self._fetch(self._lane, position, records_max, wait_s)
        except StreamUnavailable:
            # A lane that was taken from us is closed under our hands.
            self._check_held()
            raise
        # The lane may have gone to somebody else while we waited.
        self._check_held()
        if self._position == position:
            self._position = batch.next_offset
        return batch

    def _check_held(self) -> None:
        if not self._holds(self):
            message = f"{self._lane.name} belongs to another member now"
            raise LaneLost(message)


def check_kept(lane: Lane, offset: int, first: int) -> None:
    """**Raises**: `PositionLost` when an offset is older than the first one kept."""
    if offset < first:
        message = f"{lane.name}: expected offset {offset}, the first one kept is {first}"
        raise PositionLost(message)
