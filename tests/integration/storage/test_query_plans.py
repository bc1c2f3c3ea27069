"""What is asked again and again reads an index, also on SQLite, which takes a condition by its words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.storage import outbox, reads, tables, writes
from reconciler.storage.engine import make_engine
from reconciler.storage.rows import LaneRow
from reconciler.storage.stream_tables import stream_metadata
from reconciler.storage.unit_of_work import Work
from reconciler.stream.sql_cleanup import _remove_replaced

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LANE = LaneRow(lane="l", chain="c", height=1, decided_until=NOON)
Query = Callable[[Work], Awaitable[Any]]

HOT: dict[str, Query] = {
    "does a message wait": lambda work: outbox.is_waiting(work, 0),
    "batches under way": lambda work: outbox.numbered(work, 0),
    "messages of a batch": lambda work: outbox.messages_of(work, 0, 1),
    "a batch arrived": lambda work: outbox.mark_sent(work, 0, 1),
    "what waits to leave": lambda work: outbox.backlog(work, 0, count_max=9),
    "open orders of a phase": lambda work: reads.count_open_orders(work, "claimed", most=9),
    "open exceptions": lambda work: reads.count_open_exceptions(work, most=9),
    "due orders": lambda work: reads.due_orders(work, LANE, limit=1),
    "reservations of an address": lambda work: reads.live_reservations(work, [("f", "k")]),
    "waiting orders of a lane": lambda work: writes.wake_waiting_orders(
        work, column="lane", value="l", after_seq=1
    ),
    "what newer messages replaced": lambda work: _remove_replaced(work.connection, 1, 0, 9),
}


@pytest.fixture
async def sqlite() -> AsyncEngine:
    engine = make_engine("sqlite+aiosqlite://")
    async with engine.begin() as connection:
        await connection.run_sync(tables.metadata.create_all)
        await connection.run_sync(stream_metadata.create_all)
    yield engine
    await engine.dispose()


@pytest.mark.parametrize("name", HOT)
async def test_a_frequent_question_reads_no_table_from_end_to_end(
    sqlite: AsyncEngine, name: str
) -> None:
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    async with sqlite.begin() as connection:
        event.listen(sqlite.sync_engine, "before_cursor_execute", note)
        await HOT[name](Work(connection))
        event.remove(sqlite.sync_engine, "before_cursor_execute", note)
        assert asked
        for statement, parameters in asked:
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [str(row[3]) for row in plan]
            own = {f"SCAN {table}" for table in (*tables.metadata.tables, *stream_metadata.tables)}
            assert not own & set(steps), (statement, steps)


def test_no_index_begins_with_what_nearly_every_row_shares() -> None:
    """Before it has statistics PostgreSQL takes such a column for a choice one, and walks all rows."""
    keys = {
        name: [column.name for column in part.columns]
        for table in tables.metadata.tables.values()
        for name, part in [("primary key of " + table.name, table.primary_key)]
        + [(str(index.name), index) for index in table.indexes]
    }
    shared = {"family", "chain"}
    assert not [name for name, (first, *more) in keys.items() if more and first in shared]
