"""`kill -9` at each named point of each process, while orders are placed and paid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chains.devnet import Devnet
from reconciler.storage.engine import make_engine
from reconciler.stream.kafka import KafkaStream
from reconciler.stream.promise import Stream
from reconciler.stream.sql import SqlStream
from tests.parts.dying import points_of
from tests.parts.kafka.cluster import KafkaCluster
from tests.parts.processes import ProductProcess
from tests.parts.settings import CHAIN
from tests.parts.thousand.shop import KafkaShop, SqlShop
from tests.parts.traffic import Processes, Traffic, new_chain, settings_of

pytestmark = pytest.mark.postgres

KILLED = -9
KAFKA = """
[stream]
kind = "kafka"
bootstrap = "{bootstrap}"
prefix = "{prefix}"
session = "6s"
"""
SQL = """
[stream]
kind = "sql"
session = "2s"
"""
ROOMS = {"watch": ("watch", CHAIN), "intake": ("intake",), "relay": ("relay",)}


@pytest.fixture
async def devnet() -> AsyncIterator[Devnet]:
    async with Devnet() as made:
        new_chain(made)
        yield made


async def die_at_each(process: ProductProcess, points: list[str]) -> None:
    """Start, die, start again, until every point was met; then live."""
    process.kill()
    for point in points:
        process.start(meets=(point, "SIGKILL"))
        code = await process.ended(timeout_s=60)
        assert code == KILLED, f"{point}: ended with {code}; {process.tail()}"
    process.start()


async def live_through(
    processes: Processes, traffic: Traffic, stream: Stream, points: dict[str, list[str]]
) -> None:
    await processes.migrate()
    await traffic.shop.open()
    await stream.start()
    try:
        for name, arguments in ROOMS.items():
            processes.make(name, *arguments).start()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(traffic.run())
            await traffic.until_more_are_confirmed()
            async with asyncio.TaskGroup() as dying:
                for room, names in points.items():
                    dying.create_task(die_at_each(processes.all[room], names))
            await traffic.until_more_are_confirmed()
            running.cancel()
        await traffic.until_all_are_confirmed()
        await traffic.check_everything_was_told_once(stream)
        await processes.verify_journal()
    finally:
        processes.kill_all()
        await traffic.shop.close()
        await stream.close()


@pytest.mark.kafka
async def test_watcher_and_relay_are_killed_on_both_sides_of_a_commit_to_kafka(
    kafka_broker: KafkaCluster, kafka_prefix: str, postgres_url: str, devnet: Devnet, tmp_path: Path
) -> None:
    bootstrap = kafka_broker.bootstrap
    table = KAFKA.format(bootstrap=bootstrap, prefix=kafka_prefix)
    config = settings_of(tmp_path, devnet, database=postgres_url, stream=table)
    await live_through(
        Processes(config, tmp_path),
        Traffic(KafkaShop(bootstrap, kafka_prefix), devnet),
        KafkaStream(bootstrap, prefix=kafka_prefix),
        {room: points_of(room, of_kafka=True) for room in ("watch", "relay")},
    )


async def test_every_process_is_killed_at_each_point_of_its_own(
    postgres_url: str, devnet: Devnet, tmp_path: Path
) -> None:
    config = settings_of(tmp_path, devnet, database=postgres_url, stream=SQL)
    engine = make_engine(postgres_url)
    await live_through(
        Processes(config, tmp_path),
        Traffic(SqlShop(postgres_url), devnet),
        SqlStream(engine),
        {room: points_of(room) for room in ROOMS},
    )
    await engine.dispose()
