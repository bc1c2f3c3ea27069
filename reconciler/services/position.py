"""A lane's position moves with a batch, and remembers with which record it ended."""

from __future__ import annotations

from reconciler.storage import positions
from reconciler.storage.positions import LastApplied
from reconciler.storage.unit_of_work import Work
from reconciler.stream.promise import Batch


async def move_position(work: Work, batch: Batch, *, held: int | None) -> None:
    """Move the position behind a batch. **Raises**: `PositionMovedError`.

    A topic that was made again has another record where this one was the last.
    """
    record = batch.records[-1] if batch.records else None
    last = None if record is None else LastApplied(record.offset, record.digest)
    await positions.advance(
        work, batch.lane.name, held=held, next_offset=batch.next_offset, last=last
    )
