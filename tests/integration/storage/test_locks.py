"""Locks are taken in one order, or not waited for: no two units of work ever wait in a ring."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import structlog
from sqlalchemy import insert, text

from reconciler.storage import reads, tables
from reconciler.storage.engine import make_engine
from reconciler.storage.unit_of_work import Store, Work
from tests.parts.world import START

pytestmark = pytest.mark.postgres

Take = Callable[[Work], Awaitable[object]]

ADDRESSES = [("eip155", f"0x{number:040x}") for number in range(4)]


def own(lane: str) -> Take:
    return lambda work: work.lock_lanes(exclusive=lane)


def other(lane: str) -> Take:
    return lambda work: work.lock_lanes(exclusive=None, shared=[lane])


def name(word: str) -> Take:
    return lambda work: work.lock_names([word])


def address(*numbers: int) -> Take:
    return lambda work: reads.lock_addresses(work, [ADDRESSES[number] for number in numbers])


def journal(*, exclusive: bool = False) -> Take:
    return lambda work: work.lock_journal(exclusive=exclusive)


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    engine = make_engine(postgres_url)
    rows = [
        {
            "family": family,
            "key": key,
            "display": key,
            "covered": "",
            "noted": "",
            "watched_since": START,
            "journal_hash": b"",
        }
        for family, key in ADDRESSES
    ]
    async with engine.begin() as connection:
        await connection.run_sync(tables.metadata.create_all)
        await connection.execute(insert(tables.addresses), rows)
    made = Store(engine)
    yield made
    await made.close()


#: What two units of work need, in the order in which each finds it: the second one's is turned round.
RINGS: dict[str, tuple[list[Take], list[Take]]] = {
    "each applies a lane and judges by the other's": (
        [own("a"), other("b")],
        [own("b"), other("a")],
    ),
    "lanes behind names": ([own("a"), name("n"), other("b")], [own("b"), other("a"), name("n")]),
    "two names": ([name("n"), name("m")], [name("m"), name("n")]),
    "a name behind an address": ([name("n"), address(1)], [address(1), name("n")]),
    "a lane behind an address": ([own("a"), address(1)], [address(1), other("a")]),
    "two addresses": ([address(1), address(2)], [address(2), address(1)]),
    "some addresses": ([address(0, 2), address(1, 3)], [address(1, 3), address(0, 2)]),
    "an address behind the journal": ([address(1), journal()], [journal(), address(1)]),
    "all there is": (
        [own("a"), name("n"), address(1), other("b"), name("m"), address(2)],
        [own("b"), name("m"), address(2), other("a"), name("n"), address(1)],
    ),
    "a shared lane is then wanted alone": ([other("a"), own("a")], [other("a"), own("a")]),
}


@pytest.mark.parametrize("ring", RINGS)
async def test_two_that_find_the_same_in_turned_order_both_end_at_once(
    store: Store, ring: str
) -> None:
    tries, began = [0, 0], [asyncio.Event(), asyncio.Event()]

    async def work_on(side: int, takes: list[Take], work: Work) -> int:
        tries[side] += 1
        await takes[0](work)
        began[side].set()
        if tries[side] == 1:
            # Each has its first lock before either asks for more, where the first do not exclude it.
            async with asyncio.timeout(5):
                await began[1 - side].wait()
        for take in takes[1:]:
            await take(work)
        return side

    with structlog.testing.capture_logs() as logs:
        started_s = asyncio.get_running_loop().time()
        done = await asyncio.gather(
            *(
                store.run(lambda work, side=side, takes=takes: work_on(side, takes, work))
                for side, takes in enumerate(RINGS[ring])
            )
        )
        spent_s = asyncio.get_running_loop().time() - started_s
    assert done == [0, 1]
    assert [entry["event"] for entry in logs if "repeated" in entry["event"]] == []
    assert spent_s < 0.9, "the database looks for a ring after a second"
    assert max(tries) <= 4


async def test_who_waits_for_a_seal_holds_nobody_up(store: Store) -> None:
    """A seal waits for whoever writes entries; that one then needs what another holds who will write."""
    writing, waiting = asyncio.Event(), asyncio.Event()

    async def writes_first(work: Work) -> None:
        await work.lock_journal(exclusive=False)
        writing.set()
        await waiting.wait()
        await asyncio.sleep(0.1)
        await work.lock_names(["exception/1"])

    async def writes_later(work: Work) -> None:
        await work.lock_names(["exception/1"])
        waiting.set()
        await asyncio.sleep(0.1)
        await work.lock_journal(exclusive=False)

    async def seal() -> None:
        await writing.wait()
        await store.run(journal(exclusive=True))

    async with asyncio.timeout(0.9), asyncio.TaskGroup() as tasks:
        tasks.create_task(store.run(writes_first))
        tasks.create_task(seal())
        await writing.wait()
        await asyncio.sleep(0.05)
        tasks.create_task(store.run(writes_later))


@pytest.mark.parametrize("seed", range(4))
async def test_many_that_take_anything_in_any_order_exclude_each_other_and_all_end(
    store: Store, seed: int
) -> None:
    dice = random.Random(seed)
    inside: set[str] = set()
    ended: list[str] = []

    async def unit(wants: list[tuple[str, Take]], work: Work) -> None:
        for _, take in wants:
            await take(work)
            await asyncio.sleep(0)
        names = {what for what, _ in wants}
        assert inside.isdisjoint(names)
        inside.update(names)
        await asyncio.sleep(0.002)
        inside.difference_update(names)
        ended.append("")

    kinds: list[tuple[str, Take]] = [
        *((f"lane {one}", own(one)) for one in "abc"),
        *((f"name {one}", name(one)) for one in "nmop"),
        *((f"address {number}", address(number)) for number in range(4)),
    ]
    with structlog.testing.capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(40):
                wants = dice.sample(kinds, dice.randint(2, 6))
                tasks.create_task(store.run(lambda work, wants=wants: unit(wants, work)))
    assert len(ended) == 40
    assert [entry for entry in logs if "deadlock" in str(entry.get("error"))] == []


async def test_who_waited_too_long_in_order_is_refused_by_the_database(store: Store) -> None:
    """It is one of the few attempts that a unit of work has, and no crossing."""
    held, done = asyncio.Event(), asyncio.Event()

    async def holds(work: Work) -> None:
        await address(1)(work)
        held.set()
        await done.wait()

    async def waits(work: Work) -> None:
        await work.connection.execute(text("SET LOCAL lock_timeout = '30ms'"))
        await address(1)(work)

    async def let_go() -> None:
        await asyncio.sleep(0.2)
        done.set()

    with structlog.testing.capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(store.run(holds))
            await held.wait()
            tasks.create_task(let_go())
            tasks.create_task(store.run(waits))
    assert [entry["event"] for entry in logs].count("unit_of_work_repeated") >= 2
