"""A database that is restored from a backup has forgotten which addresses were handed out. The log has not:
no index is given to two orders, and an order that is placed again gets the address that it had.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from reconciler.intake import recall as recall_module
from reconciler.intake.recall import recall
from reconciler.storage import tables
from reconciler.stream.promise import Lane, Outgoing, Stream, TopicSpec, read_all
from reconciler.stream.topics import topic_specs, watchlist_topic
from schemas.caip import Family, family_of
from schemas.commands import PlaceOrder
from schemas.requests import WatchAddress
from tests.parts.derived import address_at, context, dump, place, restore, watched
from tests.parts.memory_stream import MemoryLog, MemoryStream
from tests.parts.streams import KafkaLog
from tests.parts.world import ETHEREUM, World, address
from tests.parts.worlds import open_world

WATCHLIST = Lane(watchlist_topic(Family("eip155")), 0)


class Shop:
    """A world whose watchlist leaves for a log that no restore reaches."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.left = 0
        self.make_log()

    def make_log(self) -> None:
        self.log = MemoryLog(marker_holes=True)
        self.log.create(self.topics())
        self.stream: Stream = MemoryStream(self.log)

    def topics(self) -> list[TopicSpec]:
        lanes = self.world.context.lanes
        return topic_specs(lanes, {family_of(chain) for chain in lanes}, orders_partitions=1)

    async def order(self, *commands: PlaceOrder) -> None:
        await self.world.commands(*commands)

    async def relay(self) -> None:
        """Send what the outbox has for the watchers."""
        table = tables.outbox
        async with self.world.engine.connect() as connection:
            rows = (
                await connection.execute(
                    select(table)
                    .where(table.c.topic.like("watchlist.%"), table.c.id > self.left)
                    .order_by(table.c.id)
                )
            ).all()
        writer = self.stream.writer("relay/0")
        await writer.start()
        for row in rows:
            headers = tuple(msgspec.msgpack.decode(row.headers, type=list[tuple[str, bytes]]))
            lane = Lane(row.topic, 0)
            await writer.append(
                [Outgoing(lane=lane, key=row.key, value=row.value, headers=headers)]
            )
            self.left = row.id

    async def told(self) -> dict[tuple[str, int], set[str]]:
        """To which orders an index was ever given, before and after."""
        found: dict[tuple[str, int], set[str]] = {}
        for record in await read_all(self.stream, WATCHLIST):
            source = msgspec.json.decode(record.value, type=WatchAddress).derived
            if source is not None:
                found.setdefault((source.key, source.index), set()).add(source.order)
        return found

    async def restored(self, backup) -> None:
        await restore(self.world.engine, backup)
        self.left = max((row["id"] for row in backup["outbox"]), default=0)

    async def recall(self) -> int:
        return await recall(self.world.store, self.world.context, self.stream)


@pytest.fixture
def shop(world: World) -> Shop:
    world.context = context(world)
    return Shop(world)


async def test_no_index_is_given_twice_after_a_restore(shop: Shop) -> None:
    await shop.order(place(1), place(2, "polygon"))
    await shop.relay()
    backup = await dump(shop.world.engine)
    await shop.order(place(3), place(4, "bitcoin", amount="50000"), place(5))
    await shop.relay()
    await shop.restored(backup)
    assert await shop.recall() == 3
    await shop.order(place(6), place(7, "bitcoin", amount="50000"))
    await shop.relay()
    orders = await shop.told()
    assert all(len(names) == 1 for names in orders.values()), orders
    assert [index for _, index in sorted(orders)] == [0, 1, 2, 4, 5]
    assert (await shop.world.last("o-6")).address == address_at(5)
    assert (await shop.world.last("o-7")).address == address_at(6, "bitcoin")


@pytest.mark.kafka
async def test_kafka_remembers_what_the_database_forgot(
    shop: Shop, kafka_broker: Any, kafka_prefix: str
) -> None:
    kafka = KafkaLog(kafka_broker.bootstrap, kafka_prefix)
    await kafka.prepare()
    shop.stream = await kafka.open()
    await shop.stream.create_topics(shop.topics())
    await shop.order(place(1))
    await shop.relay()
    assert await shop.recall() == 0
    backup = await dump(shop.world.engine)
    await shop.order(*(place(n) for n in range(2, 9)))
    await shop.relay()
    await shop.restored(backup)
    assert await shop.recall() == 7
    assert await shop.recall() == 0
    await shop.order(place(9), place(4))
    assert (await shop.world.last("o-9")).address == address_at(8)
    assert (await shop.world.last("o-4")).address == address_at(3)
    await kafka.close()


async def test_an_index_of_a_chain_that_no_route_derives_on_any_more_is_not_given_again(
    shop: Shop,
) -> None:
    backup = await dump(shop.world.engine)
    await shop.order(place(1, "bitcoin", amount="50000"))
    await shop.relay()
    await shop.restored(backup)
    routes = {k: r for k, r in shop.world.context.routes.items() if k != "bitcoin"}
    shop.world.context = context(shop.world)
    shop.world.context.routes = routes
    assert await shop.recall() == 1
    await shop.order(place(2))
    assert (await shop.world.last("o-2")).address == address_at(1)


async def test_without_what_the_log_knows_the_index_would_be_given_twice(shop: Shop) -> None:
    """What the test above is about: the database alone cannot know."""
    backup = await dump(shop.world.engine)
    await shop.order(place(1))
    await shop.relay()
    await shop.restored(backup)
    await shop.order(place(2))
    await shop.relay()
    assert set(map(len, (await shop.told()).values())) == {2}


async def test_an_order_that_is_placed_again_has_the_address_that_its_customer_was_shown(
    shop: Shop,
) -> None:
    backup = await dump(shop.world.engine)
    await shop.order(place(1), place(2), place(3))
    shown = {n: (await shop.world.last(f"o-{n}")).address for n in (1, 2, 3)}
    await shop.relay()
    await shop.restored(backup)
    await shop.recall()
    await shop.order(place(9), place(3), place(1), place(2))
    for number, text in shown.items():
        assert (await shop.world.last(f"o-{number}")).address == text
    assert (await shop.world.last("o-9")).address == address_at(3)
    await shop.relay()
    assert all(len(names) == 1 for names in (await shop.told()).values())
    await shop.world.facts(shop.world.ethereum.covered(shown[2]))
    await shop.world.mine(3, shop.world.ethereum.seen(shown[2], 25_000_000))
    assert (await shop.world.last("o-2")).phase.value == "confirmed"


async def test_an_order_whose_address_went_to_somebody_else_meanwhile_has_a_new_one(
    shop: Shop,
) -> None:
    backup = await dump(shop.world.engine)
    await shop.order(place(1))
    await shop.relay()
    await shop.restored(backup)
    await shop.recall()
    await shop.order(place(2, "own", address=address_at(0)), place(1), place(3))
    assert (await shop.world.last("o-1")).address == address_at(1)
    assert (await shop.world.last("o-3")).address == address_at(2)


async def test_without_a_restore_there_is_nothing_to_learn_and_only_news_are_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall_module, "BATCH_RECORDS", 2)
    await shop.order(*(place(n) for n in range(5)), place(9, "own", address=address(9)))
    await shop.relay()
    assert await shop.recall() == 0
    position = await shop.world.position(WATCHLIST)
    assert position == (await shop.stream.bounds(WATCHLIST))[1]
    await shop.order(place(5))
    await shop.relay()
    assert await shop.recall() == 0
    assert await shop.world.position(WATCHLIST) > position
    await shop.order(place(6))
    assert (await shop.world.last("o-6")).address == address_at(6)


async def test_a_line_that_nobody_can_read_is_passed_over(shop: Shop) -> None:
    writer = shop.stream.writer("somebody")
    await writer.start()
    for value in (b"{", b"\xff", None):
        await writer.append([Outgoing(lane=WATCHLIST, key=b"k", value=value, headers=())])
    assert await shop.recall() == 0


async def test_two_intakes_that_start_at_once_learn_each_line_once(database: str) -> None:
    world = await open_world(database)
    world.context = context(world)
    shop = Shop(world)
    backup = await dump(shop.world.engine)
    await shop.order(*(place(n) for n in range(8)))
    await shop.relay()
    await shop.restored(backup)
    assert sum(await asyncio.gather(*(shop.recall() for _ in range(3)))) == 8
    await shop.order(place(8))
    assert (await world.last("o-8")).address == address_at(8)
    await world.close()


async def test_a_log_that_was_made_again_is_read_from_its_beginning(shop: Shop) -> None:
    """Its offsets say nothing about those of the log before it."""
    await shop.order(place(1), place(2))
    await shop.relay()
    await shop.recall()
    backup = await dump(shop.world.engine)
    shop.make_log()
    await shop.order(place(3), place(4), place(5), place(6))
    await shop.relay()
    await shop.restored(backup)
    assert await shop.recall() == 4
    await shop.order(place(7))
    assert (await shop.world.last("o-7")).address == address_at(6)


async def test_a_compacted_watchlist_still_has_every_address(shop: Shop) -> None:
    backup = await dump(shop.world.engine)
    for _ in range(2):
        await shop.order(place(1), place(2))
        await shop.relay()
        await shop.restored(backup)
        await shop.recall()
    shop.log.compact(WATCHLIST.topic)
    await shop.restored(backup)
    assert await shop.recall() == 2
    await shop.order(place(3))
    assert (await shop.world.last("o-3")).address == address_at(2)


async def test_routes_that_derive_nothing_read_no_watchlist(world: World) -> None:
    shop = Shop(world)
    shop.log.reachable = False
    assert await shop.recall() == 0
    assert not await watched(world)
    assert ETHEREUM in world.context.lanes
