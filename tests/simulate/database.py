"""The database of a run: one SQLite in memory, asked within the loop, shared by all processes.

Simulated: one writer at a time, as BEGIN IMMEDIATE gives; statements between which others run; a busy
database, a connection that is lost in the middle or while it commits; a process that dies with an open
transaction, which is then rolled back. Not simulated: two transactions that overlap (readers wait for
writers here, so that a snapshot is always the last commit), PostgreSQL's locks, the disk.

The driver calls SQLite directly: aiosqlite's thread would make every run another one, and costs more
than the statements do. Whatever has to be waited for is waited for before SQLAlchemy is called, so that
no greenlets are needed either. The engine is the product's own (`make_engine`), kept for all runs of
a process because of the statements that it has compiled.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, Protocol

from sqlalchemy import create_engine
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_dbapi
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool
from sqlalchemy.util.concurrency import greenlet_spawn

from reconciler.storage import tables
from reconciler.storage.engine import make_engine

#: What is still done for a process that is dead: giving back what it had.
_PARTING: Final = frozenset({"close", "rollback", "commit", "invalidate", "__exit__"})


class Client(Protocol):
    """Who asks: a process that may die, be stopped, and meet bad luck."""

    alive: bool

    @property
    def database(self) -> Database: ...

    def turn(self) -> Awaitable[None] | None:
        """Say what to wait for before a call: others, or the end of a pause."""
        ...

    def before_begin(self) -> None: ...

    def before_statement(self) -> None: ...

    def after_commit(self) -> None: ...


client: ContextVar[Client] = ContextVar("client")


class Database:
    """One run's data. At most one connection is inside a transaction."""

    def __init__(self) -> None:
        self.raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.raw.deserialize(_template())
        self.holder: Connection | None = None
        self.holder_task: asyncio.Task[Any] | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def is_taken_by_other(self) -> bool:
        return self.holder is not None and self.holder_task is not asyncio.current_task()

    async def wait_for_turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def take(self, connection: Connection, statement: str) -> None:
        self.holder, self.holder_task = connection, asyncio.current_task()
        self.raw.execute(statement)

    def end(self, statement: str) -> None:
        """Commit or roll back, and let the next one in."""
        self.raw.execute(statement)
        self.holder = self.holder_task = None
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def roll_back_of(self, who: Client) -> None:
        """Undo what a process had begun; its connection is lost with it."""
        if self.holder is not None and self.holder.client is who:
            self.holder.lost = True
            self.end("ROLLBACK")

    def close(self) -> None:
        self.holder = None
        self.raw.close()


class Connection:
    """What SQLAlchemy takes for a connection. `lost` when the other side has given it up."""

    def __init__(self) -> None:
        self.isolation_level: str | None = None
        self.client: Client | None = None
        self.lost = False

    def cursor(self, **_: Any) -> Cursor:
        return Cursor(self)

    def create_function(self, *_: Any, **__: Any) -> None:
        """The dialect brings a function for regular expressions, which nobody uses."""

    def begin(self, statement: str) -> None:
        self.client, self.lost = client.get(), False
        self.client.before_begin()
        self.client.database.take(self, statement)

    def commit(self) -> None:
        self.require()
        if self.client is not None and self.client.database.holder is self:
            self.client.database.end("COMMIT")
            self.client.after_commit()

    def rollback(self) -> None:
        if self.client is not None and self.client.database.holder is self:
            self.client.database.end("ROLLBACK")

    close = terminate = rollback

    def require(self) -> None:
        if self.lost:
            message = "the database has given this connection up"
            raise ConnectionResetError(message)


class Cursor(sqlite3.Cursor):
    """SQLite's own cursor."""

    server_side = False

    def __init__(self, connection: Connection) -> None:
        super().__init__(client.get().database.raw)
        self._of = connection

    def execute(self, statement: str, parameters: Any = ()) -> Any:  # type: ignore[override]
        if statement.startswith("PRAGMA "):
            return self
        if statement.startswith("BEGIN "):
            self._of.begin(statement)
            return self
        self._ready()
        return super().execute(statement, parameters)

    def executemany(self, statement: str, parameters: Any) -> Any:  # type: ignore[override]
        self._ready()
        return super().executemany(statement, parameters)

    def _ready(self) -> None:
        client.get().before_statement()
        self._of.require()

    async def _async_soft_close(self) -> None:
        """Everything is read at once; nothing is left to close."""


class InlineDriver(AsyncAdapt_aiosqlite_dbapi):
    """The driver's module, as SQLAlchemy sees it."""

    def connect(self, *_: Any, **__: Any) -> Connection:  # type: ignore[override]
        return Connection()


async def spawn(
    call: Callable[..., Any], *arguments: Any, _require_await: bool = False, **named: Any
) -> Any:
    """Stand in for SQLAlchemy's `greenlet_spawn`: wait for everything first, then call at once."""
    del _require_await
    who, parting = client.get(), call.__name__ in _PARTING
    if who.alive or not parting:
        turn = who.turn()
        if turn is not None:
            await turn
    # Giving back is done in a task of its own, and begins nothing.
    while not parting and who.database.is_taken_by_other():
        await who.database.wait_for_turn()
        turn = who.turn()
        if turn is not None:
            await turn
    return call(*arguments, **named)


@cache
def engine() -> AsyncEngine:
    """Open the product's engine over the driver above. One for all runs of a process."""
    made = make_engine("sqlite+aiosqlite:///simulated")
    sync = made.sync_engine
    sync.dialect.dbapi = InlineDriver(__import__("aiosqlite"), sqlite3)
    old = sync.pool
    sync.pool = QueuePool(
        old._creator,
        pool_size=100,
        max_overflow=-1,
        dialect=sync.dialect,
        _dispatch=old.dispatch,
    )
    return made


class Bystander:
    """A client to whom nothing happens."""

    def __init__(self, database: Database) -> None:
        self.alive = True
        self.database = database

    def turn(self) -> None: ...

    def before_begin(self) -> None: ...

    def before_statement(self) -> None: ...

    def after_commit(self) -> None: ...


@cache
def warm_up() -> None:
    """Let SQLAlchemy do what it does at a first connection, so that no seed is the first."""

    def connect() -> None:
        with engine().sync_engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")

    async def first() -> None:
        client.set(Bystander(Database()))
        await greenlet_spawn(connect)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(first())
    loop.close()


@cache
def _template() -> bytes:
    raw = sqlite3.connect(":memory:")
    scratch = create_engine("sqlite://", creator=lambda: raw)
    tables.metadata.create_all(scratch)
    raw.commit()
    return raw.serialize()
