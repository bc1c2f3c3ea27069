"""Engines: how connections of both databases are opened, and which errors mean "again"."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

_BUSY_TIMEOUT_MS: Final = 5_000
_POOL_SIZE: Final = 10
_STATEMENT_TIMEOUT_S: Final = 60
#: A server that accepts and says nothing: the driver's own patience is a minute.
_CONNECT_TIMEOUT_S: Final = 15

#: PostgreSQL: serialization_failure, deadlock_detected, lock_not_available, a transaction that was
#: idle for too long, and the server going away or coming up. Source: PostgreSQL 15 manual, appendix A.
_REPEATABLE_STATES: Final = frozenset(
    {
        "40001",
        "40P01",
        "55P03",
        "25P03",
        "57P01",
        "57P02",
        "57P03",
        "08000",
        "08003",
        "08006",
        "08001",
    }
)


#: What a database raises; doors catch it by this name and know no SQLAlchemy.
DatabaseError = DBAPIError


def make_engine(
    url: str, *, connections: int = _POOL_SIZE, busy_timeout_ms: int = _BUSY_TIMEOUT_MS
) -> AsyncEngine:
    """Open an engine for `sqlite+aiosqlite://…` or `postgresql+asyncpg://…`.

    SQLite: WAL, full synchronous writes, BEGIN IMMEDIATE for every transaction, because it has no row
    locks and a transaction that reads first and writes later would lose updates (shown).
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, busy_timeout_ms)
    return create_async_engine(
        parsed,
        pool_size=connections,
        max_overflow=connections,
        pool_pre_ping=True,
        connect_args={
            "command_timeout": _STATEMENT_TIMEOUT_S,
            "timeout": _CONNECT_TIMEOUT_S,
            "server_settings": {"plan_cache_mode": "force_custom_plan"},
        },
    )


def is_memory(url: URL) -> bool:
    """Tell whether a SQLite database lives in memory only."""
    return url.database in {None, "", ":memory:"}


def is_repeatable(error: BaseException) -> bool:
    """Tell whether the whole unit of work may simply be done again."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, ConnectionError)
    if error.connection_invalidated:
        return True
    origin: Any = error.orig
    state = getattr(origin, "sqlstate", None) or getattr(origin, "pgcode", None)
    if state in _REPEATABLE_STATES:
        return True
    words = str(origin)
    return "database is locked" in words or "database table is locked" in words


def _sqlite(url: URL, busy_timeout_ms: int) -> AsyncEngine:
    memory = is_memory(url)
    options: dict[str, Any] = {"poolclass": StaticPool} if memory else {"pool_size": _POOL_SIZE}
    engine = create_async_engine(url, **options)

    @event.listens_for(engine.sync_engine, "connect")
    def _open(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            f"busy_timeout = {busy_timeout_ms}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Any) -> None:
        mode = connection.get_execution_options().get("begin_mode", "IMMEDIATE")
        connection.exec_driver_sql(f"BEGIN {mode}")

    @event.listens_for(engine.sync_engine, "invalidate")
    def _give_up(connection: Any, _record: Any, _error: Any) -> None:
        # A task that is cancelled in the middle of a statement leaves its cursor behind, and SQLite
        # does not close a connection that has one: the write lock would stay until the garbage
        # collector comes by (shown). A rollback frees it at once.
        connection.rollback()

    return engine
