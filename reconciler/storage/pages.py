"""A whole table, page by page, as it stood at one moment: for exports and for the audit.

Reads only. The view does not change while it is read, so that what it adds up to is one truth.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import Struct
from sqlalchemy import ColumnElement, Table, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.storage import tables
from reconciler.storage.reads import columns_of, fetch
from reconciler.storage.unit_of_work import Work

R = TypeVar("R", bound=Struct)

PAGE_ROWS: Final = 1_000


@asynccontextmanager
async def snapshot(engine: AsyncEngine) -> AsyncIterator[Work]:
    """Open a view of the database that stays as it is until it is closed."""
    options: dict[str, Any] = (
        {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        if engine.dialect.name == "postgresql"
        else {"begin_mode": "DEFERRED"}
    )
    async with engine.connect() as connection:
        quiet = await connection.execution_options(**options)
        async with quiet.begin():
            yield Work(quiet)


class Narrowed(Struct, frozen=True, kw_only=True):
    """Which rows are wanted: of a chain, since an instant, before another. `time` names the column."""

    time: str
    chain: str | None = None
    since: datetime | None = None
    before: datetime | None = None

    def conditions(self, table: Table) -> Sequence[ColumnElement[bool]]:
        """Say it to the database."""
        found: list[ColumnElement[bool]] = []
        if self.chain is not None:
            found.append(table.c.chain == self.chain)
        if self.since is not None:
            found.append(table.c[self.time] >= self.since)
        if self.before is not None:
            found.append(table.c[self.time] < self.before)
        return found


async def pages(
    work: Work, kind: type[R], name: str, *keys: str, narrowed: Narrowed | None = None
) -> AsyncIterator[list[R]]:
    """Give the rows of the table of a name, in the order of columns that are unique together."""
    table = tables.metadata.tables[name]
    columns = [table.c[key] for key in keys]
    conditions = () if narrowed is None else narrowed.conditions(table)
    last: Any = None
    while True:
        statement = select(*columns_of(table, kind)).where(*conditions)
        statement = statement.order_by(*columns).limit(PAGE_ROWS)
        if last is not None:
            statement = statement.where(tuple_(*columns) > last)
        page = await fetch(work, kind, statement)
        if not page:
            return
        yield page
        last = tuple(getattr(page[-1], key) for key in keys)


async def count_rows(work: Work, name: str, narrowed: Narrowed | None = None) -> int:
    """Count a table's rows, for a progress bar."""
    table = tables.metadata.tables[name]
    conditions = () if narrowed is None else narrowed.conditions(table)
    found = await work.connection.execute(
        select(func.count()).select_from(table).where(*conditions)
    )
    return int(found.scalar_one())


async def outbox_by_event(
    work: Work, kind: type[R], topic: str, event_ids: Sequence[str]
) -> Sequence[R]:
    """Read the messages of the outbox with these event ids."""
    table = tables.outbox
    found: list[R] = []
    for start in range(0, len(event_ids), PAGE_ROWS):
        wanted = event_ids[start : start + PAGE_ROWS]
        found += await fetch(
            work,
            kind,
            select(*columns_of(table, kind)).where(
                table.c.topic == topic, table.c.event_id.in_(wanted)
            ),
        )
    return found
