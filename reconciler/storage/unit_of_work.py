"""The unit of work: one use case, one transaction, repeated whole when the database says "again".

Promise. `Store.run(use_case)` opens a transaction, calls `use_case(work)` once, commits, and gives its
result. On a serialization failure, a deadlock, a busy database or a lost connection it rolls back and
calls the use case again with a new `Work`: a use case therefore keeps nothing outside `work`, talks to
nothing else, and begins with what makes a second run harmless (a position moved by compare-and-swap, an
idempotency key), since a connection may also be lost while it commits. Any other exception rolls back
and comes out.

Locks, always in this order: lanes, position, names (idempotency keys, purchases), addresses by (family,
key), the journal's, stream heads; what is found too late for it is in reconciler.storage.locks. What is
decided on is read after the lock. PostgreSQL runs READ COMMITTED; a lane is an advisory lock, exclusive for the one that applies the lane's facts and shared for everyone whose
judgement depends on the lane's coverage, so that "which watermark did this order see" has one answer.
SQLite has no row locks: BEGIN IMMEDIATE makes every unit of work the only one.

Only this file commits.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

import structlog
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from reconciler.storage.engine import is_repeatable
from reconciler.storage.locks import CrossedError, Locks, Plan

T = TypeVar("T")

ATTEMPTS_MAX: Final = 20
#: Each time, at least one lock more is taken in its place.
CROSSINGS_MAX: Final = 100
#: A process that is stopped in the middle of a unit of work loses its locks after so long.
IDLE_S_MAX: Final = 30
_BACK_OFF_S: Final = 0.005
_BACK_OFF_S_MAX: Final = 0.5

_PATIENCE: Final = text(
    "SELECT set_config('lock_timeout', '10s', true), "
    "set_config('idle_in_transaction_session_timeout', :idle, true)"
)

_log = structlog.get_logger(__name__)


#: What a database that gives no answer raises beside errors of its own: no route, no name, a time-out of
#: ours, no connection of the pool that is free.
_NO_ANSWER: Final = (OSError, PoolTimeoutError)


class GaveUpError(Exception):
    """The database refused the unit of work as often as it may be repeated, or gave no answer."""


class Work:
    """An open transaction. Rooms beside this file read and write through `connection`."""

    def __init__(self, connection: AsyncConnection, plan: Plan | None = None) -> None:
        self.connection = connection
        self.after_commit: list[Callable[[], None]] = []
        self.locks = Locks(connection, plan or Plan())

    @property
    def is_postgresql(self) -> bool:
        """Tell which database it is; the few places that differ ask this."""
        return self.connection.dialect.name == "postgresql"

    async def lock_lanes(self, *, exclusive: str | None, shared: Sequence[str] = ()) -> None:
        """Take one lane's lock for its facts, and others' for judging by them. A no-op on SQLite."""
        if self.is_postgresql:
            wanted = dict.fromkeys(shared, False)
            if exclusive is not None:
                wanted[exclusive] = True
            await self.locks.take_lanes(wanted)

    async def lock_all_lanes(self, lanes: Iterable[str]) -> None:
        """Take every one of these lanes for itself."""
        if self.is_postgresql:
            await self.locks.take_lanes(dict.fromkeys(lanes, True))

    async def lock_names(self, names: Iterable[str]) -> None:
        """Take exclusive locks on names (idempotency keys, purchases, new references) until the end."""
        if self.is_postgresql:
            await self.locks.take_names(names)

    async def lock_journal(self, *, exclusive: bool) -> None:
        """Keep seals away until the commit, or, exclusively, everybody who has written entries.

        Taken before the first entry is written, so that an entry's id is drawn behind it.
        """
        if self.is_postgresql:
            await self.locks.take_journal(exclusive=exclusive)

    async def next_seqs(self, count: int) -> Sequence[int]:
        """Draw rising numbers that order what is applied. Draw after the locks, never before.

        Whoever waits for a lock of ours draws later, so the numbers order conflicting units of work as
        the locks did.
        """
        if count == 0:
            return ()
        if self.is_postgresql:
            found = await self.connection.execute(
                text("SELECT nextval('applied_seq') FROM generate_series(1, :count)"),
                {"count": count},
            )
            return sorted(row[0] for row in found)
        found = await self.connection.execute(
            text(
                "INSERT INTO counters (name, value) VALUES ('applied_seq', :count) "
                "ON CONFLICT (name) DO UPDATE SET value = value + :count RETURNING value"
            ),
            {"count": count},
        )
        last = int(found.scalar_one())
        return range(last - count + 1, last + 1)


class Store:
    """The database, as the services see it."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.outbox_written = asyncio.Event()

    async def run(self, use_case: Callable[[Work], Awaitable[T]], *, name: str = "") -> T:
        """Do a use case in one transaction. **Raises**: `GaveUpError`, or what the use case raises."""
        plan = Plan()
        for attempt in range(ATTEMPTS_MAX):
            try:
                return await self._in_order(use_case, plan, name)
            except (DBAPIError, *_NO_ANSWER) as error:
                if not is_repeatable(error):
                    if isinstance(error, DBAPIError):
                        raise
                    # It took its time already: what to do next is for the door to say.
                    raise GaveUpError(_no_answer(error)) from error
                _log.info(
                    "unit_of_work_repeated", use_case=name, attempt=attempt, error=str(error)[:200]
                )
                pause_s = min(_BACK_OFF_S * 2**attempt, _BACK_OFF_S_MAX)
                await asyncio.sleep(pause_s * (0.5 + random.random()))  # noqa: S311 jitter, no secret
        message = f"the database refused {name or 'a unit of work'} {ATTEMPTS_MAX} times"
        raise GaveUpError(message)

    async def read(self, query: Callable[[Work], Awaitable[T]]) -> T:
        """Run a query that writes nothing, without the writers' lock.

        **Raises**: `GaveUpError` when the database gives no answer.
        """
        try:
            async with self.engine.connect() as connection:
                quiet = await connection.execution_options(begin_mode="DEFERRED")
                return await query(Work(quiet))
        except ConnectionError:
            raise
        except _NO_ANSWER as error:
            raise GaveUpError(_no_answer(error)) from error

    async def _in_order(self, use_case: Callable[[Work], Awaitable[T]], plan: Plan, name: str) -> T:
        """Do it, again with every lock in its place as long as one was asked for too late."""
        for _ in range(CROSSINGS_MAX):
            try:
                return await self._once(use_case, plan)
            except CrossedError as crossed:
                _log.debug("locks_crossed", use_case=name, over=str(crossed))
        message = f"locks were in the way {CROSSINGS_MAX} times"
        raise GaveUpError(message)

    async def _once(self, use_case: Callable[[Work], Awaitable[T]], plan: Plan) -> T:
        async with self.engine.connect() as connection:
            work = Work(connection, plan)
            async with connection.begin():
                if work.is_postgresql:
                    await connection.execute(_PATIENCE, {"idle": f"{IDLE_S_MAX}s"})
                result = await use_case(work)
        for done in work.after_commit:
            done()
        return result

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()


def _no_answer(error: BaseException) -> str:
    return f"the database gives no answer: {str(error) or type(error).__name__}"
