"""A whole table, page by page, as it stood at one moment: for exports and for the audit.

Reads only. The view does not change while it is read, so that what it adds up to is one truth.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from msgspec import Struct
from sqlalchemy import func, select, tuple_
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


async def pages(work: Work, kind: type[R], name: str, *keys: str) -> AsyncIterator[list[R]]:
    """Give all rows of the table of a name, in the order of columns that are unique together."""
    table = tables.metadata.tables[name]
    columns = [table.c[key] for key in keys]
    last: Any = None
    while True:
        statement = select(*columns_of(table, kind)).order_by(*columns).limit(PAGE_ROWS)
        if last is not None:
            statement = statement.where(tuple_(*columns) > last)
        page = await fetch(work, kind, statement)
        if not page:
            return
        yield page
        last = tuple(getattr(page[-1], key) for key in keys)


async def count_rows(work: Work, name: str) -> int:
    """Count a table's rows, for a progress bar."""
    table = tables.metadata.tables[name]
    found = await work.connection.execute(select(func.count()).select_from(table))
    return int(found.scalar_one())
