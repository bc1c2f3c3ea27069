"""What only Kafka does: brokers that die, settings that others changed, positions it must not keep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from reconciler.stream.kafka import KafkaStream
from reconciler.stream.promise import (
    Lane,
    OutcomeUnknown,
    Outgoing,
    Stream,
    StreamUnavailable,
    TopicSpec,
    Writer,
    read_all,
)
from tests.parts.kafka.cluster import KafkaCluster

pytestmark = pytest.mark.kafka

FACTS = TopicSpec(name="facts", partitions=1, cleanup="delete", retention_s=3_600)
LANE = Lane(topic="facts", partition=0)
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(brokers=3)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
async def admin(kafka_broker: KafkaCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
    await client.start()
    yield client
    await client.close()


def numbered(number: int) -> Outgoing:
    return Outgoing(lane=LANE, key=b"k", value=str(number).encode(), headers=())


async def leader_of(cluster: KafkaCluster, topic: str) -> int:
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await client.start()
    (described,) = await client.describe_topics([topic])
    await client.close()
    return described["partitions"][0]["leader"]


async def start_again(writer: Writer) -> None:
    while True:
        try:
            await writer.start()
        except StreamUnavailable:
            await asyncio.sleep(0.1)
        else:
            return


async def last_number(stream: Stream) -> int:
    while True:
        try:
            records = await read_all(stream, LANE)
        except StreamUnavailable:
            await asyncio.sleep(0.1)
        else:
            return int(records[-1].value or b"") if records else -1


async def write_all(stream: Stream, count: int, progress: asyncio.Queue[int]) -> None:
    """As a watcher does: after an unknown outcome, start again and go on after what arrived."""
    writer = stream.writer("watch/eip155:1")
    await start_again(writer)
    number = 0
    while number < count:
        try:
            await writer.append([numbered(number)])
        except (OutcomeUnknown, StreamUnavailable):
            await start_again(writer)
            number = await last_number(stream)
        number += 1
        progress.put_nowait(number)


async def read_numbers(stream: Stream, count: int) -> list[int]:
    group = stream.group("intake", ["facts"])
    await group.start()
    found: list[int] = []
    while len(found) < count:
        for reader in (await group.lanes()).values():
            if not found:
                await reader.seek(None)
            try:
                batch = await reader.read(records_max=100, wait_s=0.5)
            except StreamUnavailable:
                continue
            found += [int(record.value or b"") for record in batch.records]
        if not found:
            await group.changed(0.5)
    await group.close()
    return found


async def test_topics_of_a_cluster_are_copied_and_survive_one_broker(
    three_brokers: KafkaCluster, kafka_prefix: str
) -> None:
    stream = KafkaStream(three_brokers.bootstrap, prefix=kafka_prefix)
    await stream.start()
    await stream.create_topics([FACTS])
    found = stream._topics["facts"].settings
    assert found["min.insync.replicas"] == "2"
    assert found["unclean.leader.election.enable"] == "false"
    await stream.close()


async def test_a_lost_broker_stops_neither_writer_nor_reader(
    three_brokers: KafkaCluster, kafka_prefix: str
) -> None:
    count = 150
    streams = [KafkaStream(three_brokers.bootstrap, prefix=kafka_prefix) for _ in range(2)]
    for stream in streams:
        await stream.start()
    await streams[0].create_topics([FACTS])
    assert await streams[0].compare_topics([FACTS]) == []
    progress: asyncio.Queue[int] = asyncio.Queue()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read_numbers(streams[1], count))
        tasks.create_task(write_all(streams[0], count, progress))
        while await progress.get() < count // 3:
            pass
        lost = await leader_of(three_brokers, f"{kafka_prefix}facts")
        await asyncio.to_thread(three_brokers.kill, lost)
    assert reading.result() == list(range(count))
    await three_brokers.restart(lost)
    for stream in streams:
        await stream.close()


async def test_what_only_kafka_can_have_otherwise_is_said(
    kafka_broker: KafkaCluster, kafka_prefix: str, admin: AIOKafkaAdminClient
) -> None:
    settings = {"retention.ms": "3600000", "retention.bytes": "1000000"}
    await admin.create_topics([NewTopic(f"{kafka_prefix}facts", 1, 1, topic_configs=settings)])
    stream = KafkaStream(kafka_broker.bootstrap, prefix=kafka_prefix)
    await stream.start()
    assert await stream.compare_topics([FACTS]) == [
        "topic facts: expected message_bytes_max 1048576, found 1048588",
        "topic facts: expected message.timestamp.type LogAppendTime",
        "topic facts: expected retention.bytes -1, found 1000000",
    ]
    await stream.close()


async def test_a_group_keeps_no_position_in_the_broker(
    kafka_broker: KafkaCluster, kafka_prefix: str, admin: AIOKafkaAdminClient
) -> None:
    """CH-K01 and CH-K02 cannot happen: nothing is ever committed to Kafka."""
    stream = KafkaStream(kafka_broker.bootstrap, prefix=kafka_prefix)
    await stream.start()
    await stream.create_topics([FACTS])
    writer = stream.writer("test")
    await writer.start()
    await writer.append([numbered(0), numbered(1)])
    assert await read_numbers(stream, 2) == [0, 1]
    assert await admin.list_consumer_group_offsets(f"{kafka_prefix}intake") == {}
    await writer.close()
    await stream.close()


async def test_a_cluster_that_is_not_there_is_unavailable() -> None:
    stream = KafkaStream("127.0.0.1:9")
    with pytest.raises(StreamUnavailable, match=r"Kafka at .* cannot be reached"):
        await stream.start()
    await stream.close()


async def test_a_record_of_a_strangers_client_is_read_without_key_and_header_value(
    kafka_broker: KafkaCluster,
) -> None:
    stream = KafkaStream(kafka_broker.bootstrap, prefix="bare.")
    await stream.start()
    await stream.create_topics([FACTS])
    producer = AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
    await producer.start()
    await producer.send_and_wait("bare.facts", value=b"v", headers=[("ce_type", None)])
    await producer.stop()
    (record,) = await read_all(stream, LANE)
    await stream.close()
    assert (record.key, record.value, record.headers) == (b"", b"v", (("ce_type", b""),))
