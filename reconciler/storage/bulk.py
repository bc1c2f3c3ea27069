"""Bulk writes of the hot path: one statement a table and batch.

PostgreSQL gets arrays through `unnest`, straight to the driver (twice as fast as an executemany of
Core; one INSERT of many VALUES is five times slower; measured). SQLite gets an executemany.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import BigInteger, Boolean, Column, Integer, LargeBinary, Table, Text
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
    await upsert(connection, table, rows, keys=())


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
        columns = [_values(table.c[field], rows, field) for field in fields]
        await _execute(connection, statement, columns)
        return
    await connection.execute(
        _sqlite_statement(table, fields, keys, keep),
        [{field: getattr(row, field) for field in fields} for row in rows],
    )


async def _execute(connection: AsyncConnection, statement: str, columns: list[list[Any]]) -> None:
    """Speak to the driver itself. Its errors are told as SQLAlchemy tells them: the unit of work
    repeats a deadlock wherever it happens, and doors know one name for what a database raises.
    """
    import asyncpg

    raw = await connection.get_raw_connection()
    driver: Any = raw.driver_connection
    try:
        await driver.execute(statement, *columns)
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        lost = driver.is_closed()
        raise DBAPIError(statement, None, error, connection_invalidated=lost) from error


def _values(column: Column[Any], rows: Sequence[Struct], field: str) -> list[Any]:
    if isinstance(column.type, BaseUnitsType):
        return [None if (v := getattr(row, field)) is None else str(int(v)) for row in rows]
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
    names = ", ".join(f'"{field}"' for field in fields)
    arrays = ", ".join(
        f"${n}::{_array_type(table.c[field])}[]" for n, field in enumerate(fields, start=1)
    )
    picks = ", ".join(
        f'u."{field}"::numeric'
        if isinstance(table.c[field].type, BaseUnitsType)
        else f'u."{field}"'
        for field in fields
    )
    return (  # names come from our own tables, values are bound
        f"INSERT INTO {table.name} ({names}) SELECT {picks} "
        f"FROM unnest({arrays}) AS u({names}){_on_conflict(fields, keys, keep)}"
    )


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
