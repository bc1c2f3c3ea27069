"""A running service on real parts for the benchmarks: Kafka, PostgreSQL, intake and relay."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime

from sqlalchemy import text

from reconciler.kernel.garbage import collect_seldom
from reconciler.observability.logs import set_up_logs
from reconciler.storage.unit_of_work import Work
from reconciler.stream.kafka import KafkaStream
from reconciler.stream.promise import Outgoing, Stream, Writer
from schemas.commands import PlaceOrder
from schemas.values import Message
from tests.bench.side import beside, lane_of, specs_of
from tests.parts.kafka.cluster import JVM_THAT_LASTS, KafkaCluster
from tests.parts.postgres import PostgresServer
from tests.parts.world import World, address

PLACE_BATCH = 250


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    server = PostgresServer(fsync=True)
    server.start()
    try:
        yield server.new_database()
    finally:
        server.stop()


@contextlib.contextmanager
def kafka() -> Iterator[str]:
    cluster = KafkaCluster(brokers=1, jvm=JVM_THAT_LASTS)
    cluster.start()
    try:
        yield cluster.bootstrap
    finally:
        cluster.stop()


class BenchService:
    """One database, one log, one intake, one relay, and a hand that plays the watcher."""

    def __init__(self, world: World, stream: Stream, *, url: str, bootstrap: str) -> None:
        self.world = world
        self.stream = stream
        self._url = url
        self._bootstrap = bootstrap
        self.lanes = len(world.ethereum.lanes)
        self.writer: Writer = stream.writer("watch/eip155:1")

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, url: str, bootstrap: str, *, lanes: int = 1, **policy: object
    ) -> AsyncIterator[BenchService]:
        set_up_logs("warning")
        collect_seldom()
        world = await World.open(url, lanes=lanes, **policy)
        world.sweeps = False
        world.now = datetime.now(UTC)
        stream = KafkaStream(bootstrap)
        await stream.start()
        service = cls(world, stream, url=url, bootstrap=bootstrap)
        await stream.create_topics(specs_of(lanes))
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
    async def running(self, intakes: int = 1) -> AsyncIterator[None]:
        """Run intakes and a relay, each a process of its own."""
        roles = ["relay", *["intake"] * intakes]
        async with beside(*roles, url=self._url, bootstrap=self._bootstrap, lanes=self.lanes):
            await self._at_work()
            yield

    async def _at_work(self) -> None:
        """Wait until somebody applies every lane: a watermark on each is what shows it."""
        await self.publish(self.world.ethereum.watermark())
        while await self.world.store.read(_applied) < self.lanes:
            await asyncio.sleep(0.05)

    async def drained(self) -> None:
        """Wait until everything from before has left the outbox."""
        while await self.world.store.read(_waiting):
            await asyncio.sleep(0.05)

    async def publish(self, *facts: Message) -> None:
        """Append facts as the chain's watcher would, in one transaction."""
        await self.writer.append([sent for fact in facts for sent in self._outgoing(fact)])

    def _outgoing(self, fact: Message) -> Sequence[Outgoing]:
        """A transfer goes to its address's lane, a watermark to every lane."""
        to = getattr(fact, "to", None)
        numbers = range(self.lanes) if to is None else [lane_of(to, self.lanes)]
        found = []
        for number in numbers:
            lane = self.world.ethereum.lanes[number]
            record = self.world.record(lane, (to or "block").lower(), fact)
            found.append(
                Outgoing(lane=lane, key=record.key, value=record.value, headers=record.headers)
            )
        return found


async def _applied(work: Work) -> int:
    found = await work.connection.execute(
        text("SELECT count(*) FROM positions WHERE lane LIKE 'transfers.eip155-1/%'")
    )
    return int(found.scalar_one())


async def _waiting(work: Work) -> int:
    found = await work.connection.execute(text("SELECT count(*) FROM unsent"))
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
