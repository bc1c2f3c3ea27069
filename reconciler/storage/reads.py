"""Reads of the services: by key, in bulk, as row structs. What is decided on is read after its lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Table,
    Text,
    and_,
    any_,
    bindparam,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from reconciler.storage import rows, tables
from reconciler.storage.unit_of_work import Work

R = TypeVar("R", bound=Struct)

#: Bound parameters of one statement: SQLite allows 32,766, PostgreSQL's wire 32,767.
_KEYS_MAX: Final = 5_000


def columns_of(table: Table, kind: type[Struct]) -> list[Any]:
    """Give the table's columns that a row struct has, in its order."""
    return [table.c[field] for field in kind.__struct_fields__]


async def fetch(work: Work, kind: type[R], statement: Select[Any]) -> list[R]:
    """Run a select whose columns are the struct's fields."""
    found = await work.connection.execute(statement)
    return [kind(*row) for row in found]


def one_of(work: Work, column: ColumnElement[Any], keys: Sequence[Any]) -> ColumnElement[bool]:
    """Compare a column with many keys: one array on PostgreSQL, so that the statement stays the same
    (and prepared) whatever their number; a list on SQLite, which has no arrays.
    """
    if work.is_postgresql and isinstance(column.type, Text | BigInteger):
        wanted = bindparam(None, list(keys), type_=ARRAY(column.type), unique=True)
        return column == any_(wanted)
    return column.in_(list(keys))


async def by_keys(
    work: Work, kind: type[R], table: Table, column: Any, keys: Iterable[Any]
) -> list[R]:
    """Read the rows in which a column has one of these keys."""
    wanted = sorted(set(keys))
    found: list[R] = []
    for start in range(0, len(wanted), _KEYS_MAX):
        statement = select(*columns_of(table, kind)).where(
            one_of(work, column, wanted[start : start + _KEYS_MAX])
        )
        found += await fetch(work, kind, statement)
    return found


async def lock_addresses(
    work: Work, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], rows.AddressRow]:
    """Lock address rows in (family, key) order in one statement, and read them."""
    asked = set(keys)
    wanted, waits = sorted(asked), True
    if work.is_postgresql:
        wanted, waits = await work.locks.before_addresses(asked)
    found: list[rows.AddressRow] = []
    table = tables.addresses
    with work.locks.taking_addresses(wanted, waits=waits):
        for start in range(0, len(wanted), _KEYS_MAX):
            chunk = wanted[start : start + _KEYS_MAX]
            statement = (
                select(*columns_of(table, rows.AddressRow))
                .where(_address_in(work, table, chunk))
                .order_by(table.c.family, table.c.key)
                .with_for_update(key_share=True, nowait=not waits)
            )
            found += await fetch(work, rows.AddressRow, statement)
    return {(row.family, row.key): row for row in found if (row.family, row.key) in asked}


def _address_in(work: Work, table: Table, keys: Sequence[tuple[str, str]]) -> ColumnElement[bool]:
    families = {family for family, _ in keys}
    if len(families) == 1:
        return and_(
            table.c.family == next(iter(families)),
            one_of(work, table.c.key, [key for _, key in keys]),
        )
    return tuple_(table.c.family, table.c.key).in_(list(keys))


async def lanes(work: Work, names: Iterable[str]) -> dict[str, rows.LaneRow]:
    """Read lanes by name."""
    table = tables.lanes
    found = await by_keys(work, rows.LaneRow, table, table.c.lane, names)
    return {row.lane: row for row in found}


async def orders(work: Work, references: Iterable[str]) -> dict[str, rows.OrderRow]:
    """Read orders by reference."""
    table = tables.orders
    found = await by_keys(work, rows.OrderRow, table, table.c.reference, references)
    return {row.reference: row for row in found}


async def orders_of_purchases(work: Work, purchases: Iterable[str]) -> list[rows.OrderRow]:
    """Read every order of these purchases."""
    table = tables.orders
    return await by_keys(work, rows.OrderRow, table, table.c.purchase, purchases)


async def transfers(work: Work, ids: Iterable[str]) -> dict[str, rows.TransferRow]:
    """Read transfers by id."""
    table = tables.transfers
    found = await by_keys(work, rows.TransferRow, table, table.c.transfer, ids)
    return {row.transfer: row for row in found}


async def transfers_of_txs(
    work: Work, chains: Sequence[str], txs: Iterable[str]
) -> list[rows.TransferRow]:
    """Read every transfer of these transactions on any of these chains."""
    wanted = sorted(set(txs))
    table = tables.transfers
    found: list[rows.TransferRow] = []
    for start in range(0, len(wanted), _KEYS_MAX):
        found += await fetch(
            work,
            rows.TransferRow,
            select(*columns_of(table, rows.TransferRow)).where(
                one_of(work, table.c.chain, chains),
                one_of(work, table.c.tx, wanted[start : start + _KEYS_MAX]),
            ),
        )
    return found


async def shares_of_orders(work: Work, references: Iterable[str]) -> list[rows.ShareRow]:
    """Read what was given to these orders."""
    table = tables.shares
    return await by_keys(work, rows.ShareRow, table, table.c.order_ref, references)


async def shares_of_transfers(work: Work, ids: Iterable[str]) -> list[rows.ShareRow]:
    """Read to whom these transfers were given."""
    table = tables.shares
    return await by_keys(work, rows.ShareRow, table, table.c.transfer, ids)


async def transfers_above(work: Work, lane: str, height: int) -> list[rows.TransferRow]:
    """Read a lane's transfers that stand in blocks above a height."""
    table = tables.transfers
    return await fetch(
        work,
        rows.TransferRow,
        select(*columns_of(table, rows.TransferRow)).where(
            table.c.lane == lane,
            table.c.height > height,
            table.c.state.in_(["included", "final"]),
        ),
    )


async def line_hashes(work: Work, lane: str, heights: Iterable[int]) -> dict[int, str]:
    """Read the live watermarks' hashes at these heights of a lane."""
    wanted = sorted(set(heights))
    table = tables.lane_log
    found: dict[int, str] = {}
    for start in range(0, len(wanted), _KEYS_MAX):
        statement = select(table.c.height, table.c.hash).where(
            table.c.lane == lane,
            one_of(work, table.c.height, wanted[start : start + _KEYS_MAX]),
            table.c.live,
            table.c.kind == "watermark",
        )
        for height, block_hash in await work.connection.execute(statement):
            found[int(height)] = str(block_hash)
    return found


async def live_watermark_at_or_below(work: Work, lane: str, height: int) -> rows.LaneLogRow | None:
    """Read the highest live watermark that is not above a height."""
    table = tables.lane_log
    found = await fetch(
        work,
        rows.LaneLogRow,
        select(*columns_of(table, rows.LaneLogRow))
        .where(
            table.c.lane == lane,
            table.c.height <= height,
            table.c.live,
            table.c.kind == "watermark",
        )
        .order_by(table.c.height.desc(), table.c.seq.desc())
        .limit(1),
    )
    return found[0] if found else None


async def first_watermark(
    work: Work,
    lane: str,
    *,
    after_seq: int,
    height: int | None,
    finalized_height: int | None,
    time: datetime | None,
) -> rows.LaneLogRow | None:
    """Read the first watermark applied after a point that passes any of the given limits."""
    table = tables.lane_log
    passed: list[ColumnElement[bool]] = []
    if height is not None:
        passed.append(table.c.height >= height)
    if finalized_height is not None:
        passed.append(table.c.finalized_height >= finalized_height)
    if time is not None:
        passed.append(table.c.decided_until > time)
    if not passed:
        return None
    found = await fetch(
        work,
        rows.LaneLogRow,
        select(*columns_of(table, rows.LaneLogRow))
        .where(
            table.c.lane == lane,
            table.c.seq > after_seq,
            table.c.kind == "watermark",
            or_(*passed),
        )
        .order_by(table.c.seq)
        .limit(1),
    )
    return found[0] if found else None


async def last_coverage(work: Work, lane: str, *, upto_seq: int) -> rows.LaneLogRow | None:
    """Read the last watermark or retraction of a lane that was applied at or before a point."""
    table = tables.lane_log
    found = await fetch(
        work,
        rows.LaneLogRow,
        select(*columns_of(table, rows.LaneLogRow))
        .where(table.c.lane == lane, table.c.seq <= upto_seq, table.c.kind != "gap")
        .order_by(table.c.seq.desc())
        .limit(1),
    )
    return found[0] if found else None


async def watermarks_after(
    work: Work, lane: str, after_seq: int, *, limit: int
) -> list[rows.LaneLogRow]:
    """Read a lane's watermarks applied after a point, oldest first."""
    table = tables.lane_log
    return await fetch(
        work,
        rows.LaneLogRow,
        select(*columns_of(table, rows.LaneLogRow))
        .where(table.c.lane == lane, table.c.seq > after_seq, table.c.kind == "watermark")
        .order_by(table.c.seq)
        .limit(limit),
    )


async def parked_references(work: Work, references: Iterable[str]) -> set[str]:
    """Tell for which of these orders a command waits."""
    wanted = sorted(set(references))
    if not wanted:
        return set()
    table = tables.parked
    found = await work.connection.execute(
        select(table.c.reference).where(one_of(work, table.c.reference, wanted)).distinct()
    )
    return {row[0] for row in found}


async def live_reservations(
    work: Work, addresses: Iterable[tuple[str, str]]
) -> list[rows.ReservationRow]:
    """Read the live reservations of shared addresses."""
    wanted = sorted(set(addresses))
    if not wanted:
        return []
    table = tables.reservations
    return await fetch(
        work,
        rows.ReservationRow,
        select(*columns_of(table, rows.ReservationRow)).where(
            tuple_(table.c.family, table.c.address_key).in_(wanted), table.c.live
        ),
    )


async def next_index(work: Work, key: str) -> int:
    """Give the least index above all that were given out of an extended public key."""
    table = tables.derivations
    found = await work.connection.execute(
        select(table.c.index).where(table.c.key == key).order_by(table.c.index.desc()).limit(1)
    )
    last = found.scalar_one_or_none()
    return 0 if last is None else int(last) + 1


async def derivations_of_orders(work: Work, references: Iterable[str]) -> list[rows.DerivationRow]:
    """Read which indexes these orders were given, of any key; rising."""
    table = tables.derivations
    found = await by_keys(work, rows.DerivationRow, table, table.c.order_ref, references)
    return sorted(found, key=lambda row: row.index)


async def known_indexes(work: Work, key: str, indexes: Iterable[int]) -> set[int]:
    """Tell which of these indexes of an extended public key are known to be given out."""
    wanted = sorted(set(indexes))
    table = tables.derivations
    found: set[int] = set()
    for start in range(0, len(wanted), _KEYS_MAX):
        statement = select(table.c.index).where(
            table.c.key == key, one_of(work, table.c.index, wanted[start : start + _KEYS_MAX])
        )
        found |= {int(row[0]) for row in await work.connection.execute(statement)}
    return found


async def highest_paid_index(work: Work, key: str) -> int | None:
    """Give the highest index of an extended public key whose order's address money came to."""
    table, orders, transfers = tables.derivations, tables.orders, tables.transfers
    found = await work.connection.execute(
        select(func.max(table.c.index))
        .join(orders, orders.c.reference == table.c.order_ref)
        .join(
            transfers,
            and_(
                transfers.c.address_key == orders.c.address_key,
                transfers.c.family == orders.c.family,
            ),
        )
        .where(table.c.key == key)
    )
    last = found.scalar_one_or_none()
    return None if last is None else int(last)


async def reservations_of_amounts(
    work: Work, wanted: Iterable[tuple[str, str, str, Any]]
) -> list[rows.ReservationRow]:
    """Read the live reservations of exactly these (family, address, asset, amount)."""
    table = tables.reservations
    found: list[rows.ReservationRow] = []
    by_address: dict[tuple[str, str, str], list[Any]] = {}
    for family, key, asset, amount in wanted:
        by_address.setdefault((family, key, asset), []).append(amount)
    for (family, key, asset), amounts in sorted(by_address.items()):
        found += await fetch(
            work,
            rows.ReservationRow,
            select(*columns_of(table, rows.ReservationRow)).where(
                table.c.family == family,
                table.c.address_key == key,
                table.c.asset == asset,
                table.c.amount.in_(sorted(set(amounts))),
                table.c.live,
            ),
        )
    return found


async def claims_naming(
    work: Work, family: str, *, txs: Iterable[str], senders: Iterable[str]
) -> list[rows.ClaimRow]:
    """Read the claims that name any of these transactions or senders."""
    table = tables.claims
    by_tx, by_sender = sorted(set(txs)), sorted(set(senders))
    if not by_tx and not by_sender:
        return []
    return await fetch(
        work,
        rows.ClaimRow,
        select(*columns_of(table, rows.ClaimRow)).where(
            table.c.family == family,
            or_(one_of(work, table.c.tx, by_tx), one_of(work, table.c.sender, by_sender)),
        ),
    )


async def commands(work: Work, keys: Iterable[str]) -> dict[str, rows.CommandRow]:
    """Read idempotency keys that were used."""
    table = tables.commands
    found = await by_keys(work, rows.CommandRow, table, table.c.key, keys)
    return {row.key: row for row in found}


async def decisions(work: Work, keys: Iterable[str]) -> dict[str, rows.DecisionRow]:
    """Read decisions by key."""
    table = tables.decisions
    found = await by_keys(work, rows.DecisionRow, table, table.c.key, keys)
    return {row.key: row for row in found}


async def holds(work: Work) -> dict[str, rows.HoldRow]:
    """Read all holds; there are few."""
    found = await fetch(work, rows.HoldRow, select(*columns_of(tables.holds, rows.HoldRow)))
    return {row.subject: row for row in found}


async def exceptions(work: Work, ids: Iterable[str]) -> dict[str, rows.ExceptionRow]:
    """Read exceptions by id."""
    table = tables.exceptions
    found = await by_keys(work, rows.ExceptionRow, table, table.c.exception, ids)
    return {row.exception: row for row in found}


class DueOrder(Struct, frozen=True):
    """What must be locked before a due order is read."""

    reference: str
    family: str
    address_key: str
    purchase: str | None


async def due_orders(work: Work, lane: rows.LaneRow, *, limit: int) -> list[DueOrder]:
    """Find orders of a lane that its latest watermark made due.

    Three index scans, one a kind of limit, oldest first; not locked.
    """
    table = tables.orders
    limits: list[ColumnElement[bool]] = []
    if lane.height is not None:
        limits.append(table.c.due_height <= lane.height)
    limits.append(table.c.due_finalized <= lane.finalized_height)
    if lane.decided_until is not None:
        limits.append(table.c.due_time < lane.decided_until)
    found: dict[str, DueOrder] = {}
    for passed in limits:
        statement = (
            select(table.c.reference, table.c.family, table.c.address_key, table.c.purchase)
            .where(table.c.lane == lane.lane, table.c.assessed_seq < lane.seq, passed)
            .order_by(table.c.placed_at, table.c.reference)
            .limit(limit - len(found))
        )
        for row in await work.connection.execute(statement):
            found[row[0]] = DueOrder(*row)
        if len(found) >= limit:
            break
    return list(found.values())


async def overdue_orders(
    work: Work, subject: str, *, before: datetime, limit: int, untold: bool = False
) -> list[str]:
    """Find open orders on a chain, asset or route whose next instant has passed, oldest first.

    `untold`: only those whose shop was not told yet that they wait.
    """
    table = tables.orders
    statement = (
        select(table.c.reference)
        .where(
            or_(table.c.chain == subject, table.c.asset == subject, table.c.route == subject),
            table.c.is_open,
            table.c.due_time < before,
            *([~table.c.waits] if untold else []),
        )
        .order_by(table.c.due_time, table.c.reference)
        .limit(limit)
    )
    return [row[0] for row in await work.connection.execute(statement)]


async def open_routes(work: Work) -> list[tuple[str, str, int]]:
    """Count open orders by (route, chain)."""
    table = tables.orders
    statement = (
        select(table.c.route, table.c.chain, func.count())
        .where(table.c.is_open)
        .group_by(table.c.route, table.c.chain)
        .order_by(table.c.route, table.c.chain)
    )
    return [(row[0], row[1], int(row[2])) for row in await work.connection.execute(statement)]


async def count_at_most(work: Work, rows_found: Select[Any], most: int) -> int:
    """Count what a select finds, reading no more of it than asked."""
    counted = select(func.count()).select_from(rows_found.limit(most).subquery())
    return int((await work.connection.execute(counted)).scalar_one())


async def count_open_orders(work: Work, phase: str, *, most: int) -> int:
    """Count the open orders of a phase, up to a most."""
    table = tables.orders
    found = select(table.c.phase).where(table.c.is_open, table.c.phase == phase)
    return await count_at_most(work, found, most)


async def count_open_exceptions(work: Work, *, most: int) -> dict[str, int]:
    """Count the open exceptions by kind; of more than the most, the oldest."""
    table = tables.exceptions
    opened = select(table.c.kind).where(table.c.open).order_by(table.c.opened_at).limit(most)
    kinds = opened.subquery()
    statement = select(kinds.c.kind, func.count()).group_by(kinds.c.kind)
    return {row[0]: int(row[1]) for row in await work.connection.execute(statement)}


async def silent_lanes(work: Work, *, before: datetime) -> list[rows.LaneRow]:
    """Find lanes from which no watermark was heard since a moment."""
    table = tables.lanes
    return await fetch(
        work,
        rows.LaneRow,
        select(*columns_of(table, rows.LaneRow))
        .where(table.c.heard_at < before)
        .order_by(table.c.lane),
    )


async def unreadable_facts(work: Work, key: bytes) -> list[rows.UnreadableRow]:
    """Read the facts of one record key that could not be applied."""
    table = tables.unreadable
    return await fetch(
        work,
        rows.UnreadableRow,
        select(*columns_of(table, rows.UnreadableRow))
        .where(table.c.key == key)
        .order_by(table.c.lane, table.c.offset),
    )


async def unreadable_fact(work: Work, lane: str, offset: int) -> rows.UnreadableRow | None:
    """Read one fact that could not be applied."""
    table = tables.unreadable
    found = await fetch(
        work,
        rows.UnreadableRow,
        select(*columns_of(table, rows.UnreadableRow)).where(
            table.c.lane == lane, table.c.offset == offset
        ),
    )
    return found[0] if found else None


async def lane_names(work: Work) -> list[str]:
    """List every lane that was ever applied."""
    found = await work.connection.execute(select(tables.lanes.c.lane).order_by(tables.lanes.c.lane))
    return [row[0] for row in found]


async def balance(work: Work, family: str, address_key: str, asset: str) -> rows.BalanceRow | None:
    """Read what is known of an address's balance of an asset."""
    table = tables.balances
    found = await fetch(
        work,
        rows.BalanceRow,
        select(*columns_of(table, rows.BalanceRow)).where(
            table.c.address_key == address_key, table.c.family == family, table.c.asset == asset
        ),
    )
    return found[0] if found else None


async def is_unexplained(work: Work, family: str, address_key: str) -> bool:
    """Tell whether an address holds more of any asset than transfers explain."""
    table = tables.balances
    found = await work.connection.execute(
        select(table.c.asset)
        .where(
            table.c.address_key == address_key,
            table.c.family == family,
            table.c.unexplained.is_not(None),
        )
        .limit(1)
    )
    return found.first() is not None


async def received_between(work: Work, row: rows.BalanceRow, *, upto: int) -> int:
    """Add up what stands in blocks above a balance's height, up to another. Summed here: exact."""
    table = tables.transfers
    found = await work.connection.execute(
        select(table.c.amount).where(
            table.c.address_key == row.address_key,
            table.c.family == row.family,
            table.c.chain == row.chain,
            table.c.asset == row.asset,
            table.c.height > row.height,
            table.c.height <= upto,
            table.c.state.in_(["included", "final"]),
        )
    )
    return sum(int(amount) for (amount,) in found)
