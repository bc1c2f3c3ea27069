"""The real parts are real: they start, answer and keep what they were given."""

from __future__ import annotations

import aiokafka
import asyncpg
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.parts.kafka.cluster import KafkaCluster


@pytest.mark.kafka
async def test_a_broker_keeps_what_it_was_given(
    kafka_broker: KafkaCluster, kafka_prefix: str
) -> None:
    topic = f"{kafka_prefix}kept"
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap) as producer:
        await producer.send_and_wait(topic, b"value", key=b"key", partition=0)
    async with aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=kafka_broker.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        record = await consumer.getone()
    assert (record.key, record.value) == (b"key", b"value")


@pytest.mark.postgres
async def test_a_database_is_empty_and_of_version_15_or_newer(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    try:
        assert connection.get_server_version().major >= 15
        count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert await connection.fetchval(count) == 0
    finally:
        await connection.close()
