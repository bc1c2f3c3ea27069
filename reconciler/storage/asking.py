"""What processes ask the database before they start, and while they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.kernel.refusals import Refusal

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MS: Final = {
    "postgresql": "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
    "sqlite": "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS integer)",
}


class DatabaseUnreachable(Refusal):
    """The database gave no answer; the text says why, without its address or password."""


class DatabaseSaid(Struct, frozen=True, kw_only=True):
    """What the database says of itself."""

    kind: str
    time: datetime


@contextmanager
def unreachable_in_words() -> Iterator[None]:
    """Turn what drivers raise into `DatabaseUnreachable`: they do not agree on one class."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise DatabaseUnreachable(_words(error)) from error


async def ask_database(engine: AsyncEngine) -> DatabaseSaid:
    """Ask the database for its time. **Raises**: `DatabaseUnreachable`."""
    with unreachable_in_words():
        async with engine.connect() as connection:
            found = await connection.execute(text(_TIME_MS[engine.dialect.name]))
            time_ms = int(found.scalar_one())
    return DatabaseSaid(kind=engine.dialect.name, time=_EPOCH + timedelta(milliseconds=time_ms))


def _words(error: Exception) -> str:
    """Say an error on one line; the statement that failed helps nobody here."""
    words = str(getattr(error, "orig", None) or error)
    return " ".join(words.split()) or type(error).__name__
