"""Lanes, commands and sweepers at once on PostgreSQL: whatever order they came to, the recording has it.

A story's records are dealt out to their lanes and every lane is applied by a task of its own, as fast as
it can. What is seen before its order was placed is unreadable then; all that counts is that the recording
tells what happened.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import msgspec
import pytest

from reconciler.services.apply_commands import mark_inbox
from reconciler.stream.promise import Lane, Record, partition_of
from reconciler.stream.topics import ORDERS
from tests.parts.stories import Driver, Teller, outcome
from tests.parts.world import World
from tests.properties.services.test_recordings import recorded, replayed

PARTITIONS = 2
LANES = 3

pytestmark = pytest.mark.postgres


def long_story(dice: random.Random, length: int) -> list[tuple]:
    """Orders with purchases, shared amounts and money for several at once."""
    story: list[tuple] = []
    for number in range(6):
        route = dice.choice(["own", "own", "shared"])
        story += [("place", number, route, dice.randint(0, 3)), ("cover", number)]
    words = [
        lambda: (
            "pay",
            dice.randint(0, 5),
            dice.choice([100, 40, 130]),
            "usdt",
            dice.random() < 0.5,
        ),
        lambda: ("mine", dice.randint(1, 3)),
        lambda: ("mine", dice.randint(1, 3)),
        lambda: ("wait", dice.choice([5, 30, 61])),
        lambda: ("retract", dice.randint(1, 2), dice.random() < 0.5),
        lambda: ("claim", dice.randint(0, 5), dice.randint(0, 3)),
        lambda: ("decide", dice.choice([0, 1, 2, 4]), dice.randint(0, 5), dice.randint(0, 2)),
        lambda: ("hold", dice.randint(0, 3)),
        lambda: ("release", dice.randint(0, 3)),
        lambda: ("pay", dice.randint(0, 5), 100, "matic", False),
        lambda: ("mine_polygon", 2),
        lambda: ("place", dice.randint(0, 5), "shared", dice.randint(0, 1)),
        lambda: ("cancel", dice.randint(0, 5), True),
    ]
    return story + [dice.choice(words)() for _ in range(length)]


async def script_of(story: list[tuple]) -> list[Record]:
    """A story's records, told to a world of its own."""
    author = await World.open(lanes=LANES)
    try:
        return [step.record for step in await Teller(author).tell(story) if step.record]
    finally:
        await author.close()


def dealt_out(script: list[Record]) -> dict[Lane, list[Record]]:
    """Put every record on its lane; commands on two partitions by their key."""
    lanes: dict[Lane, list[Record]] = defaultdict(list)
    for record in script:
        lane = record.lane
        if lane.topic == ORDERS:
            lane = Lane(ORDERS, partition_of(record.key, PARTITIONS))
        moved = msgspec.structs.replace(record, lane=lane, offset=len(lanes[lane]))
        lanes[lane].append(moved)
    return lanes


async def work_on(world: World, lane: Lane, records: list[Record], dice: random.Random) -> None:
    """Apply a lane's records in batches of any size."""
    driver = Driver(world.store, world.context)
    while records:
        size = dice.randint(1, 6)
        batch, records = records[:size], records[size:]
        await driver.apply(lane, batch)
        if lane.topic == ORDERS:
            await mark_inbox(world.store, lane, batch[-1].time)
        await asyncio.sleep(dice.random() * 0.01)


async def sweep(world: World, lane: Lane, done: asyncio.Event) -> None:
    driver = Driver(world.store, world.context)
    while not done.is_set():
        await driver.sweep([lane])
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("seed", range(3))
async def test_recording_tells_what_happened_when_everything_happened_at_once(
    postgres_url: str, seed: int
) -> None:
    dice = random.Random(seed)
    script = await script_of(long_story(dice, 50))
    world = await World.open(postgres_url, lanes=LANES)
    world.context.orders_partitions = PARTITIONS
    done = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as sweepers:
            facts_lanes = [*world.ethereum.lanes, *world.polygon.lanes]
            for lane in facts_lanes:
                sweepers.create_task(sweep(world, lane, done))
            async with asyncio.TaskGroup() as workers:
                for lane, records in dealt_out(script).items():
                    own = random.Random(f"{seed}/{lane.name}")
                    workers.create_task(work_on(world, lane, records, own))
            done.set()
        await Driver(world.store, world.context).sweep(facts_lanes)
        _, told = await replayed(world, await recorded(world))
        assert told == await outcome(world)
    finally:
        await world.close()
