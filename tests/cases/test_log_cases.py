"""Cases CH-K01 to K05: the log between the processes, on every stream there is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

import pytest

from reconciler.intake import Intake, IntakeTerms
from reconciler.kernel.clock import SystemClock
from reconciler.observability.health import Health
from reconciler.observability.metrics import Meters
from reconciler.relay import AnotherRelay, Relay
from reconciler.services.apply_commands import apply_commands
from reconciler.services.apply_facts import apply_facts
from reconciler.storage.positions import PositionMovedError
from reconciler.stream.promise import (
    Batch,
    Fenced,
    Group,
    Lane,
    LaneLost,
    LaneReader,
    Outgoing,
    Stream,
    StreamUnavailable,
    read_all,
)
from reconciler.stream.topics import ORDERS, PAYMENT_EVENTS, topic_specs, transfers_topic
from schemas.caip import Family
from schemas.codec import decode_as
from schemas.codes import Attention, Phase
from schemas.commands import PlaceOrder
from schemas.events import PaymentEvent
from schemas.values import Message
from tests.parts.memory_stream import InMemory
from tests.parts.streams import KafkaLog, Log, SqlLog
from tests.parts.world import ETHEREUM, World, address

DUE = 25_000_000
FACTS = Lane(transfers_topic(ETHEREUM), 0)
PATIENCE_S = 60.0
STREAMS = ["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.kafka)]


@pytest.fixture(params=STREAMS)
async def log(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[Log]:
    made: Log = InMemory(marker_holes=True)
    if request.param == "sqlite":
        made = SqlLog(f"sqlite+aiosqlite:///{tmp_path}/log.db")
    elif request.param == "kafka":
        broker = request.getfixturevalue("kafka_broker")
        made = KafkaLog(broker.bootstrap, request.getfixturevalue("kafka_prefix"))
    await made.prepare()
    yield made
    await made.close()


class Service:
    """Processes over one log and one database; a process is what a test makes of it."""

    def __init__(self, world: World, log: Log, stream: Stream) -> None:
        self.world, self.log, self.stream = world, log, stream
        self.health = Health()
        self.specs = topic_specs({ETHEREUM: 1}, [Family("eip155")], orders_partitions=1)

    def intake(self, stream: Stream | None = None) -> Intake:
        return Intake(
            IntakeTerms(clock_slack=timedelta()),
            store=self.world.store,
            context=self.world.context,
            stream=stream or self.stream,
            clock=SystemClock(),
            meters=Meters(),
            health=self.health,
        )

    def relay(self) -> Relay:
        return Relay(
            0,
            store=self.world.store,
            stream=self.stream,
            specs={spec.name: spec for spec in self.specs},
            clock=SystemClock(),
            meters=Meters(),
        )

    async def put(self, lane: Lane, *messages: Message) -> None:
        writer = self.stream.writer("test")
        await writer.start()
        records = [self.world.record(lane, getattr(m, "to", "k").lower(), m) for m in messages]
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
        await self.put(Lane(ORDERS, 0), *orders)

    async def placed(self) -> list[str]:
        return sorted(e.order for e in await self.world.events())

    async def published(self) -> list[tuple[str, int]]:
        found = [
            decode_as(PaymentEvent, record.value or b"")
            for partition in range(6)
            for record in await read_all(self.stream, Lane(PAYMENT_EVENTS, partition))
        ]
        return sorted((event.order, event.sequence) for event in found)


@pytest.fixture
async def service(log: Log, tmp_path) -> AsyncIterator[Service]:
    world = await World.open(f"sqlite+aiosqlite:///{tmp_path}/world.db")
    world.context.lanes = {ETHEREUM: 1}
    stream = await log.open()
    made = Service(world, log, stream)
    await stream.create_topics(made.specs)
    yield made
    await world.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(*jobs: Intake | Relay) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(job.run()) for job in jobs]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def has(service: Service, count: int) -> bool:
    return len(await service.placed()) >= count


# CH-K01


async def test_k01_lane_that_moves_while_a_batch_is_under_way_loses_and_doubles_nothing(
    service: Service,
) -> None:
    """One intake dies in the middle, another goes on from the position in the database."""
    async with running(service.intake()):
        await service.place(1, 2, 3)
        await until(lambda: has(service, 1))
    await service.place(4, 5)
    second = service.intake(await service.log.open())
    async with running(second):
        await until(lambda: has(service, 5))
    assert await service.placed() == [f"o-{n}" for n in range(1, 6)]


async def test_k01_neighbour_batch_that_was_read_before_the_lane_moved_is_refused_whole(
    world: World,
) -> None:
    """The reader of before the rebalance wakes up: its position is no longer the database's."""
    orders = [
        PlaceOrder(
            idempotency_key=f"k-{n}",
            reference=f"o-{n}",
            route="own",
            amount=str(DUE),
            address=address(n),
        )
        for n in range(3)
    ]
    lane = Lane(ORDERS, 0)
    records = [world.record(lane, "k", order) for order in orders]
    batch = Batch(lane=lane, records=records, next_offset=3)
    await apply_commands(world.store, world.context, batch, held=None)
    for stale in (batch, Batch(lane=lane, records=records[:2], next_offset=2)):
        with pytest.raises(PositionMovedError):
            await apply_commands(world.store, world.context, stale, held=None)
    assert sorted(e.order for e in await world.events()) == ["o-0", "o-1", "o-2"]


# CH-K02


def failing(stream: Stream, errors: list[Exception]) -> Stream:
    """A stream whose lanes fail so many times when they are read."""
    make = stream.group

    def group(name: str, topics: Sequence[str]) -> Group:
        made = make(name, topics)
        lanes = made.lanes

        async def spoilt() -> Mapping[Lane, LaneReader]:
            found = await lanes()
            for reader in found.values():
                if not hasattr(reader, "spoilt"):
                    reader.spoilt, read = True, reader.read

                    async def fail_first(*, records_max: int, wait_s: float, read=read) -> Batch:
                        if errors:
                            raise errors.pop()
                        return await read(records_max=records_max, wait_s=wait_s)

                    reader.read = fail_first
            return found

        made.lanes = spoilt
        return made

    stream.group = group
    return stream


@pytest.mark.parametrize("log", ["memory", "sqlite"], indirect=True)
@pytest.mark.parametrize("error", [StreamUnavailable("25"), LaneLost("22"), ConnectionError("27")])
async def test_k02_an_error_of_the_group_is_survived_without_a_restart(
    service: Service, error: Exception
) -> None:
    errors = [error, error]
    await service.place(1, 2, 3)
    async with running(service.intake(failing(service.stream, errors))) as (task,):
        await until(lambda: has(service, 3))
        assert not task.done()
    assert errors == []
    assert await service.placed() == ["o-1", "o-2", "o-3"]


# CH-K03


async def test_k03_position_that_retention_took_stands_still_and_says_so(
    service: Service,
) -> None:
    """What is left after the gap is not applied as if nothing had been there."""
    async with running(service.intake()):
        await service.place(1)
        await until(lambda: has(service, 1))
    await service.place(2, 3, 4)
    last = (await read_all(service.stream, Lane(ORDERS, 0)))[-1].offset
    await service.log.forget_before(Lane(ORDERS, 0), last)
    assert (await service.stream.bounds(Lane(ORDERS, 0)))[0] == last

    async def stands_still() -> bool:
        found = await service.health.verdicts()
        return any("stands still" in verdict.why and not verdict.ok for verdict in found.values())

    async with running(service.intake(await service.log.open())):
        await until(stands_still)
    assert await service.placed() == ["o-1"]


async def test_k03_neighbour_retention_up_to_the_position_itself_loses_nothing(
    service: Service,
) -> None:
    async with running(service.intake()):
        await service.place(1)
        await until(lambda: has(service, 1))
    _, end = await service.stream.bounds(Lane(ORDERS, 0))
    await service.place(2)
    await service.log.forget_before(Lane(ORDERS, 0), end)
    async with running(service.intake(await service.log.open())):
        await until(lambda: has(service, 2))
    assert await service.placed() == ["o-1", "o-2"]


# CH-K04


async def test_k04_writer_that_slept_is_fenced_and_what_it_had_is_void(service: Service) -> None:
    lane = Lane(ORDERS, 0)
    old = service.stream.writer("watch/eip155:1")
    await old.start()
    await old.append([Outgoing(lane=lane, key=b"k", value=b"1", headers=())])
    young = (await service.log.open()).writer("watch/eip155:1")
    await young.start()
    await young.append([Outgoing(lane=lane, key=b"k", value=b"2", headers=())])
    with pytest.raises(Fenced):
        await old.append([Outgoing(lane=lane, key=b"k", value=b"old", headers=())])
    values = [record.value for record in await read_all(service.stream, lane)]
    assert values == [b"1", b"2"]
    await old.close()
    await young.close()


async def test_k04_older_relay_ends_and_every_event_is_published_once(service: Service) -> None:
    async with running(service.intake(), service.relay()) as (_, old):
        await service.place(1)
        await until(lambda: _published(service, 1))
        young = service.relay()
        async with running(young):
            await until(lambda: _took(young))
            await service.place(2)
            await until(lambda: _published(service, 2))
        await service.place(3)
        await until(lambda: _ended(old))
        assert isinstance(old.exception(), AnotherRelay)
        async with running(service.relay()):
            await until(lambda: _published(service, 3))
    assert await service.published() == [("o-1", 1), ("o-2", 1), ("o-3", 1)]


async def _published(service: Service, count: int) -> bool:
    return len(await service.published()) >= count


async def _took(relay: Relay) -> bool:
    """Tell whether the shard is this relay's: before that, the older one may go on."""
    return relay._epoch > 0


async def _ended(task: asyncio.Task[None]) -> bool:
    return task.done()


# CH-K05


@pytest.mark.parametrize("heights", [(1, 2, 3, 5, 4, 5), (1, 2, 2, 3, 4, 5), (1, 2, 3, 5)])
async def test_k05_sequence_with_a_hole_holds_and_with_a_repeat_does_not(
    world: World, heights: tuple[int, ...]
) -> None:
    """1, 2, 3, 5 and 4 later or never; 2 twice. The payment stands in block 4."""
    to = await world.place()
    chain = world.ethereum
    marks = {number: chain.watermark() for number in range(1, 6)}
    world.now = marks[5].time
    await world.inbox()
    paid = chain.seen(to, DUE, height=marks[4].height)
    for number in heights:
        facts = [paid, marks[number]] if number == 4 else [marks[number]]
        await world.facts(*facts)
    has_hole = 4 not in heights
    assert (await world.last()).phase is (Phase.AWAITING_PAYMENT if has_hole else Phase.DETECTED)
    assert ("coverage_gap" in await world.open_exceptions()) is has_hole
    if has_hole:
        world.now += timedelta(minutes=90)
        await world.inbox()
        await world.facts(chain.watermark(chain.height + 450))
        assert (await world.last()).attention == (Attention.HELD,)


async def test_k05_neighbour_the_same_offsets_once_more_are_refused_by_position(
    world: World,
) -> None:
    to = await world.place()
    seen = world.ethereum.seen(to, DUE)
    records = [world.record(FACTS, to, seen), world.record(FACTS, "k", world.ethereum.watermark())]
    held = await world.position(FACTS)
    batch = Batch(lane=FACTS, records=records, next_offset=records[-1].offset + 1)
    await apply_facts(world.store, world.context, batch, held=held)
    with pytest.raises(PositionMovedError):
        await apply_facts(world.store, world.context, batch, held=held)
    assert await world.kinds("o-1") == ["awaiting", "detected"]
