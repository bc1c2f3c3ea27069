"""Writes of the services that are no rows of a batch: sets of rows changed by a condition."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, delete, select, update

from reconciler.storage import rows, tables
from reconciler.storage.bulk import upsert
from reconciler.storage.reads import columns_of, one_of
from reconciler.storage.unit_of_work import Work


async def free_reservations(
    work: Work, family: str, address_key: str, *, chain: str, until: datetime
) -> None:
    """Give back the amounts of an address whose match span ended before its chain's coverage time."""
    table = tables.reservations
    await work.connection.execute(
        update(table)
        .where(
            table.c.family == family,
            table.c.address_key == address_key,
            table.c.chain == chain,
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


async def wake_waiting_orders(work: Work, *, column: str, value: str, after_seq: int) -> None:
    """Make orders that wait for a hold due at the first watermark after a point.

    `column` is lane, chain, asset or route. Up to the point everything was judged.
    """
    table = tables.orders
    await work.connection.execute(
        update(table)
        .where(table.c[column] == value, table.c.waits)
        .values(due_height=0, assessed_seq=after_seq)
    )


async def wake_orders_of_address(
    work: Work, lane: str, family: str, address_key: str, *, after_seq: int
) -> None:
    """Make orders of an address that wait due at their lane's first watermark after a point."""
    table = tables.orders
    await work.connection.execute(
        update(table)
        .where(
            table.c.lane == lane,
            table.c.family == family,
            table.c.address_key == address_key,
            table.c.waits,
        )
        .values(due_height=0, assessed_seq=after_seq)
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
    if not transfers:
        return
    table = tables.shares
    await work.connection.execute(delete(table).where(one_of(work, table.c.transfer, transfers)))


async def take_parked(work: Work, references: list[str]) -> list[rows.ParkedRow]:
    """Read and remove what waits for these orders, in the order in which it came."""
    return await _take(work, one_of(work, tables.parked.c.reference, sorted(set(references))))


async def take_parked_before(work: Work, moment: datetime, *, limit: int) -> list[rows.ParkedRow]:
    """Read and remove what has waited since before a moment."""
    table = tables.parked
    oldest = select(table.c.id).where(table.c.recorded_at < moment).order_by(table.c.id)
    return await _take(work, table.c.id.in_(oldest.limit(limit)))


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


async def _take(work: Work, condition: ColumnElement[bool]) -> list[rows.ParkedRow]:
    """Remove and give in one statement: of two that ask at once, one gets a command."""
    table = tables.parked
    taken = await work.connection.execute(
        delete(table).where(condition).returning(table.c.id, *columns_of(table, rows.ParkedRow))
    )
    in_order = sorted(taken, key=lambda row: int(row[0]))
    return [rows.ParkedRow(*row[1:]) for row in in_order]
