"""What the second look reads: addresses, what stands in blocks, whose balance to ask for. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from sqlalchemy import ColumnElement, Table, and_, exists, func, or_, select, tuple_

from reconciler.storage import tables
from reconciler.storage.reads import by_keys, columns_of, fetch
from reconciler.storage.unit_of_work import Work
from schemas.amounts import BaseUnits

PAGE_ROWS: Final = 10_000


class KnownAddress(Struct, frozen=True):
    """An address of ours and since when transfers to it are ours to know."""

    key: str
    watched_since: datetime


class StandingTransfer(Struct, frozen=True):
    """A transfer as we have it."""

    transfer: str
    amount: BaseUnits
    state: str
    height: int | None
    block_hash: str | None


class Balance(Struct, frozen=True):
    """An address and asset whose balance is to be asked for."""

    display: str
    asset: str


class Unexplained(Struct, frozen=True):
    """A balance that transfers do not explain, and the blocks in which they would have to stand."""

    display: str
    asset: str
    height: int
    seen_height: int
    unexplained: BaseUnits


class OverOrder(Struct, frozen=True):
    """An open order that may be over: what is needed to ask for its balance."""

    reference: str
    due_time: datetime
    display: str
    asset: str
    state: bytes


def _is_at(addresses: Table, other: Table) -> ColumnElement[bool]:
    """Join what stands at an address with the address."""
    return and_(addresses.c.key == other.c.address_key, addresses.c.family == other.c.family)


async def covered_height(work: Work, chain: str, lanes: int) -> int:
    """Give the height up to which every lane of a chain was applied; 0 while one never was."""
    table = tables.lanes
    found = await work.connection.execute(
        select(func.count(), func.min(table.c.height)).where(
            table.c.chain == chain, table.c.height.is_not(None)
        )
    )
    count, height = found.one()
    return int(height) if count >= lanes else 0


async def all_addresses(work: Work, family: str) -> Sequence[KnownAddress]:
    """Give a family's addresses, read in pages in the order of their keys."""
    table = tables.addresses
    found: list[KnownAddress] = []
    after = ""
    while True:
        page = await fetch(
            work,
            KnownAddress,
            select(*columns_of(table, KnownAddress))
            .where(table.c.key > after, table.c.family == family)
            .order_by(table.c.key)
            .limit(PAGE_ROWS),
        )
        found += page
        if len(page) < PAGE_ROWS:
            return found
        after = page[-1].key


async def transfers_named(work: Work, names: Iterable[str]) -> dict[str, StandingTransfer]:
    """Read transfers by name."""
    table = tables.transfers
    found = await by_keys(work, StandingTransfer, table, table.c.transfer, names)
    return {row.transfer: row for row in found}


async def transfers_standing(
    work: Work, lanes: Sequence[str], first: int, last: int
) -> Sequence[StandingTransfer]:
    """Read what we believe to stand in a span of blocks."""
    table = tables.transfers
    return await fetch(
        work,
        StandingTransfer,
        select(*columns_of(table, StandingTransfer)).where(
            table.c.lane.in_(list(lanes)),
            table.c.height >= first,
            table.c.height <= last,
            table.c.state.in_(["included", "final"]),
        ),
    )


async def never_seen(work: Work, chain: str, *, limit: int) -> Sequence[Balance]:
    """Give own addresses of open orders whose balance was never seen, the newest first.

    One that no node can tell stays here while its order is open: it must not stand before fresh ones.
    """
    orders, addresses, balances = tables.orders, tables.addresses, tables.balances
    seen = exists().where(
        balances.c.address_key == orders.c.address_key,
        balances.c.family == orders.c.family,
        balances.c.asset == orders.c.asset,
    )
    statement = (
        select(addresses.c.display, orders.c.asset)
        .join(addresses, _is_at(addresses, orders))
        .where(
            orders.c.chain == chain,
            orders.c.is_open,
            addresses.c.owner == orders.c.reference,
            ~seen,
        )
        .order_by(orders.c.placed_at.desc())
        .limit(limit)
    )
    return await fetch(work, Balance, statement)


async def perhaps_over(
    work: Work,
    lanes: Sequence[str],
    *,
    before: datetime,
    limit: int,
    after: tuple[datetime, str] | None = None,
) -> Sequence[OverOrder]:
    """Give open orders with an own address whose next instant is near, the nearest first.

    `after` is the instant and reference of the last one of the page before.
    """
    orders, addresses = tables.orders, tables.addresses
    statement = (
        select(
            orders.c.reference,
            orders.c.due_time,
            addresses.c.display,
            orders.c.asset,
            orders.c.state,
        )
        .join(addresses, _is_at(addresses, orders))
        .where(
            orders.c.lane.in_(list(lanes)),
            orders.c.due_time < before,
            orders.c.is_open,
            addresses.c.owner == orders.c.reference,
        )
        .order_by(orders.c.due_time, orders.c.reference)
        .limit(limit)
    )
    if after is not None:
        statement = statement.where(
            orders.c.due_time >= after[0],
            or_(orders.c.due_time > after[0], orders.c.reference > after[1]),
        )
    return await fetch(work, OverOrder, statement)


async def unexplained(work: Work, chain: str, *, limit: int) -> Sequence[Unexplained]:
    """Give balances that transfers do not explain."""
    addresses, balances = tables.addresses, tables.balances
    statement = (
        select(
            addresses.c.display,
            balances.c.asset,
            balances.c.height,
            balances.c.seen_height,
            balances.c.unexplained,
        )
        .join(addresses, _is_at(addresses, balances))
        .where(balances.c.chain == chain, balances.c.unexplained.is_not(None))
        .order_by(balances.c.seen_height)
        .limit(limit)
    )
    return await fetch(work, Unexplained, statement)


async def moved(
    work: Work, chain: str, *, seen_before: datetime, limit: int, after: Balance | None = None
) -> Sequence[Balance]:
    """Give addresses to which money came since their balance was last seen, long ago or never.

    `after` is the last one of the page before. Walks all transfers: to be asked seldom.
    """
    addresses, balances, transfers = tables.addresses, tables.balances, tables.transfers
    same = (
        (balances.c.address_key == transfers.c.address_key)
        & (balances.c.family == transfers.c.family)
        & (balances.c.asset == transfers.c.asset)
    )
    statement = (
        select(addresses.c.display, transfers.c.asset)
        .join(addresses, _is_at(addresses, transfers))
        .outerjoin(balances, same)
        .where(
            transfers.c.chain == chain,
            transfers.c.height.is_not(None),
            transfers.c.heard_at < seen_before,
            or_(
                balances.c.asset.is_(None),
                (balances.c.seen_time < seen_before)
                & (transfers.c.height > balances.c.seen_height),
            ),
        )
        .distinct()
        .order_by(addresses.c.display, transfers.c.asset)
        .limit(limit)
    )
    if after is not None:
        place = tuple_(addresses.c.display, transfers.c.asset)
        statement = statement.where(place > tuple_(after.display, after.asset))
    return await fetch(work, Balance, statement)
