"""Remember with which record a lane's batch ended: a topic that was made again has another one there."""

from __future__ import annotations

from reconciler.storage import positions
from reconciler.storage.positions import LastApplied
from reconciler.storage.unit_of_work import Work
from reconciler.stream.promise import Batch


async def note_last(work: Work, batch: Batch) -> None:
    """Note the batch's last record beside its position."""
    if batch.records:
        last = batch.records[-1]
        await positions.note_last(work, batch.lane.name, LastApplied(last.offset, last.digest))
