"""Positions of lanes, and the time up to which `orders` was applied.

A position moves by compare-and-swap in the transaction of its effects: whoever held an old one loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from reconciler.storage.tables import positions
from reconciler.storage.unit_of_work import Work


class PositionMovedError(Exception):
    """Somebody else applied this lane since we took it: seek to the stored position again."""


async def position(work: Work, lane: str) -> int | None:
    """Give the offset to read next, or None for a lane that was never applied."""
    found = await work.connection.execute(
        select(positions.c.next_offset).where(positions.c.lane == lane)
    )
    value = found.scalar_one_or_none()
    return None if value is None else int(value)


class LastApplied(Struct, frozen=True):
    """The record that was applied last: its offset, and what tells it from another one there."""

    offset: int
    digest: bytes


async def advance(
    work: Work,
    lane: str,
    *,
    held: int | None,
    next_offset: int,
    last: LastApplied | None = None,
) -> None:
    """Move a position from what we hold to what comes next. The first statement of a batch.

    `last` is the batch's last record; without one the one before stays. **Raises**: `PositionMovedError` when it is not where we left it.
    """
    values: dict[str, Any] = {"next_offset": next_offset}
    if last is not None:
        values |= {"last_offset": last.offset, "last_digest": last.digest}
    if held is None:
        if not await _begin(work, lane, values):
            message = f"lane {lane}: expected no position, found one"
            raise PositionMovedError(message)
        return
    moved = await work.connection.execute(
        update(positions)
        .where(positions.c.lane == lane, positions.c.next_offset == held)
        .values(values)
    )
    if moved.rowcount != 1:
        message = f"lane {lane}: expected position {held}, found another"
        raise PositionMovedError(message)


async def last_applied(work: Work, lane: str) -> LastApplied | None:
    """Give the record that was applied last, or None where none was."""
    found = await work.connection.execute(
        select(positions.c.last_offset, positions.c.last_digest).where(positions.c.lane == lane)
    )
    row = found.first()
    return None if row is None or row[0] is None else LastApplied(int(row[0]), bytes(row[1]))


async def _begin(work: Work, lane: str, values: Mapping[str, Any]) -> bool:
    """Write a lane's first position; of two that begin at once the constraint lets one through."""
    insert = postgresql.insert if work.is_postgresql else sqlite.insert
    statement = insert(positions).values({"lane": lane, **values})
    begun = await work.connection.execute(
        statement.on_conflict_do_nothing(index_elements=["lane"]).returning(positions.c.lane)
    )
    return begun.scalar_one_or_none() is not None


async def mark_inbox(work: Work, lane: str, *, until: datetime) -> None:
    """Note that everything of an `orders` lane up to this record time was applied.

    Never goes back: clocks of two machines differ, and what was applied stays so.
    """
    earlier = or_(positions.c.inbox_until.is_(None), positions.c.inbox_until < until)
    await work.connection.execute(
        update(positions).where(positions.c.lane == lane, earlier).values(inbox_until=until)
    )


async def inbox_until(work: Work, lanes: Sequence[str]) -> datetime | None:
    """Give the time up to which all `orders` lanes were applied; None if one never was."""
    found = await work.connection.execute(
        select(func.count(positions.c.inbox_until), func.min(positions.c.inbox_until)).where(
            positions.c.lane.in_(list(lanes))
        )
    )
    count, least = found.one()
    return least if count == len(lanes) else None
