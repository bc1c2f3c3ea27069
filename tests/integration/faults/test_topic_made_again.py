"""A topic that somebody deleted and made again: its offsets begin anew, and ours are of the old one."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from reconciler.storage.engine import make_engine
from reconciler.stream.kafka import KafkaStream
from reconciler.stream.topics import ORDERS
from tests.parts.applying import COMMANDS, SPECS, Applying, at_work, until
from tests.parts.kafka.cluster import KafkaCluster

pytestmark = pytest.mark.kafka


async def make_again(cluster: KafkaCluster, prefix: str, topic: str) -> KafkaStream:
    """Delete a topic and make it again; gives a client that knows the new one."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    await admin.delete_topics([prefix + topic])
    async with asyncio.timeout(30):
        while prefix + topic in await admin.list_topics():
            await asyncio.sleep(0.02)
    await admin.close()
    stream = KafkaStream(cluster.bootstrap, prefix=prefix)
    await stream.start()
    await stream.create_topics(SPECS)
    return stream


async def test_orders_made_again_stand_still_and_say_so_and_nothing_is_applied_at_wrong_offsets(
    kafka_broker: KafkaCluster, kafka_prefix: str, sqlite_url: str
) -> None:
    stream = KafkaStream(kafka_broker.bootstrap, prefix=kafka_prefix)
    await stream.start()
    await stream.create_topics(SPECS)
    service = Applying(make_engine(sqlite_url), stream)
    await service.create_tables()

    async def stands_still() -> bool:
        said = await service.health.verdicts()
        return any(ORDERS in name and not one.ok for name, one in said.items())

    async with at_work(service.intake(), service.relay()):
        await service.place(1, 2, 3)
        await until(lambda: service.is_placed(1, 2, 3))
        position = await service.world.position(COMMANDS)
        service.stream = again = await make_again(kafka_broker, kafka_prefix, ORDERS)
        await service.place(4)
        await until(stands_still)
    # Whoever starts now finds the same, also once the new log is longer than the old one was.
    async with at_work(service.intake()):
        await until(stands_still)
    await service.place(5, 6, 7, 8, 9)
    async with at_work(service.intake()):
        await until(stands_still)
    assert await service.world.position(COMMANDS) == position
    assert sorted(event.order for event in await service.world.events()) == ["o-1", "o-2", "o-3"]
    await again.close()
    await stream.close()
    await service.world.close()
