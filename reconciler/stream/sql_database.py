"""What the parts of the SQL stream share: the database's dialect, clock, errors and wake-ups.

Reads and writes nothing by itself but the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import structlog
from sqlalchemy import BigInteger, ColumnElement, func, literal_column, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from chains.heed import heed_cancellation
from reconciler.stream.promise import StreamUnavailable

#: PostgreSQL's channel; a message of it says where to look again and carries nothing else.
CHANNEL: Final = "reconciler_stream"
#: Behind every wake-up stands a poll, so that a lost notification costs this and no more.
POLL_INTERVAL_S: Final = 0.25
LISTEN_AGAIN_S: Final = 1.0
#: A lock of the stream is held for milliseconds. Who waits longer waits for a broken process.
LOCK_TIMEOUT_MS: Final = 10_000

#: What a database that cannot be reached raises: drivers and the pool do not agree on one class.
UNREACHABLE: Final = (SQLAlchemyError, OSError, TimeoutError)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class News(StrEnum):
    """What there is to look at again: what a notification says."""

    APPENDED = "appended"
    SHARED = "shared"


log = structlog.get_logger(__name__)


def to_datetime(time_us: int) -> datetime:
    """Read microseconds since 1970."""
    return EPOCH + timedelta(microseconds=time_us)


@contextlib.contextmanager
def unavailable_when_unreachable(doing: str) -> Iterator[None]:
    """Turn what the database raises into the stream's own word."""
    try:
        yield
    except UNREACHABLE as error:
        message = f"{doing}: {error}"
        raise StreamUnavailable(message) from error


class Database:
    """The engine, with what differs between PostgreSQL and SQLite in one place.

    `frozen_after_ms`: PostgreSQL ends a transaction of a process that has stopped in the middle of
    an append, so that its locks do not hold up the others.
    """

    def __init__(self, engine: AsyncEngine, *, frozen_after_ms: int = 5_000) -> None:
        self.engine = engine
        self.is_postgresql = engine.dialect.name == "postgresql"
        self._frozen_after_ms = frozen_after_ms
        # SQLite: a read takes no write lock. PostgreSQL: a single statement needs no BEGIN.
        self._reading = (
            engine.execution_options(isolation_level="AUTOCOMMIT")
            if self.is_postgresql
            else engine.execution_options(begin_mode="DEFERRED")
        )

    def writing(self) -> contextlib.AbstractAsyncContextManager[AsyncConnection]:
        """Open a transaction that writes; it commits at the end of the block."""
        return self.engine.begin()

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for single statements that only read."""
        async with self._reading.connect() as connection:
            yield connection

    def insert(self, table: Any) -> Any:
        """Make an INSERT that knows ON CONFLICT."""
        return postgresql.insert(table) if self.is_postgresql else sqlite.insert(table)

    def greatest(self, *values: ColumnElement[int]) -> ColumnElement[int]:
        """Take the larger of two."""
        return func.greatest(*values) if self.is_postgresql else func.max(*values)

    def now_us(self) -> ColumnElement[int]:
        """Read the database's clock, at the moment of the statement and not of the transaction."""
        if self.is_postgresql:
            return literal_column(
                "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)", BigInteger
            )
        return literal_column(
            "(CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
            " + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000)",
            BigInteger,
        )

    async def guard_locks(self, connection: AsyncConnection) -> None:
        """Bound how long this transaction waits for locks, and how long it may hold them asleep."""
        if self.is_postgresql:
            await connection.execute(
                select(
                    func.set_config("lock_timeout", str(LOCK_TIMEOUT_MS), True),  # noqa: FBT003
                    func.set_config(
                        "idle_in_transaction_session_timeout",
                        str(self._frozen_after_ms),
                        True,  # noqa: FBT003
                    ),
                )
            )

    async def notify(self, connection: AsyncConnection, news: News) -> None:
        """Wake other processes when this transaction commits."""
        if self.is_postgresql:
            await connection.execute(select(func.pg_notify(CHANNEL, str(news))))


class Wake:
    """Wakes everything in this process that waits for news of the stream."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def all(self) -> None:
        """Wake whoever waits now. Who asks for `next` later waits for the next time."""
        woken, self._event = self._event, asyncio.Event()
        woken.set()

    def next(self) -> asyncio.Event:
        """Give the event to wait for. Ask *before* looking, so that nothing falls in between."""
        return self._event


async def wait_for_news(news: asyncio.Event, wait_s: float) -> None:
    """Wait for news, no longer than the poll behind it and than `wait_s`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, min(wait_s, POLL_INTERVAL_S))):
            await news.wait()


async def listen(database: Database, wakes: Mapping[News, Wake]) -> None:
    """Pass PostgreSQL's notifications on, for ever; connect again when the connection breaks."""
    while True:
        heed_cancellation()
        try:
            await _listen_once(database, wakes)
        except UNREACHABLE as error:
            log.warning("notifications are off, polling goes on", reason=str(error))
        await asyncio.sleep(LISTEN_AGAIN_S)


async def _listen_once(database: Database, wakes: Mapping[News, Wake]) -> None:
    ended = asyncio.Event()

    def heard(_connection: object, _process: int, _channel: str, payload: str) -> None:
        for news, wake in wakes.items():
            if payload == news:
                wake.all()

    def closed(*_: object) -> None:
        ended.set()

    async with database.reading() as connection:
        raw: Any = (await connection.get_raw_connection()).driver_connection
        raw.add_termination_listener(closed)
        await raw.add_listener(CHANNEL, heard)
        try:
            await ended.wait()
        finally:
            # The connection goes back to the pool: it must not bring our ears along.
            raw.remove_termination_listener(closed)
            if not raw.is_closed():
                await raw.remove_listener(CHANNEL, heard)
