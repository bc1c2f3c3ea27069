"""A PostgreSQL that is killed, cuts connections, hangs or refuses: the service waits and goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.storage import engine as engines
from reconciler.storage.engine import make_engine
from reconciler.storage.unit_of_work import GaveUpError, Store, Work
from tests.parts.applying import LIFE, SPECS, Applying, at_work, until
from tests.parts.postgres import PostgresServer

pytestmark = pytest.mark.postgres

#: Sent by the test's own hand; every process of a server is told.
Signal = signal.Signals


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that nobody else needs meanwhile."""
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def service(own_server: PostgresServer) -> AsyncIterator[Applying]:
    made = await _service(make_engine(own_server.new_database()))
    yield made
    await made.world.close()


async def _service(engine: AsyncEngine) -> Applying:
    made = Applying(engine)
    await made.create_tables()
    await made.stream.create_topics(SPECS)
    return made


def signal_all(server: PostgresServer, number: Signal) -> None:
    """Send a signal to the server and to each of its children."""
    assert server._process is not None
    parent = server._process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for pid in [parent, *map(int, children)]:
        os.kill(pid, number)


async def ask(work: Work) -> None:
    await work.connection.execute(text("SELECT 1"))


async def test_postgresql_is_killed_and_comes_back_and_every_order_is_told_once(
    own_server: PostgresServer, service: Applying
) -> None:
    async with at_work(service.intake(), service.relay()):
        await service.place(1, 2, 3)
        await until(lambda: service.is_placed(1, 2, 3))
        await service.pay(1)
        await until(lambda: service.tells(1))
        await asyncio.to_thread(own_server.kill)
        await service.pay(2, 3)
        await service.place(4, 5, 6)
        await asyncio.to_thread(own_server.restart)
        await until(lambda: service.is_placed(4, 5, 6))
        await service.pay(4, 5, 6)
        await until(lambda: service.tells(1, 2, 3, 4, 5, 6))
    assert await service.told() == {f"o-{number}": LIFE for number in range(1, 7)}


async def test_connections_are_cut_again_and_again_and_every_order_is_told_once(
    service: Applying,
) -> None:
    knife = Store(make_engine(str(service.world.engine.url)))

    async def cut(work: Work) -> int:
        found = await work.connection.execute(
            text(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        return int(found.scalar_one())

    numbers = range(1, 8)
    cuts = 0
    async with at_work(service.intake(), service.relay()):
        for number in numbers:
            await service.place(number)
            cuts += await knife.read(cut)
            await until(lambda wanted=number: service.is_placed(wanted))
            await service.pay(number)
            cuts += await knife.read(cut)
        await until(lambda: service.tells(*numbers))
    await knife.close()
    assert cuts > len(numbers)
    assert await service.told() == {f"o-{number}": LIFE for number in numbers}


async def test_postgresql_hangs_longer_than_a_statement_may_take_and_nobody_ends(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-open: connections stand, and nothing answers."""
    monkeypatch.setattr(engines, "_STATEMENT_TIMEOUT_S", 0.5)
    monkeypatch.setattr(engines, "_CONNECT_TIMEOUT_S", 0.5)
    service = await _service(make_engine(own_server.new_database()))
    async with at_work(service.intake(), service.relay()):
        await service.place(1)
        await until(lambda: service.is_placed(1))
        asker = Store(make_engine(str(service.world.engine.url)))
        await asker.read(ask)
        signal_all(own_server, signal.SIGSTOP)
        try:
            await service.place(2)
            # As long as several statements of the service take to give up.
            for _ in range(4):
                with pytest.raises(GaveUpError):
                    await asker.read(ask)
        finally:
            signal_all(own_server, signal.SIGCONT)
        await until(lambda: service.is_placed(2))
        await service.pay(1, 2)
        await until(lambda: service.tells(1, 2))
    assert await service.told() == {"o-1": LIFE, "o-2": LIFE}
    await asker.close()
    await service.world.close()


async def test_serialization_failures_are_done_again_until_nothing_is_lost(
    own_server: PostgresServer,
) -> None:
    """Two read before either writes: at this isolation PostgreSQL refuses one of them, once."""
    url = own_server.new_database()
    store = Store(make_engine(url).execution_options(isolation_level="SERIALIZABLE"))
    await store.run(make_counter)
    runs, both_read = 0, asyncio.Barrier(2)

    async def increment(work: Work) -> None:
        nonlocal runs
        runs += 1
        found = await work.connection.execute(text("SELECT value FROM counter"))
        value = found.scalar_one()
        if runs <= both_read.parties:
            await both_read.wait()
        await work.connection.execute(text(f"UPDATE counter SET value = {value + 1}"))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(both_read.parties):
            tasks.create_task(store.run(increment))
    assert await store.read(counted) == both_read.parties
    assert runs == both_read.parties + 1
    await store.close()


async def make_counter(work: Work) -> None:
    await work.connection.execute(text("CREATE TABLE counter AS SELECT 0 AS value"))


async def counted(work: Work) -> int:
    return int((await work.connection.execute(text("SELECT value FROM counter"))).scalar_one())
