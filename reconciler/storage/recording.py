"""What was applied, in the order in which it was: the journal's messages, the lanes' watermarks, and what
could not be applied. And what was told of it.

Reads the journal and the tables beside it. Every message that changed anything stands in one of them,
with the number (`seq`) that was drawn behind its locks: in the order of numbers they are a recording.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import Struct
from sqlalchemy import Select, Table, delete, func, select, tuple_

from reconciler.storage import tables
from reconciler.storage.reads import columns_of, fetch
from reconciler.storage.unit_of_work import Store, Work

#: Journal entries that hold a message as it came; others say what was made of it.
MESSAGE_KINDS: Final = ("fact", "command", "decision")
PAGE_ROWS: Final = 1_000


class JournalledMessage(Struct):
    """A fact, command or decision, with its body as the journal keeps it."""

    seq: int
    id: int
    body: bytes


class LaneMessage(Struct):
    """A watermark or a retraction; `inbox_until` is how far `orders` had been applied."""

    seq: int
    lane: str
    kind: str
    inbox_until: datetime | None
    recorded_at: datetime
    key: str
    value: bytes


class UnreadMessage(Struct):
    """A message that could not be applied, as it came."""

    seq: int
    lane: str
    offset: int
    key: bytes
    type: str
    headers: bytes
    value: bytes
    recorded_at: datetime


class Told(Struct):
    """A message of the outbox."""

    id: int
    topic: str
    key: bytes
    type: str
    headers: bytes
    value: bytes | None
    recorded_at: datetime


Applied = JournalledMessage | LaneMessage | UnreadMessage
A = TypeVar("A", bound=Applied)


async def applied_messages(work: Work) -> AsyncIterator[Applied]:
    """Give everything that was applied, in the order of its numbers, a page at a time.

    Read in a snapshot: a unit of work that has not committed is not in it, and nothing that is in it
    waited for that one.
    """
    journal = select(*columns_of(tables.journal, JournalledMessage)).where(
        tables.journal.c.kind.in_(MESSAGE_KINDS)
    )
    lane_log = select(*columns_of(tables.lane_log, LaneMessage))
    unreadable = select(*columns_of(tables.unreadable, UnreadMessage))
    sources: list[_Source] = [
        _Source(_pager(work, JournalledMessage, journal, tables.journal, "id")),
        _Source(_pager(work, LaneMessage, lane_log, tables.lane_log)),
        _Source(_pager(work, UnreadMessage, unreadable, tables.unreadable)),
    ]
    while True:
        heads = [
            (head.seq, n) for n, s in enumerate(sources) if (head := await s.head()) is not None
        ]
        if not heads:
            return
        yield sources[min(heads)[1]].take()


async def count_applied(work: Work) -> int:
    """Count what `applied_messages` gives, for a progress bar."""
    messages = select(func.count()).where(tables.journal.c.kind.in_(MESSAGE_KINDS))
    total = int((await work.connection.execute(messages)).scalar_one())
    for table in (tables.lane_log, tables.unreadable):
        found = await work.connection.execute(select(func.count()).select_from(table))
        total += int(found.scalar_one())
    return total


async def count_told(work: Work, topics: Sequence[str]) -> int:
    """Count the messages of the outbox to these topics."""
    statement = select(func.count()).where(tables.outbox.c.topic.in_(topics))
    return int((await work.connection.execute(statement)).scalar_one())


async def take_outbox(store: Store) -> Sequence[Told]:
    """Give what waits in the outbox and remove it: nobody sends what a replay says."""

    async def use_case(work: Work) -> Sequence[Told]:
        table = tables.outbox
        found = await fetch(work, Told, select(*columns_of(table, Told)).order_by(table.c.id))
        if found:
            await work.connection.execute(delete(table))
            await work.connection.execute(delete(tables.unsent))
        return found

    return await store.run(use_case, name="take_outbox")


async def parked_places(work: Work) -> Sequence[tuple[int, int]]:
    """Give (partition, offset) of the commands that wait for their order, in the order they came."""
    table = tables.parked
    found = await work.connection.execute(select(table.c.lane, table.c.offset).order_by(table.c.id))
    return [(int(lane.rpartition("/")[2]), int(offset)) for lane, offset in found]


Pager = Callable[[Any], Coroutine[Any, Any, Sequence[Applied]]]


class _Source:
    """One table's rows by number; holds one page."""

    def __init__(self, next_page: Pager) -> None:
        self._next_page = next_page
        self._page: list[Applied] = []
        self._last: Applied | None = None
        self._is_over = False

    async def head(self) -> Applied | None:
        """Give the first row that was not taken."""
        if not self._page and not self._is_over:
            self._page = list(reversed(await self._next_page(self._last)))
            self._is_over = not self._page
        return self._page[-1] if self._page else None

    def take(self) -> Applied:
        """Take the head."""
        self._last = self._page.pop()
        return self._last


def _pager(
    work: Work, kind: type[A], statement: Select[Any], table: Table, *more: str
) -> Callable[[Any], Coroutine[Any, Any, Sequence[Applied]]]:
    """Make what reads the page behind a row."""
    keys = ("seq", *more)
    columns = [table.c[key] for key in keys]

    async def next_page(last: Any) -> Sequence[Applied]:
        wanted = statement.order_by(*columns).limit(PAGE_ROWS)
        if last is not None:
            wanted = wanted.where(tuple_(*columns) > tuple(getattr(last, key) for key in keys))
        return await fetch(work, kind, wanted)

    return next_page
