"""Several at once on one database: nothing is lost, nothing is done twice, nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from reconciler.services import decide
from reconciler.services.apply_commands import apply_commands
from reconciler.services.apply_facts import apply_facts
from reconciler.services.ledger import Ledger
from reconciler.services.sweep import sweep_lane
from reconciler.storage import bulk, rows, tables
from reconciler.storage.engine import is_repeatable, make_engine
from reconciler.storage.positions import PositionMovedError
from reconciler.storage.unit_of_work import Store, Work
from reconciler.stream.promise import Batch, Lane
from reconciler.stream.topics import ORDERS, transfers_topic
from schemas.amounts import BaseUnits
from schemas.codes import ClaimEnd, ExceptionKind, Phase
from schemas.commands import CancelOrder, ClaimPaid, Close, Decide, PlaceOrder
from schemas.values import TransferName
from tests.parts import derived
from tests.parts.world import ETHEREUM, START, World, address
from tests.parts.worlds import open_world

LANE = Lane(transfers_topic(ETHEREUM), 0)


def partition(number: int) -> Lane:
    return Lane(ORDERS, number)


def place(number: int, key: str | None = None, **more: object) -> PlaceOrder:
    fields: dict[str, object] = {
        "idempotency_key": key or f"place-{number}",
        "reference": f"o-{number}",
        "route": "own",
        "amount": "25000000",
        "address": address(number),
        **more,
    }
    return PlaceOrder(**fields)


def batch(world: World, lane: Lane, *messages: object) -> Batch:
    records = [
        world.record(lane, getattr(m, "to", getattr(m, "reference", "k")).lower(), m)
        for m in messages
    ]
    return Batch(lane=lane, records=records, next_offset=records[-1].offset + 1)


async def command(world: World, lane: Lane, *messages: object) -> object:
    return await apply_commands(
        world.store, world.context, batch(world, lane, *messages), held=await world.position(lane)
    )


# The unit of work


async def test_concurrent_increments_lose_none(database: str) -> None:
    world = await open_world(database)
    counters = tables.counters

    async def increment(work: Work) -> None:
        if work.is_postgresql:
            statement = select(counters.c.value).with_for_update(key_share=True)
        else:
            statement = select(counters.c.value)
        value = (await work.connection.execute(statement)).scalar_one()
        await asyncio.sleep(0)
        await work.connection.execute(update(counters).values(value=value + 1))

    async def begin(work: Work) -> None:
        await work.connection.execute(counters.insert().values(name="n", value=0))

    await world.store.run(begin)
    await asyncio.gather(*(world.store.run(increment) for _ in range(40)))
    async with world.engine.connect() as connection:
        assert (await connection.execute(select(counters.c.value))).scalar_one() == 40
    await world.close()


async def test_deadlock_of_bulk_writes_is_done_again(postgres_tables: str) -> None:
    """The driver tells it in its own words; the unit of work must understand them."""
    world = await open_world(postgres_tables)
    first, second = asyncio.Event(), asyncio.Event()
    tries = 0

    def hold(subject: str) -> list[rows.HoldRow]:
        return [rows.HoldRow(subject=subject, actor="ada", reason="r", since=START)]

    async def write(work: Work, subject: str) -> None:
        await bulk.upsert(work.connection, tables.holds, hold(subject), keys=("subject",))

    async def crossing(work: Work, mine: str, other: str, done: asyncio.Event, wait: asyncio.Event):
        nonlocal tries
        tries += 1
        await write(work, mine)
        done.set()
        await wait.wait()
        await write(work, other)

    await asyncio.gather(
        world.store.run(lambda work: crossing(work, "a", "b", first, second)),
        world.store.run(lambda work: crossing(work, "b", "a", second, first)),
    )
    assert tries == 3
    await world.close()


async def test_driver_errors_have_the_name_that_doors_catch(postgres_tables: str) -> None:
    world = await open_world(postgres_tables)
    row = rows.CommandRow(key="k", digest=b"", reference="r", applied_at=START)

    async def twice(work: Work) -> None:
        await bulk.insert(work.connection, tables.commands, [row])
        await bulk.insert(work.connection, tables.commands, [row])

    with pytest.raises(DBAPIError) as raised:
        await world.store.run(twice)
    assert not is_repeatable(raised.value)
    await world.close()


# Constraints, proven by two real connections (CH-D05)


async def _race(database: str, statement: str) -> list[object]:
    """Two connections, both before they know of the other; gives what each of them met."""
    one, other = make_engine(database), make_engine(database)

    async def insert(engine) -> object:
        try:
            async with engine.begin() as connection:
                await connection.execute(text(statement))
        except IntegrityError as error:
            return error
        return None

    try:
        return await asyncio.gather(insert(one), insert(other))
    finally:
        await one.dispose()
        await other.dispose()


CONSTRAINTS = {
    "one row a transfer": (
        "INSERT INTO transfers (transfer, chain, tx, asset, family, address_key, lane, sender,"
        " amount, state, first_time, heard_at, was_final, coinbase, rule, reason, decided,"
        " tx_total, seq) VALUES ('t', 'c', 'x', 'a', 'f', 'k', 'l', 's', {amount}, 'seen', {time},"
        " {time}, {no}, {no}, 'none', '', {no}, {amount}, 1)"
    ),
    "one credit a transfer": (
        "INSERT INTO shares (transfer, part, order_ref, share) VALUES ('t', 0, 'o', {amount})"
    ),
    "one live reservation an amount": (
        "INSERT INTO reservations (family, address_key, chain, asset, amount, order_ref, since,"
        " match_end, live) VALUES ('f', 'k', 'c', 'a', {amount}, 'o', {time}, {time}, {yes})"
    ),
    "one use of an idempotency key": (
        "INSERT INTO commands (key, digest, reference, applied_at)"
        " VALUES ('k', {bytes}, 'o', {time})"
    ),
    "one use of an index": (
        "INSERT INTO derivations (key, \"index\", order_ref) VALUES ('k', 0, 'o')"
    ),
    "one owner of an address": (
        "INSERT INTO addresses (family, key, display, covered, noted, watched_since, journal_hash)"
        " VALUES ('f', 'k', 'd', '', '', {time}, {bytes})"
    ),
    "one event a sequence": (
        "INSERT INTO outbox (shard, topic, key, type, event_id, headers, recorded_at)"
        " VALUES (0, 't', {bytes}, 'x', 'e', {bytes}, {time})"
    ),
    "one entry behind another in the journal": (
        "INSERT INTO journal (seq, chain_key, kind, recorded_at, body, previous_hash, hash)"
        " VALUES (1, 'c', 'fact', {time}, {bytes}, {bytes}, {bytes})"
    ),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
async def test_constraint_lets_one_of_two_through(database: str, name: str) -> None:
    world = await open_world(database)
    postgres = database.startswith("postgresql")
    words = {
        "amount": "25" if postgres else "'" + "25".rjust(78, "0") + "'",
        "time": "'2026-11-30T12:00:00+00:00'",
        "yes": "true" if postgres else "1",
        "no": "false" if postgres else "0",
        "bytes": "'\\x00'::bytea" if postgres else "x'00'",
    }
    met = await _race(database, CONSTRAINTS[name].format(**words))
    assert sorted(type(one).__name__ for one in met) == ["IntegrityError", "NoneType"]
    await world.close()


# Positions


async def test_two_intakes_with_one_position_and_one_wins(database: str) -> None:
    world = await open_world(database)
    await command(world, partition(0), place(1))
    offered = batch(world, partition(0), place(2))

    async def apply() -> object:
        try:
            return await apply_commands(world.store, world.context, offered, held=1)
        except PositionMovedError as error:
            return error

    done = await asyncio.gather(apply(), apply())
    assert sorted(type(one).__name__ for one in done) == ["CommandsApplied", "PositionMovedError"]
    assert await world.kinds("o-2") == ["awaiting"]
    await world.close()


@pytest.mark.parametrize("what", ["commands", "unreadable commands", "facts"])
async def test_two_intakes_begin_a_lane_and_one_wins(database: str, what: str) -> None:
    world = await open_world(database)
    if what == "commands":
        offered = batch(world, partition(0), place(1))
    elif what == "facts":
        offered = batch(world, LANE, world.ethereum.watermark())
    else:
        record = world.raw(partition(0), "PlaceOrder", b"{")
        offered = Batch(lane=partition(0), records=[record], next_offset=1)

    async def apply() -> object:
        service = apply_facts if what == "facts" else apply_commands
        try:
            return await service(world.store, world.context, offered, held=None)
        except PositionMovedError as error:
            return error

    done = await asyncio.gather(apply(), apply(), apply())
    lost = [one for one in done if isinstance(one, PositionMovedError)]
    assert len(lost) == 2
    await world.close()


# Commands


async def test_same_key_from_two_partitions_at_once_is_done_once(database: str) -> None:
    world = await open_world(database)
    for _ in range(5):
        number = len(await world.events()) + 1
        await asyncio.gather(*(command(world, partition(n), place(number)) for n in range(3)))
        assert await world.kinds(f"o-{number}") == ["awaiting"]
    assert await world.rejections() == []
    await world.close()


async def test_same_reference_twice_at_once_is_placed_once(database: str) -> None:
    world = await open_world(database)
    await asyncio.gather(
        *(
            command(world, partition(n), place(1, key=f"k-{n}", address=address(10 + n)))
            for n in range(4)
        )
    )
    assert await world.kinds("o-1") == ["awaiting"]
    assert [code for code, _ in await world.rejections()] == ["reference_in_use"] * 3
    await world.close()


async def test_same_given_address_twice_at_once_is_taken_once(database: str) -> None:
    world = await open_world(database)
    await asyncio.gather(
        *(command(world, partition(n), place(n, address=address(77))) for n in range(4))
    )
    assert len(await world.events()) == 1
    assert [code for code, _ in await world.rejections()] == ["address_in_use"] * 3
    (placed,) = await world.events()
    async with world.engine.connect() as connection:
        owner = (await connection.execute(select(tables.addresses.c.owner))).scalar_one()
    assert owner == placed.order
    await world.close()


async def test_fifty_orders_race_for_amounts_and_all_are_distinct(database: str) -> None:
    world = await open_world(database)
    orders = [place(n, route="shared", address=None) for n in range(50)]
    await asyncio.gather(
        *(command(world, partition(n), *orders[n * 10 : n * 10 + 10]) for n in range(5))
    )
    dues = [int(event.due) for event in await world.events()]
    assert len(dues) == 50
    assert len(set(dues)) == 50
    assert all(due > 25_000_000 for due in dues)
    await world.close()


async def test_claim_on_one_partition_and_its_order_on_another(database: str) -> None:
    """Whichever is first, the claim is applied; it is never left waiting for what is there."""
    world = await open_world(database)
    for number in range(1, 9):
        claim = ClaimPaid(idempotency_key=f"claim-{number}", reference=f"o-{number}")
        await asyncio.gather(
            command(world, partition(0), claim), command(world, partition(1), place(number))
        )
        assert await world.kinds(f"o-{number}") == ["awaiting", "claimed"]
    await world.close()


# Facts of two lanes, commands and sweepers


@pytest.fixture
async def two_lanes(database: str) -> AsyncIterator[World]:
    world = await open_world(database, lanes=2)
    yield world
    await world.close()


def address_on(world: World, lane: int, start: int = 1) -> str:
    """An address of ours that belongs to a lane."""
    for number in range(start, start + 1_000):
        name = world.context.lane_of(ETHEREUM, address(number))
        if name.endswith(f"/{lane}"):
            return address(number)
    message = "no address on this lane"
    raise AssertionError(message)


async def facts(world: World, lane: Lane, *messages: object) -> None:
    await apply_facts(
        world.store, world.context, batch(world, lane, *messages), held=await world.position(lane)
    )


async def test_one_transaction_pays_two_lanes_at_once(two_lanes: World) -> None:
    """Both transfers know the whole of it, and the retraction of one is not written over."""
    world, lanes = two_lanes, two_lanes.ethereum.lanes
    to = [address_on(world, 0), address_on(world, 1)]
    await command(world, partition(0), *(place(n, address=to[n]) for n in (0, 1)))
    for number in range(1, 6):
        tx = f"0x{number:064x}"
        seen = [
            world.ethereum.seen(to[n], 10 + n, tx=tx, position=f"log:{n}", height=None)
            for n in (0, 1)
        ]
        await asyncio.gather(*(facts(world, lanes[n], seen[n]) for n in (0, 1)))
        again = world.ethereum.seen(to[0], 10, tx=tx, position="log:0")
        await asyncio.gather(
            facts(world, lanes[0], again), facts(world, lanes[1], world.ethereum.dropped(seen[1]))
        )
        async with world.engine.connect() as connection:
            table = tables.transfers
            found = await connection.execute(
                select(table.c.state, table.c.tx_total)
                .where(table.c.tx == tx)
                .order_by(table.c.transfer)
            )
            states = [(row.state, int(row.tx_total)) for row in found]
        assert [state for state, _ in states] == ["included", "dropped"]
        assert states[0][1] == 10


async def test_claim_races_its_transfer_and_ends_the_same(two_lanes: World) -> None:
    """Somebody names a transaction while it arrives for another's order: it is already used."""
    world, lanes = two_lanes, two_lanes.ethereum.lanes
    victim, thief = address_on(world, 0), address_on(world, 1)
    await command(world, partition(0), place(0, address=victim), place(1, address=thief))
    for number in range(1, 7):
        tx = f"0x{number:064x}"
        seen = world.ethereum.seen(victim, 1_000_000, tx=tx, height=None)
        claim = ClaimPaid(idempotency_key=f"c-{number}", reference="o-1", transaction=tx)
        if number > 3:  # an order names at most three
            claim = ClaimPaid(idempotency_key=f"c-{number}", reference="o-0", transaction=tx)
        await asyncio.gather(facts(world, lanes[0], seen), command(world, partition(1), claim))
    for order, end in (("o-0", ClaimEnd.USED), ("o-1", ClaimEnd.ALREADY_USED)):
        state = await world.state(order)
        assert [claim.end for claim in state.claims if claim.tx] == [end] * 3
    open_now = await world.open_exceptions()
    assert open_now["claim_already_used"].order == "o-1"


async def test_everything_at_once_and_nothing_is_lost(two_lanes: World) -> None:
    world, lanes = two_lanes, two_lanes.ethereum.lanes
    count = 24
    where = {n: int(world.context.lane_of(ETHEREUM, address(n))[-1]) for n in range(count)}
    placed = [place(n, purchase=f"p-{n // 4}" if n % 4 < 2 else None) for n in range(count)]
    await command(world, partition(0), *placed)
    await world.inbox()
    marks = [world.ethereum.watermark()]
    seen = {n: world.ethereum.seen(address(n), 25_000_000, height=101) for n in range(count)}
    marks += [world.ethereum.watermark() for _ in range(4)]

    async def lane_facts(lane: int) -> None:
        mine = [seen[n] for n in range(count) if where[n] == lane and n % 3]
        await facts(world, lanes[lane], *mine, marks[0])
        for mark in marks[1:]:
            await facts(world, lanes[lane], mark)

    async def commands(number: int) -> None:
        for n in range(number, count, 2):
            name = f"x-{n}"
            message = ClaimPaid(idempotency_key=name, reference=f"o-{n}")
            if n % 3 == 0:
                message = CancelOrder(idempotency_key=name, reference=f"o-{n}", reason="r")
            await command(world, partition(number + 1), message)

    async def sweeper(lane: int) -> None:
        for _ in range(12):
            await sweep_lane(world.store, world.context, lanes[lane].name)
            await asyncio.sleep(0)

    await asyncio.gather(
        *(lane_facts(n) for n in (0, 1)),
        *(commands(n) for n in (0, 1)),
        *(sweeper(n) for n in (0, 1, 0, 1)),
    )
    await world.sweep()
    for n in range(count):
        events = await world.events(f"o-{n}")
        assert [e.sequence for e in events] == list(range(1, len(events) + 1))
        assert [e.kind.value for e in events].count("confirmed") <= 1
        expected = {Phase.CANCELLED} if n % 3 == 0 else {Phase.CONFIRMED, Phase.CANCELLED}
        assert events[-1].phase in expected, (n, events[-1])
    for purchase in range(count // 4):
        pair = [(await world.events(f"o-{purchase * 4 + n}"))[-1] for n in (0, 1)]
        assert [e.phase for e in pair].count(Phase.CONFIRMED) <= 1
    given = await _given(world)
    assert given == {seen[n].transfer: f"o-{n}" for n in range(count) if n % 3}


async def _given(world: World) -> dict[TransferName, str]:
    async with world.engine.connect() as connection:
        found = await connection.execute(
            select(tables.shares.c.transfer, tables.shares.c.order_ref, tables.shares.c.share)
        )
        rows_found = list(found)
    assert all(row.share == BaseUnits(25_000_000) for row in rows_found)
    return {TransferName(row.transfer): row.order_ref for row in rows_found}


async def test_sweepers_at_once_judge_an_order_once(database: str) -> None:
    world = await open_world(database)
    world.sweeps = False
    await command(world, partition(0), *(place(n) for n in range(30)))
    for n in range(30):
        await world.facts(world.ethereum.covered(address(n)))
    mark = world.ethereum.watermark(world.ethereum.height + 500)
    world.now = mark.time
    await world.inbox()
    await world.facts(mark)
    other = Store(make_engine(database)) if database.startswith("postgresql") else world.store
    await asyncio.gather(
        *(
            sweep_lane(store, world.context, LANE.name, limit=7)
            for store in (world.store, other) * 4
        )
    )
    await world.sweep()
    for n in range(30):
        assert await world.kinds(f"o-{n}") == ["awaiting", "expired"]
    if other is not world.store:
        await other.close()
    await world.close()


async def test_hold_races_a_claim_and_the_release_wakes_the_order(database: str) -> None:
    """A release that comes while others write the order is not written over."""
    from schemas.commands import Decide, Hold, Release

    def person(key: str, action: object) -> Decide:
        return Decide(idempotency_key=key, actor="ada", reason="r", action=action)

    world = await open_world(database)
    await command(world, partition(0), place(1))
    await world.facts(world.ethereum.covered(address(1)))
    await command(world, partition(0), person("h", Hold(subject="own")))
    await world.mine(4, world.ethereum.seen(address(1), 25_000_000))
    assert (await world.kinds("o-1"))[-1] == "adjusted"
    await asyncio.gather(
        command(world, partition(1), person("r", Release(subject="own"))),
        command(world, partition(2), ClaimPaid(idempotency_key="c", reference="o-1")),
        sweep_lane(world.store, world.context, LANE.name),
    )
    await world.mine()
    assert (await world.events("o-1"))[-1].phase is Phase.CONFIRMED
    await world.close()


async def test_closing_a_difference_holds_its_order_before_it_is_numbered(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await open_world(database)
    to = await world.place()
    for held in (0, 9):
        await world.mine(1)
        await world.facts(world.ethereum.balance(to, held))
    found = (await world.open_exceptions())[ExceptionKind.BALANCE_DIFFERS]
    numbered, go_on, drain_all = asyncio.Event(), asyncio.Event(), decide._drain_all

    async def drain_later(ledger: Ledger) -> None:
        numbered.set()
        await go_on.wait()
        await drain_all(ledger)

    monkeypatch.setattr(decide, "_drain_all", drain_later)
    close = Decide(
        idempotency_key="d", actor="ada", reason="ours", action=Close(exception=found.exception)
    )
    cancel = CancelOrder(idempotency_key="c", reference="o-1", reason="changed my mind")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(command(world, partition(0), close))
        await numbered.wait()
        later = tasks.create_task(command(world, partition(1), cancel))
        done, _ = await asyncio.wait({later}, timeout=0.3)
        go_on.set()
    assert not done
    journal = tables.journal
    async with world.engine.connect() as connection:
        statement = select(journal.c.seq).where(journal.c.chain_key == "order/o-1")
        seqs = (await connection.execute(statement.order_by(journal.c.id))).scalars().all()
    assert list(seqs) == sorted(seqs)
    await world.close()


# Derived addresses


@pytest.mark.parametrize("lanes", [1, 4])
async def test_many_orders_at_once_over_routes_of_one_key_never_share_an_index(
    database: str, lanes: int
) -> None:
    world = await open_world(database)
    world.context = derived.context(world, ethereum_lanes=lanes)
    routes = ("ethereum", "bitcoin", "polygon", "bitcoin")  # what is in use on one says nothing

    async def take_lane(number: int) -> None:
        for start in range(0, 40, 8):
            numbers = range(100 * number + start, 100 * number + start + 8)
            places = [derived.place(n, routes[number]) for n in numbers]
            await command(world, partition(number), *places)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in range(4):
            tasks.create_task(take_lane(number))
    given = await derived.handed_out(world)
    assert sorted(given.values()) == list(range(160)), "and none is left out"
    await world.close()


async def test_orders_that_were_placed_at_once_have_the_same_addresses_in_a_replay(
    database: str,
) -> None:
    """Addresses follow the numbers by which everything was applied, whoever came first to the lock."""
    world = await open_world(database)
    world.context = derived.context(world)
    places = [derived.place(n) for n in range(24)]
    await asyncio.gather(
        *(command(world, partition(n), *places[n * 6 : n * 6 + 6]) for n in range(4))
    )
    async with world.engine.connect() as connection:
        journal = tables.journal
        statement = select(journal.c.chain_key, journal.c.seq).where(journal.c.kind == "command")
        rows = (await connection.execute(statement)).all()
    order = [key.partition("/")[2] for key, _ in sorted(rows, key=lambda row: row.seq)]
    given = await derived.handed_out(world)
    assert [given[reference] for reference in order] == list(range(24))
    await world.close()


async def test_a_derived_order_waits_for_whoever_moves_the_coverage_it_is_judged_by(
    database: str,
) -> None:
    """Its lane is only known with its address: any lane of its chain may be it."""
    world = await open_world(database)
    world.context = derived.context(world, ethereum_lanes=4)
    key = derived.address_at(0).lower()
    lane = world.context.lane_of(ETHEREUM, key)
    held, go_on = asyncio.Event(), asyncio.Event()

    async def move_coverage(work: Work) -> None:
        await work.lock_lanes(exclusive=lane)
        held.set()
        await go_on.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(world.store.run(move_coverage))
        await held.wait()
        placing = tasks.create_task(command(world, partition(0), derived.place(1)))
        done, _ = await asyncio.wait({placing}, timeout=0.3)
        go_on.set()
    assert not done
    assert await world.kinds("o-1") == ["awaiting"]
    await world.close()
