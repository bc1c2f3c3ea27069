"""A running service on real parts for the benchmarks: Kafka, PostgreSQL, intake and relay."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from reconciler.intake import Intake, IntakeTerms
from reconciler.kernel.clock import SystemClock
from reconciler.observability.health import Health
from reconciler.observability.logs import set_up_logs
from reconciler.observability.metrics import Meters
from reconciler.relay import Relay
from reconciler.storage.unit_of_work import Work
from reconciler.stream.kafka import KafkaStream
from reconciler.stream.promise import Lane, Outgoing, Stream, Writer
from reconciler.stream.topics import topic_specs, transfers_topic
from schemas.caip import Family
from schemas.commands import PlaceOrder
from schemas.values import Message
from tests.parts.kafka.cluster import KafkaCluster
from tests.parts.postgres import PostgresServer
from tests.parts.world import ETHEREUM, POLYGON, World, address

PLACE_BATCH = 250


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    server = PostgresServer()
    server.start()
    try:
        yield server.new_database()
    finally:
        server.stop()


@contextlib.contextmanager
def kafka() -> Iterator[str]:
    cluster = KafkaCluster(brokers=1)
    cluster.start()
    try:
        yield cluster.bootstrap
    finally:
        cluster.stop()


class BenchService:
    """One database, one log, one intake, one relay, and a hand that plays the watcher."""

    def __init__(self, world: World, stream: Stream) -> None:
        self.world = world
        self.stream = stream
        self.specs = topic_specs({ETHEREUM: 1, POLYGON: 1}, [Family("eip155")], orders_partitions=1)
        self.lane = Lane(transfers_topic(ETHEREUM), 0)
        self.writer: Writer = stream.writer("watch/eip155:1")

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, url: str, bootstrap: str, **policy: object) -> AsyncIterator[BenchService]:
        set_up_logs("warning")
        world = await World.open(url, **policy)
        world.sweeps = False
        world.now = datetime.now(UTC)
        stream = KafkaStream(bootstrap)
        await stream.start()
        service = cls(world, stream)
        await stream.create_topics(service.specs)
        await service.writer.start()
        try:
            yield service
        finally:
            await service.writer.close()
            await stream.close()
            await world.close()

    async def place(self, first: int, count: int) -> None:
        """Put orders into the database, covered, without the log."""
        for start in range(first, first + count, PLACE_BATCH):
            numbers = range(start, min(first + count, start + PLACE_BATCH))
            await self.world.commands(*(_order(number) for number in numbers))
        await self.world.store.run(_cover)

    async def begin_at_the_log(self) -> None:
        """Forget positions of batches that were applied without the log."""
        await self.world.store.run(
            lambda work: work.connection.execute(text("DELETE FROM positions"))
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run intake and relay in this loop."""
        intake = Intake(
            IntakeTerms(clock_slack=timedelta(seconds=2)),
            store=self.world.store,
            context=self.world.context,
            stream=self.stream,
            clock=SystemClock(),
            meters=Meters(),
            health=Health(),
        )
        relay = Relay(
            0,
            store=self.world.store,
            stream=self.stream,
            specs={spec.name: spec for spec in self.specs},
            clock=SystemClock(),
            meters=Meters(),
        )
        tasks = [asyncio.create_task(intake.run()), asyncio.create_task(relay.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def drained(self) -> None:
        """Wait until everything from before has left the outbox."""
        while await self.world.store.read(_waiting):
            await asyncio.sleep(0.05)

    async def publish(self, *facts: Message) -> None:
        """Append facts as the chain's watcher would, in one transaction."""
        await self.writer.append([self._outgoing(fact) for fact in facts])

    def _outgoing(self, fact: Message) -> Outgoing:
        record = self.world.record(self.lane, getattr(fact, "to", "block").lower(), fact)
        return Outgoing(lane=self.lane, key=record.key, value=record.value, headers=record.headers)


async def _waiting(work: Work) -> int:
    found = await work.connection.execute(text("SELECT count(*) FROM outbox WHERE NOT sent"))
    return int(found.scalar_one())


async def _cover(work: Work) -> None:
    """Say of every address that it was scanned back."""
    await work.connection.execute(text("UPDATE addresses SET covered = 'eip155:1'"))


def _order(number: int) -> PlaceOrder:
    return PlaceOrder(
        idempotency_key=f"k-{number}",
        reference=f"o-{number}",
        route="own",
        amount="25000000",
        address=address(number),
    )
