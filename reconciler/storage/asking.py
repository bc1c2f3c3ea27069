"""What processes ask the database before they start, and while they run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.kernel.refusals import Refusal
from reconciler.storage.engine import is_memory

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
def unreachable_in_words(engine: AsyncEngine) -> Iterator[None]:
    """Turn what drivers raise into `DatabaseUnreachable`: they do not agree on one class."""
    if engine.dialect.name == "sqlite" and not is_memory(engine.url):
        _refuse_unusable_file(Path(engine.url.database or ""))
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        message = f"{engine.dialect.name} gives no answer: {_words(error)}"
        raise DatabaseUnreachable(message) from error


def _refuse_unusable_file(path: Path) -> None:
    """Say in words what SQLite calls "unable to open database file" in every case."""
    if path.is_dir():
        raise DatabaseUnreachable(f"expected a file, found the folder {path}")
    if not path.parent.is_dir():
        raise DatabaseUnreachable(f"there is no folder {path.parent}: make it first")
    if not os.access(path if path.exists() else path.parent, os.R_OK | os.W_OK):
        raise DatabaseUnreachable(f"{path} may not be read and written by this user")


async def ask_database(engine: AsyncEngine) -> DatabaseSaid:
    """Ask the database for its time. **Raises**: `DatabaseUnreachable`."""
    with unreachable_in_words(engine):
        async with engine.connect() as connection:
            found = await connection.execute(text(_TIME_MS[engine.dialect.name]))
            time_ms = int(found.scalar_one())
    return DatabaseSaid(kind=engine.dialect.name, time=_EPOCH + timedelta(milliseconds=time_ms))


def _words(error: Exception) -> str:
    """Say an error on one line; the statement that failed helps nobody here."""
    words = str(getattr(error, "orig", None) or error)
    return " ".join(words.split()) or type(error).__name__
