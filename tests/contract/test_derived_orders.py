"""Orders that are each paid at an address of their own, derived from an extended public key: one index a
key over all routes and chains, and never one twice.
"""

import msgspec
import pytest
from sqlalchemy import select

from chains.extended_keys import HARDENED
from chains.utxo.networks import BITCOIN
from reconciler.services.derive_address import PASSED_OVER_MAX
from reconciler.storage import tables
from reconciler.stream.promise import Lane, partition_of
from reconciler.stream.topics import PAYMENT_EVENTS, transfers_topic
from schemas.codes import Phase
from tests.parts.derived import (
    address_at,
    context,
    derived_routes,
    handed_out,
    place,
    watched,
)
from tests.parts.world import ETHEREUM, World, address

#: The first accounts of every development node.
FIRST = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
SECOND = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


@pytest.fixture
def derived(world: World) -> World:
    world.context = context(world)
    return world


async def refusals(world: World) -> list[str]:
    return [code for code, _ in await world.rejections()]


async def test_each_order_has_the_wallets_next_address_and_is_paid_there(derived: World) -> None:
    await derived.commands(place(1), place(2))
    assert [(await derived.last(f"o-{n}")).address for n in (1, 2)] == [FIRST, SECOND]
    assert [message.address for message in await watched(derived)] == [FIRST, SECOND]
    assert (await derived.state("o-1")).terms.mode == "derived"
    await derived.facts(derived.ethereum.covered(FIRST), derived.ethereum.covered(SECOND))
    await derived.mine(3, derived.ethereum.seen(SECOND, 25_000_000))
    assert (await derived.last("o-1")).phase is Phase.AWAITING_PAYMENT
    assert (await derived.last("o-2")).phase is Phase.CONFIRMED


async def test_routes_chains_and_prefixes_of_one_key_share_its_indexes(derived: World) -> None:
    names = ["ethereum", "polygon", "bitcoin", "ethereum", "bitcoin", "polygon"]
    await derived.commands(*(place(n, name, amount="50000") for n, name in enumerate(names)))
    assert await handed_out(derived) == {f"o-{n}": n for n in range(6)}
    for number, name in enumerate(names):
        assert (await derived.last(f"o-{number}")).address == address_at(number, name)
    assert (await derived.last("o-2")).address.startswith("bc1p")


async def test_another_key_counts_for_itself(derived: World) -> None:
    await derived.commands(place(1), place(2, "other"), place(3), place(4, "other"))
    assert await handed_out(derived) == {"o-1": 0, "o-2": 0, "o-3": 1, "o-4": 1}
    assert (await derived.last("o-2")).address == address_at(0, "other")


async def test_what_is_refused_takes_no_index(derived: World) -> None:
    closed = msgspec.structs.replace(derived_routes()["polygon"], closed=True)
    derived.context = context(derived, polygon=closed)
    await derived.commands(
        place(1),
        place(2, address=address(2)),
        place(3, amount="1"),
        place(4, "polygon"),
        place(1, idempotency_key="again"),
        place(1),
        place(5),
    )
    assert await refusals(derived) == [
        "address_not_taken",
        "amount_below_minimum",
        "route_closed",
        "reference_in_use",
    ]
    assert await handed_out(derived) == {"o-1": 0, "o-5": 1}


async def test_an_address_that_somebody_else_was_given_is_passed_over(derived: World) -> None:
    shared = msgspec.structs.replace(derived.context.routes["shared"], shared_address=SECOND)
    derived.context = context(derived, shared=shared)
    await derived.commands(place(1, "own", address=FIRST), place(2), place(3))
    assert await handed_out(derived) == {"o-2": 2, "o-3": 3}
    await derived.commands(place(4, "own", address=address_at(2)))
    assert await refusals(derived) == ["address_in_use"], "and nobody is given one of ours"


async def test_a_wallet_that_was_used_before_begins_where_the_settings_say(derived: World) -> None:
    later = msgspec.structs.replace(derived_routes()["ethereum"], first_index=7)
    await derived.commands(place(1))
    derived.context = context(derived, ethereum=later)
    await derived.commands(place(2), place(3, "polygon"), place(4))
    assert await handed_out(derived) == {"o-1": 0, "o-2": 7, "o-3": 8, "o-4": 9}


async def test_a_key_without_a_free_index_refuses_by_name(derived: World) -> None:
    last = msgspec.structs.replace(derived_routes()["ethereum"], first_index=HARDENED - 1)
    derived.context = context(derived, ethereum=last)
    await derived.commands(place(1), place(2), place(3, "polygon"))
    assert await handed_out(derived) == {"o-1": HARDENED - 1}
    assert await refusals(derived) == ["no_free_address", "no_free_address"]


async def test_a_wallet_full_of_used_addresses_refuses_and_says_what_to_do(quick_world) -> None:
    quick_world.context = context(quick_world)
    own = [place(n, "own", address=address_at(n)) for n in range(PASSED_OVER_MAX)]
    await quick_world.commands(*own)
    await quick_world.commands(place(1_000))
    ((code, _),) = await quick_world.rejections()
    assert code == "no_free_address"
    async with quick_world.engine.connect() as connection:
        assert not (await connection.execute(select(tables.derivations))).all()


async def test_the_same_commands_in_an_empty_database_give_the_same_addresses(
    derived: World, quick_world: World
) -> None:
    commands = [place(n, ("ethereum", "bitcoin", "other")[n % 3]) for n in range(9)]
    quick_world.context = context(quick_world)
    await derived.commands(*commands)
    for command in commands:  # batches may be cut anywhere
        await quick_world.commands(command)
    assert await watched(quick_world) == await watched(derived)


async def test_the_log_has_the_index_before_anybody_is_told_the_address(derived: World) -> None:
    """The watchlist is what a restored database learns from, so it may not come later or not at all."""
    derived.context = context(derived, relay_shards=8)
    await derived.commands(*(place(n) for n in range(12)))
    async with derived.engine.connect() as connection:
        table = tables.outbox
        rows = (await connection.execute(select(table).order_by(table.c.id))).all()
    told = {row.key.decode(): row for row in rows if row.topic == PAYMENT_EVENTS}
    asked = {
        message.derived.order: row
        for message, row in zip(
            await watched(derived),
            (row for row in rows if row.topic.startswith("watchlist.")),
            strict=True,
        )
    }
    assert len({row.shard for row in told.values()}) > 1
    for order, event in told.items():
        assert asked[order].shard == event.shard
        assert asked[order].id < event.id


async def test_an_order_is_judged_by_the_lane_of_the_address_that_was_derived(derived) -> None:
    derived.context = context(derived, ethereum_lanes=4)
    await derived.commands(*(place(n) for n in range(8)))
    async with derived.engine.connect() as connection:
        table = tables.orders
        rows = (await connection.execute(select(table.c.lane, table.c.address_key))).all()
    for lane, key in rows:
        number = partition_of(key.encode(), 4)
        assert lane == Lane(transfers_topic(ETHEREUM), number).name
    assert len({lane for lane, _ in rows}) > 1


def test_the_routes_of_these_tests_have_one_key_under_two_prefixes() -> None:
    keys = {name: route.derivation.key.name for name, route in derived_routes().items()}
    assert keys["ethereum"] == keys["polygon"] == keys["bitcoin"] != keys["other"]
    assert derived_routes()["bitcoin"].chain == BITCOIN.chain
