"""Intake and relay between a log and a database: every effect once, every message once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from chains.utxo.networks import BITCOIN
from reconciler.intake import Intake, IntakeTerms
from reconciler.kernel.clock import SystemClock
from reconciler.observability import metrics
from reconciler.observability.health import Health
from reconciler.observability.metrics import Meters
from reconciler.relay import AnotherRelay, Relay
from reconciler.services.apply_commands import CommandsApplied, apply_commands
from reconciler.storage import outbox, tables
from reconciler.storage.rows import OutboxRow
from reconciler.storage.unit_of_work import Work
from reconciler.stream.promise import (
    Group,
    Lane,
    LaneReader,
    OutcomeUnknown,
    Outgoing,
    StreamUnavailable,
    read_all,
)
from reconciler.stream.topics import (
    ORDERS,
    PAYMENT_EVENTS,
    RELAY_PROGRESS,
    topic_specs,
    transfers_topic,
    watchlist_topic,
)
from schemas.caip import Family, family_of
from schemas.codec import decode_as
from schemas.commands import PlaceOrder
from schemas.events import PaymentEvent
from schemas.values import Message
from tests.parts import derived
from tests.parts.memory_stream import MemoryGroup, MemoryLog, MemoryStream, MemoryWriter
from tests.parts.world import ETHEREUM, World, address
from tests.parts.worlds import open_world


class Service:
    """Intake and relay over one log and one database."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = MemoryLog(marker_holes=True)
        lanes = world.context.lanes
        families = {family_of(chain) for chain in lanes}
        self.specs = topic_specs(lanes, families, orders_partitions=1)
        self.log.create(self.specs)
        self.meters = Meters()

    def stream(self) -> MemoryStream:
        return MemoryStream(self.log)

    def intake(self) -> Intake:
        return Intake(
            IntakeTerms(clock_slack=timedelta()),
            store=self.world.store,
            context=self.world.context,
            stream=self.stream(),
            clock=SystemClock(),
            meters=self.meters,
            health=Health(),
        )

    def relay(self) -> Relay:
        return Relay(
            0,
            store=self.world.store,
            stream=self.stream(),
            specs={spec.name: spec for spec in self.specs},
            clock=SystemClock(),
            meters=self.meters,
        )

    async def put(self, topic: str, key: str, *messages: Message) -> None:
        writer = self.stream().writer("test")
        await writer.start()
        records = [self.world.record(Lane(topic, 0), key, m) for m in messages]
        await writer.append(
            [Outgoing(lane=r.lane, key=r.key, value=r.value, headers=r.headers) for r in records]
        )

    async def events(self) -> list[PaymentEvent]:
        found = [
            decode_as(PaymentEvent, record.value or b"")
            for partition in range(6)
            for record in await read_all(self.stream(), Lane(PAYMENT_EVENTS, partition))
        ]
        return sorted(found, key=lambda e: (e.order, e.sequence))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(*jobs: Intake | Relay):
    tasks = [asyncio.create_task(job.run()) for job in jobs]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def service(sqlite_url: str):
    world = await World.open(sqlite_url)
    yield Service(world)
    await world.close()


def place(world: World, reference: str) -> PlaceOrder:
    number = int(reference.rpartition("-")[2])
    return PlaceOrder(
        idempotency_key=f"place-{reference}",
        reference=reference,
        route="own",
        amount="25000000",
        address=address(number),
    )


async def pay(service: Service, reference: str) -> None:
    chain = service.world.ethereum
    number = int(reference.rpartition("-")[2])
    seen = chain.seen(address(number), 25_000_000)
    facts: list[Message] = [chain.covered(address(number)), seen]
    marks = [chain.watermark() for _ in range(3)]
    await service.put(transfers_topic(ETHEREUM), address(number), *facts, *marks)


async def test_an_order_in_and_its_events_out(service: Service) -> None:
    async with running(service.intake(), service.relay()):
        await service.put(ORDERS, "o-1", place(service.world, "o-1"))
        await until(lambda: _count(service, 1))
        await pay(service, "o-1")
        await until(lambda: _count(service, 3))
    events = await service.events()
    assert [e.kind.value for e in events] == ["awaiting", "detected", "confirmed"]
    watchlist = await read_all(service.stream(), Lane(watchlist_topic(Family("eip155")), 0))
    assert [r.key.decode() for r in watchlist] == [address(1)]


async def _count(service: Service, count: int) -> bool:
    return len(await service.events()) >= count


async def test_metrics_say_what_was_matched_refused_and_waits(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.relay.relay.MEASURE_EVERY_S", 0.01)
    world, value = service.world, service.meters.value
    bad = msgspec.structs.replace(place(world, "o-2"), amount="-1")
    began = datetime.now(UTC)
    rule = {"chain": ETHEREUM, "rule": "address"}
    async with running(service.intake()):
        await service.put(ORDERS, "o-1", place(world, "o-1"), bad)
        await until(lambda: _is(lambda: value(metrics.INTAKE_REJECTED, code="amount_negative")))
        await pay(service, "o-1")
        await until(lambda: _is(lambda: value(metrics.TRANSFERS_MATCHED, **rule) == 1))
    measuring = asyncio.create_task(service.relay()._measure())
    await until(lambda: _is(lambda: value(metrics.OUTBOX_PENDING, shard="0") >= 4))
    oldest = value(metrics.OUTBOX_OLDEST_TIMESTAMP, shard="0")
    assert began.timestamp() <= oldest <= datetime.now(UTC).timestamp()
    measuring.cancel()
    async with running(service.intake(), service.relay()):
        await until(lambda: _is(lambda: value(metrics.RELAY_PUBLISHED, topic=PAYMENT_EVENTS) == 3))
        await until(lambda: _is(lambda: value(metrics.OUTBOX_PENDING, shard="0") == 0))
        assert value(metrics.OUTBOX_OLDEST_TIMESTAMP, shard="0") == 0
    assert value(metrics.TRANSFERS_MATCHED, **rule) == 1
    assert value(metrics.OPEN_ORDERS, phase="awaiting_payment") == 0


async def test_a_log_that_fails_while_lanes_are_shared_is_asked_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.intake.intake.BACK_OFF_S", (0.01,))
    stream, failures = service.stream(), [StreamUnavailable("the coordinator is away")] * 2
    make = stream.group

    def group(name: str, topics: Sequence[str]) -> Group:
        made = make(name, topics)
        lanes = made.lanes

        async def fail_first() -> Mapping[Lane, LaneReader]:
            if failures:
                raise failures.pop()
            return await lanes()

        made.lanes = fail_first  # type: ignore[method-assign]
        return made

    stream.group = group  # type: ignore[method-assign]
    monkeypatch.setattr(service, "stream", lambda: stream)
    async with running(service.intake(), service.relay()):
        await service.put(ORDERS, "o-1", place(service.world, "o-1"))
        await until(lambda: _count(service, 1))
    assert not failures


async def _is(condition: Callable[[], object]) -> bool:
    return bool(condition())


async def test_an_append_with_unknown_outcome_is_told_by_its_number(service: Service) -> None:
    for lands in (True, False):
        reference = f"o-{1 if lands else 2}"
        service.log.fail_next_append(OutcomeUnknown("cut"), writer="relay/0", lands=lands)
        before = len(await service.events())
        async with running(service.intake(), service.relay()):
            await service.put(ORDERS, reference, place(service.world, reference))
            await until(lambda wanted=before + 1: _count(service, wanted))
    events = await service.events()
    assert [(e.order, e.sequence) for e in events] == [("o-1", 1), ("o-2", 1)]


async def test_an_older_relay_that_wakes_up_is_fenced_and_sends_nothing(service: Service) -> None:
    old = service.relay()
    async with running(service.intake(), old) as (_, old_task):
        await service.put(ORDERS, "o-1", place(service.world, "o-1"))
        await until(lambda: _count(service, 1))
        young = service.relay()
        async with running(young):
            await until(lambda: _took(young))
            await service.put(ORDERS, "o-2", place(service.world, "o-2"))
            await until(lambda: _count(service, 2))
        await service.put(ORDERS, "o-3", place(service.world, "o-3"))
        await until(lambda: _ended(old_task))
        assert isinstance(old_task.exception(), AnotherRelay)
        assert len(await service.events()) == 2
        async with running(service.relay()):
            await until(lambda: _count(service, 3))
    assert [e.order for e in await service.events()] == ["o-1", "o-2", "o-3"]


async def test_whose_the_shard_is_says_the_database(service: Service) -> None:
    """A relay that slept through a time-out takes the name of its successor, and must give it back."""
    async with running(service.intake(), service.relay()) as (_, task):
        await service.put(ORDERS, "o-1", place(service.world, "o-1"))
        await until(lambda: _count(service, 1))
        await service.stream().writer("relay/0").start()
        await service.put(ORDERS, "o-2", place(service.world, "o-2"))
        await until(lambda: _count(service, 2))
        await service.world.store.run(lambda work: outbox.take_shard(work, 0))
        service.log.fail_next_append(OutcomeUnknown("nobody was awake"), writer="relay/0")
        epoch = service.log.epochs["relay/0"]
        await service.put(ORDERS, "o-3", place(service.world, "o-3"))
        await until(lambda: _ended(task))
        assert isinstance(task.exception(), AnotherRelay)
        assert service.log.epochs["relay/0"] == epoch
    assert [e.order for e in await service.events()] == ["o-1", "o-2"]


async def _took(relay: Relay) -> bool:
    """Tell whether the shard is this relay's: before that, the older one may go on."""
    return relay._epoch > 0


async def _ended(task: asyncio.Task[None]) -> bool:
    return task.done()


async def test_two_intakes_share_the_lanes_and_apply_everything_once(service: Service) -> None:
    async with running(service.intake(), service.intake(), service.relay()):
        for number in range(1, 21):
            reference = f"o-{number}"
            await service.put(ORDERS, reference, place(service.world, reference))
        await until(lambda: _count(service, 20))
        for number in range(1, 21):
            await pay(service, f"o-{number}")
        await until(lambda: _count(service, 60))
    events = await service.events()
    assert len({(e.order, e.sequence) for e in events}) == len(events)
    progress = await read_all(service.stream(), Lane(RELAY_PROGRESS, 0))
    numbers = [int(r.value or b"0") for r in progress]
    assert numbers == sorted(set(numbers))


async def test_who_is_cancelled_ends_although_the_log_cannot_be_left(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a goodbye takes the cancellation's place; nobody may begin anew for it."""

    async def nobody_answers(_: object) -> None:
        raise StreamUnavailable("nobody answers to a goodbye")

    async with running(service.intake(), service.relay()) as tasks:
        await service.put(ORDERS, "o-1", place(service.world, "o-1"))
        await until(lambda: _count(service, 1))
        monkeypatch.setattr(MemoryGroup, "close", nobody_answers)
        monkeypatch.setattr(MemoryWriter, "close", nobody_answers)
        for task in tasks:
            task.cancel()
        _, alive = await asyncio.wait(tasks, timeout=10)
        assert not alive
        assert all(task.cancelled() for task in tasks)


async def test_what_a_dead_successor_had_numbered_leaves_without_waiting_for_more(
    service: Service,
) -> None:
    """A younger relay numbers a batch and dies; the older one wakes up and finds nothing that waits."""
    relay, store = service.relay(), service.world.store
    message = OutboxRow(
        shard=0,
        topic=PAYMENT_EVENTS,
        key=b"o-1",
        type="payment.adjusted",
        event_id="event-1",
        headers=b"\x90",
        value=b"{}",
        recorded_at=service.world.now,
    )

    async def take_and_number(work: Work) -> None:
        epoch = await outbox.take_shard(work, 0)
        await outbox.put(work, [message])
        await outbox.number_batch(work, 0, epoch=epoch, limit=500)

    async with running(relay) as (old,):
        await until(lambda: _took(relay))
        await store.run(take_and_number)
        await until(lambda: _ended(old))
        assert isinstance(old.exception(), AnotherRelay)
    async with running(service.relay()):
        await until(lambda: _is_sent(service))


async def test_after_a_restore_no_batch_passes_for_one_that_left_before_it(
    service: Service,
) -> None:
    """The log knows of seven batches; the restored database would call its next one the second."""
    world, progress = service.world, Lane(RELAY_PROGRESS, 0)
    async with running(service.intake(), service.relay()):
        await service.put(ORDERS, "o-1", place(world, "o-1"))
        await until(lambda: _count(service, 1))
    writer = service.stream().writer("relay/0")
    await writer.start()
    await writer.append([Outgoing(lane=progress, key=b"relay/0", value=b"7", headers=())])
    relay = service.relay()
    async with running(relay):
        await until(lambda: _took(relay))
        await until(lambda: _numbers_above(service, 7))
    # It dies between numbering a batch and sending it.
    async with running(service.intake()):
        await service.put(ORDERS, "o-2", place(world, "o-2"))
        await until(lambda: _waits(service))

    async def number(work: Work) -> int | None:
        epoch = await outbox.take_shard(work, 0)
        return await outbox.number_batch(work, 0, epoch=epoch, limit=500)

    assert await world.store.run(number) == 8
    async with running(service.relay()):
        await until(lambda: _is_sent(service))
    assert [event.order for event in await service.events()] == ["o-1", "o-2"]


async def _numbers_above(service: Service, number: int) -> bool:
    async def last(work: Work) -> int:
        found = await work.connection.execute(select(tables.relays.c.batch))
        return int(found.scalar_one())

    return await service.world.store.read(last) >= number


async def _waits(service: Service) -> bool:
    return await service.world.store.read(lambda work: outbox.is_waiting(work, 0))


async def _is_sent(service: Service) -> bool:
    return not await service.world.store.read(lambda work: outbox.is_waiting(work, 0))


async def test_orders_on_derived_addresses_hold_the_keys_lock_a_few_at_a_time(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    async def apply(*arguments: Any, **more: Any) -> CommandsApplied:
        sizes.append(len(arguments[2].records))
        return await apply_commands(*arguments, **more)

    monkeypatch.setattr("reconciler.intake.lane.apply_commands", apply)
    service.world.context = derived.context(service.world)
    service.log.create(topic_specs(service.world.context.lanes, [Family(BITCOIN.chain)]))
    await service.put(ORDERS, "o", *(derived.place(n) for n in range(120)))
    async with running(service.intake(), service.relay()):
        await until(lambda: _count(service, 120))
    assert sizes == [50, 50, 20]


async def test_after_a_restore_orders_have_the_addresses_that_were_told_and_new_ones_new_ones(
    database: str,
) -> None:
    """The log's commands are applied again, in another order of their partitions perhaps."""
    world = await open_world(database)
    world.context = derived.context(world)
    service = Service(world)

    async def told(count: int) -> dict[str, str]:
        async def are_there() -> bool:
            return len({event.order for event in await service.events()}) == count

        await until(are_there)
        return {event.order: event.address for event in await service.events()}

    async with running(service.intake(), service.relay()):
        await service.put(ORDERS, "o", derived.place(1), derived.place(2))
        await told(2)
    backup = await derived.dump(world.engine)
    async with running(service.intake(), service.relay()):
        await service.put(ORDERS, "o", derived.place(3), derived.place(4, "polygon"))
        before = await told(4)
    await derived.restore(world.engine, backup)
    lane = Lane(ORDERS, 0)
    records = service.log.records[lane]
    place_of = {record.value: n for n, record in enumerate(records)}
    third, fourth = sorted(place_of.values())[-2:]
    swapped = [
        msgspec.structs.replace(records[a], offset=records[b].offset)
        for a, b in ((fourth, third), (third, fourth))
    ]
    service.log.records[lane] = [*records[:third], *swapped]
    async with running(service.intake(), service.relay()):
        await service.put(ORDERS, "o", derived.place(5))
        after = await told(5)
    assert {order: after[order] for order in before} == before
    assert len(set(after.values())) == 5
    assert after["o-5"] == derived.address_at(4)
    await world.close()
