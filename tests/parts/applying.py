"""One intake and one relay between a log in memory and a real database that a test may break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.intake import Intake, IntakeTerms
from reconciler.kernel.clock import SystemClock
from reconciler.observability.health import Health
from reconciler.observability.metrics import Meters
from reconciler.relay import Relay
from reconciler.storage import tables
from reconciler.stream.promise import Lane, Outgoing, Stream, read_all
from reconciler.stream.topics import ORDERS, PAYMENT_EVENTS, topic_specs, transfers_topic
from schemas.caip import Family
from schemas.codec import decode_as
from schemas.commands import PlaceOrder
from schemas.events import PaymentEvent
from schemas.values import Message
from tests.parts.memory_stream import MemoryLog, MemoryStream
from tests.parts.world import ETHEREUM, World, address

DUE = 25_000_000
FACTS = Lane(transfers_topic(ETHEREUM), 0)
COMMANDS = Lane(ORDERS, 0)
SPECS = topic_specs({ETHEREUM: 1}, [Family("eip155")], orders_partitions=1)
PATIENCE_S = 60.0
#: What an order that is paid in full tells, in this order.
LIFE = ["awaiting", "detected", "confirmed"]


class Applying:
    """Orders are placed and paid in the log; what the service says of them is read from the log."""

    def __init__(self, engine: AsyncEngine, stream: Stream | None = None) -> None:
        self.world = World(engine)
        self.world.context.lanes = {ETHEREUM: 1}
        self.health = Health()
        self.stream: Stream = stream or MemoryStream(MemoryLog(marker_holes=True))

    async def create_tables(self) -> None:
        async with self.world.engine.begin() as connection:
            await connection.run_sync(tables.metadata.create_all)

    def intake(self) -> Intake:
        return Intake(
            IntakeTerms(clock_slack=timedelta()),
            store=self.world.store,
            context=self.world.context,
            stream=self.stream,
            clock=SystemClock(),
            meters=Meters(),
            health=self.health,
        )

    def relay(self) -> Relay:
        return Relay(
            0,
            store=self.world.store,
            stream=self.stream,
            specs={spec.name: spec for spec in SPECS},
            clock=SystemClock(),
            meters=Meters(),
        )

    async def put(self, lane: Lane, messages: Sequence[tuple[str, Message]]) -> None:
        """Append messages with their keys, as one."""
        writer = self.stream.writer("test")
        await writer.start()
        records = [self.world.record(lane, key, message) for key, message in messages]
        await writer.append(
            [Outgoing(lane=r.lane, key=r.key, value=r.value, headers=r.headers) for r in records]
        )
        await writer.close()

    async def place(self, *numbers: int) -> None:
        orders = [
            PlaceOrder(
                idempotency_key=f"k-{n}",
                reference=f"o-{n}",
                route="own",
                amount=str(DUE),
                address=address(n),
            )
            for n in numbers
        ]
        await self.put(COMMANDS, [(order.reference, order) for order in orders])

    async def pay(self, *numbers: int) -> None:
        """Pay in one block, and bury it three blocks deep."""
        chain = self.world.ethereum
        facts: list[tuple[str, Message]] = []
        for number in numbers:
            to = address(number)
            facts += [(to, chain.covered(to)), (to, chain.seen(to, DUE))]
        facts += [("block", chain.watermark()) for _ in range(3)]
        await self.put(FACTS, facts)

    async def told(self) -> dict[str, list[str]]:
        """What was published of each order, in the order of the log."""
        found: dict[str, list[str]] = {}
        for partition in range(6):
            for record in await read_all(self.stream, Lane(PAYMENT_EVENTS, partition)):
                event = decode_as(PaymentEvent, record.value or b"")
                kinds = found.setdefault(event.order, [])
                kinds.append(event.kind.value)
                assert event.sequence == len(kinds), (event.order, event.sequence, kinds)
        return found

    async def tells(self, *numbers: int) -> bool:
        """Tell whether each of these orders is confirmed."""
        told = await self.told()
        return all(told.get(f"o-{n}", [""])[-1] == "confirmed" for n in numbers)

    async def is_placed(self, *numbers: int) -> bool:
        told = await self.told()
        return all(f"o-{n}" in told for n in numbers)


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def at_work(*jobs: Intake | Relay) -> AsyncIterator[None]:
    """Run processes of the service; none of them may end by itself."""
    tasks = [asyncio.create_task(job.run()) for job in jobs]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
