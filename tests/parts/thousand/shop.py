"""The shop of a run: sends commands, and reads what it is told as any consumer would.

Plain JSON on both sides: nothing of the service's own code reads or writes a message here.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from reconciler.storage.engine import make_engine
from reconciler.stream.promise import Lane, Outgoing, StreamUnavailable, partition_of
from reconciler.stream.sql import SqlStream

EVENTS = "payment-events"
EXCEPTIONS = "payment-exceptions"
REJECTED = "orders-rejected"
PARTITIONS = {EVENTS: 6, EXCEPTIONS: 1, REJECTED: 1}
ORDERS_PARTITIONS = 3
APPENDS_MAX = 5


class Told:
    """Everything that was told, as it came: bytes beside what they say."""

    def __init__(self) -> None:
        self.events: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.event_bytes: dict[str, list[bytes]] = defaultdict(list)
        self.exceptions: dict[str, dict[str, Any]] = {}
        self.exception_revisions: dict[str, list[int]] = defaultdict(list)
        self.exception_bytes: dict[str, list[bytes]] = defaultdict(list)
        self.rejected: list[tuple[str, bytes]] = []

    def hear(self, topic: str, key: bytes, value: bytes, headers: dict[str, bytes]) -> None:
        if topic == REJECTED:
            self.rejected.append((headers["rejected_code"].decode(), value))
            return
        body = json.loads(value)
        if topic == EVENTS:
            assert key.decode() == body["order"]
            self.events[body["order"]].append(body)
            self.event_bytes[body["order"]].append(value)
            return
        self.exceptions[body["exception"]] = body
        self.exception_revisions[body["exception"]].append(body["revision"])
        self.exception_bytes[body["exception"]].append(value)

    def last(self, order: str) -> dict[str, Any] | None:
        events = self.events.get(order)
        return events[-1] if events else None

    @property
    def open_exceptions(self) -> list[dict[str, Any]]:
        return [body for body in self.exceptions.values() if body["open"]]


class Shop(ABC):
    """What every shop does, whatever carries its messages."""

    def __init__(self) -> None:
        self.told = Told()

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def send(self, kind: str, key: str, body: dict[str, Any]) -> None: ...

    @abstractmethod
    async def listen(self) -> None:
        """Hear what has come since, into `told`."""

    @abstractmethod
    async def hear_all_again(self) -> Told:
        """Read everything from the beginning, as a new consumer would."""


class KafkaShop(Shop):
    """An ordinary client of the cluster, with the partitioner that it comes with."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self._prefix = prefix

    async def open(self) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, enable_idempotence=True, request_timeout_ms=30_000
        )
        await self._producer.start()
        self._consumer = await self._consumer_of_all()

    async def close(self) -> None:
        await self._producer.stop()
        await self._consumer.stop()

    async def send(self, kind: str, key: str, body: dict[str, Any]) -> None:
        await self._producer.send_and_wait(
            f"{self._prefix}orders",
            json.dumps(body).encode(),
            key=key.encode(),
            headers=[("ce_type", kind.encode())],
        )

    async def listen(self) -> None:
        await self._hear(self._consumer, self.told, timeout_ms=50)

    async def hear_all_again(self) -> Told:
        told = Told()
        consumer = await self._consumer_of_all()
        try:
            ends = await consumer.end_offsets(consumer.assignment())
            for partition, end in ends.items():
                while await consumer.position(partition) < end:
                    await self._hear(consumer, told, timeout_ms=500)
        finally:
            await consumer.stop()
        return told

    async def _consumer_of_all(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        consumer.assign(
            [
                TopicPartition(self._prefix + topic, partition)
                for topic, count in PARTITIONS.items()
                for partition in range(count)
            ]
        )
        return consumer

    async def _hear(self, consumer: AIOKafkaConsumer, told: Told, *, timeout_ms: int) -> None:
        found = await consumer.getmany(timeout_ms=timeout_ms)
        for partition, records in found.items():
            for record in records:
                topic = partition.topic.removeprefix(self._prefix)
                told.hear(topic, record.key, record.value, dict(record.headers))


class SqlShop(Shop):
    """A shop on the same machine, which writes and reads the tables of the log."""

    def __init__(self, database: str) -> None:
        super().__init__()
        self._engine = make_engine(database)
        self._stream = SqlStream(self._engine)
        self._writer = self._stream.writer("shop")
        self._next: dict[Lane, int] = {}

    async def open(self) -> None:
        await self._stream.start()
        await self._writer.start()

    async def close(self) -> None:
        await self._writer.close()
        await self._stream.close()
        await self._engine.dispose()

    async def send(self, kind: str, key: str, body: dict[str, Any]) -> None:
        lane = Lane("orders", partition_of(key.encode(), ORDERS_PARTITIONS))
        message = Outgoing(
            lane=lane,
            key=key.encode(),
            value=json.dumps(body).encode(),
            headers=(("ce_type", kind.encode()),),
        )
        await self._append(message)

    async def _append(self, message: Outgoing) -> None:
        """Write, and again where a busy database let nobody in: then nothing was changed."""
        for attempt in range(1, APPENDS_MAX + 1):
            try:
                await self._writer.append([message])
            except StreamUnavailable:
                if attempt == APPENDS_MAX:
                    raise
                await asyncio.sleep(1)
            else:
                return

    async def listen(self) -> None:
        await self._hear(self.told, self._next)

    async def hear_all_again(self) -> Told:
        told = Told()
        await self._hear(told, {})
        return told

    async def _hear(self, told: Told, positions: dict[Lane, int]) -> None:
        for topic, count in PARTITIONS.items():
            for partition in range(count):
                lane = Lane(topic, partition)
                _, end = await self._stream.bounds(lane)
                while positions.get(lane, 0) < end:
                    await self._hear_lane(told, positions, lane)
        await asyncio.sleep(0)

    async def _hear_lane(self, told: Told, positions: dict[Lane, int], lane: Lane) -> None:
        batch = await self._stream.read(lane, from_offset=positions.get(lane, 0), records_max=1_000)
        for record in batch.records:
            told.hear(lane.topic, record.key, record.value or b"", dict(record.headers))
        positions[lane] = batch.next_offset
