"""Writes of the services that are no rows of a batch: sets of rows changed by a condition."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, select, update

from reconciler.storage import rows, tables
from reconciler.storage.bulk import upsert
from reconciler.storage.reads import columns_of, fetch, one_of
from reconciler.storage.unit_of_work import Work


async def free_reservations(work: Work, family: str, address_key: str, *, until: datetime) -> None:
    """Give back the amounts of an address whose match span ended before coverage time."""
    table = tables.reservations
    await work.connection.execute(
        update(table)
        .where(
            table.c.family == family,
            table.c.address_key == address_key,
            table.c.live,
            table.c.match_end < until,
        )
        .values(live=False)
    )


async def extend_reservations(work: Work, order_ref: str, *, match_end: datetime) -> None:
    """Keep an order's amounts for a longer span."""
    table = tables.reservations
    await work.connection.execute(
        update(table)
        .where(table.c.order_ref == order_ref, table.c.live, table.c.match_end < match_end)
        .values(match_end=match_end)
    )


async def wake_waiting_orders(work: Work, *, column: str, value: str) -> None:
    """Make orders that wait for a hold due at the next watermark, by lane, chain, asset or route."""
    table = tables.orders
    await work.connection.execute(
        update(table).where(table.c[column] == value, table.c.waits).values(due_height=0)
    )


async def take_back_watermarks(work: Work, lane: str, *, above: int) -> None:
    """Mark a lane's watermarks above a height as no longer on the chain."""
    table = tables.lane_log
    await work.connection.execute(
        update(table)
        .where(table.c.lane == lane, table.c.height > above, table.c.live)
        .values(live=False)
    )


async def forget_shares(work: Work, transfers: list[str]) -> None:
    """Remove what was said of who owns these transfers; the new shares follow."""
    table = tables.shares
    await work.connection.execute(delete(table).where(one_of(work, table.c.transfer, transfers)))


async def take_parked(work: Work, references: list[str]) -> list[rows.ParkedRow]:
    """Read and remove what waits for these orders, in the order in which it came."""
    table = tables.parked
    found = await fetch(
        work,
        rows.ParkedRow,
        _parked_where(table.c.reference.in_(sorted(set(references)))),
    )
    if found:
        await work.connection.execute(delete(table).where(table.c.reference.in_(references)))
    return found


async def take_parked_before(work: Work, moment: datetime, *, limit: int) -> list[rows.ParkedRow]:
    """Read and remove what has waited since before a moment."""
    table = tables.parked
    found = await fetch(
        work, rows.ParkedRow, _parked_where(table.c.recorded_at < moment).limit(limit)
    )
    for row in found:
        await work.connection.execute(
            delete(table).where(table.c.lane == row.lane, table.c.offset == row.offset)
        )
    return found


async def put_hold(work: Work, row: rows.HoldRow) -> None:
    """Set a hold, or keep the one that is there."""
    await upsert(work.connection, tables.holds, [row], keys=("subject",), keep=True)


async def lift_hold(work: Work, subject: str) -> None:
    """End a hold."""
    table = tables.holds
    await work.connection.execute(delete(table).where(table.c.subject == subject))


async def mark_undone(work: Work, key: str, *, by: str) -> None:
    """Note that a decision was taken back."""
    table = tables.decisions
    await work.connection.execute(update(table).where(table.c.key == key).values(undone_by=by))


def _parked_where(condition: ColumnElement[bool]) -> Select[Any]:
    table = tables.parked
    return select(*columns_of(table, rows.ParkedRow)).where(condition).order_by(table.c.id)
