"""Bulk writes of the hot path: one statement a table and batch.

PostgreSQL gets new rows by COPY, changed ones as arrays through `unnest`, both straight to the driver
(twice as fast as an executemany of Core; one INSERT of many VALUES is five times slower; measured).
SQLite gets an executemany.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import cache
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    Table,
    Text,
    bindparam,
)
from sqlalchemy import update as sqlalchemy_update
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from reconciler.storage.types import BaseUnitsType, InstantType

#: Rows of one statement; more are written in several.
ROWS_MAX: Final = 2_000


async def upsert(
    connection: AsyncConnection,
    table: Table,
    rows: Sequence[Struct],
    *,
    keys: Sequence[str],
    keep: bool = False,
) -> None:
    """Write rows, replacing those of equal keys, or keeping what is there when `keep`.

    The rows are of one struct type whose fields are columns of the table.
    """
    for start in range(0, len(rows), ROWS_MAX):
        await _write(connection, table, rows[start : start + ROWS_MAX], tuple(keys), keep=keep)


async def insert(connection: AsyncConnection, table: Table, rows: Sequence[Struct]) -> None:
    """Write new rows; a key that is there already is an error of the constraint."""
    if not rows or connection.dialect.name != "postgresql":
        await upsert(connection, table, rows, keys=())
        return
    fields = rows[0].__struct_fields__
    records = zip(*(_values(table.c[field], rows, field, Decimal) for field in fields), strict=True)
    async with _driver_of(connection, f"COPY {table.name}") as driver:
        await driver.copy_records_to_table(table.name, records=records, columns=fields)


async def update(
    connection: AsyncConnection,
    table: Table,
    rows: Sequence[Struct],
    *,
    key: str,
    columns: Sequence[str],
) -> None:
    """Change these columns of rows that are there; the rest of each row is left as it is."""
    fields = (key, *columns)
    for start in range(0, len(rows), ROWS_MAX):
        chunk = rows[start : start + ROWS_MAX]
        if connection.dialect.name == "postgresql":
            arrays = [_values(table.c[field], chunk, field, str) for field in fields]
            await _execute(connection, _postgresql_update(table, fields), arrays)
            continue
        await connection.execute(
            _sqlite_update(table, fields),
            [{f"_{field}": getattr(row, field) for field in fields} for row in chunk],
        )


async def _write(
    connection: AsyncConnection,
    table: Table,
    rows: Sequence[Struct],
    keys: tuple[str, ...],
    *,
    keep: bool,
) -> None:
    if not rows:
        return
    fields = rows[0].__struct_fields__
    if connection.dialect.name == "postgresql":
        statement = _postgresql_statement(table, fields, keys, keep)
        columns = [_values(table.c[field], rows, field, str) for field in fields]
        await _execute(connection, statement, columns)
        return
    await connection.execute(
        _sqlite_statement(table, fields, keys, keep),
        [{field: getattr(row, field) for field in fields} for row in rows],
    )


async def _execute(connection: AsyncConnection, statement: str, columns: list[list[Any]]) -> None:
    async with _driver_of(connection, statement) as driver:
        await driver.execute(statement, *columns)


@asynccontextmanager
async def _driver_of(connection: AsyncConnection, statement: str) -> AsyncIterator[Any]:
    """Speak to the driver itself. Its errors are told as SQLAlchemy tells them: the unit of work
    repeats a deadlock wherever it happens, and doors know one name for what a database raises.
    """
    import asyncpg

    raw = await connection.get_raw_connection()
    driver: Any = raw.driver_connection
    try:
        yield driver
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        lost = driver.is_closed()
        raise DBAPIError(statement, None, error, connection_invalidated=lost) from error


def _values(
    column: Column[Any], rows: Sequence[Struct], field: str, of_amount: Callable[[int], Any]
) -> list[Any]:
    """Give a column's values as the driver takes them: NUMERIC has no integers there."""
    if isinstance(column.type, BaseUnitsType):
        return [None if (v := getattr(row, field)) is None else of_amount(int(v)) for row in rows]
    return [getattr(row, field) for row in rows]


def _array_type(column: Column[Any]) -> str:
    kind = column.type
    if isinstance(kind, InstantType):
        return "timestamptz"
    if isinstance(kind, BigInteger):
        return "bigint"
    if isinstance(kind, Integer):
        return "integer"
    if isinstance(kind, Boolean):
        return "boolean"
    if isinstance(kind, LargeBinary):
        return "bytea"
    if isinstance(kind, BaseUnitsType | Text):
        return "text"
    message = f"no array type for column {column.name}: {kind!r}"
    raise TypeError(message)


@cache
def _postgresql_statement(
    table: Table, fields: tuple[str, ...], keys: tuple[str, ...], keep: bool
) -> str:
    picks = ", ".join(_pick(table, field) for field in fields)
    return (  # names come from our own tables, values are bound
        f"INSERT INTO {table.name} ({_names(fields)}) SELECT {picks} "
        f"FROM {_unnest(table, fields)}{_on_conflict(fields, keys, keep)}"
    )


@cache
def _postgresql_update(table: Table, fields: tuple[str, ...]) -> str:
    key, *columns = fields
    changes = ", ".join(f'"{column}" = {_pick(table, column)}' for column in columns)
    return (
        f"UPDATE {table.name} AS t SET {changes} "
        f'FROM {_unnest(table, fields)} WHERE t."{key}" = u."{key}"'
    )


def _names(fields: Sequence[str]) -> str:
    return ", ".join(f'"{field}"' for field in fields)


def _unnest(table: Table, fields: Sequence[str]) -> str:
    arrays = ", ".join(
        f"${n}::{_array_type(table.c[field])}[]" for n, field in enumerate(fields, start=1)
    )
    return f"unnest({arrays}) AS u({_names(fields)})"


def _pick(table: Table, field: str) -> str:
    is_amount = isinstance(table.c[field].type, BaseUnitsType)
    return f'u."{field}"::numeric' if is_amount else f'u."{field}"'


def _on_conflict(fields: tuple[str, ...], keys: tuple[str, ...], keep: bool) -> str:
    if not keys:
        return ""
    target = ", ".join(f'"{key}"' for key in keys)
    changes = ", ".join(f'"{f}" = EXCLUDED."{f}"' for f in fields if f not in keys)
    return f" ON CONFLICT ({target}) DO " + (
        "NOTHING" if keep or not changes else f"UPDATE SET {changes}"
    )


@cache
def _sqlite_statement(
    table: Table, fields: tuple[str, ...], keys: tuple[str, ...], keep: bool
) -> Any:
    statement = sqlite_insert(table)
    if not keys:
        return statement
    changes = {field: statement.excluded[field] for field in fields if field not in keys}
    if keep or not changes:
        return statement.on_conflict_do_nothing(index_elements=list(keys))
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changes)


@cache
def _sqlite_update(table: Table, fields: tuple[str, ...]) -> Any:
    key, *columns = fields
    return (
        sqlalchemy_update(table)
        .where(table.c[key] == bindparam(f"_{key}"))
        .values({column: bindparam(f"_{column}") for column in columns})
    )
