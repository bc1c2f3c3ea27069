"""What an address holds is compared with what we know came to it, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from chains.addresses import canonical_key
from reconciler.stream.promise import Lane
from reconciler.stream.topics import transfers_topic
from schemas.codes import Attention, ExceptionKind, Phase
from schemas.commands import Close
from tests.parts.derived import address_at, context, derived_routes, place
from tests.parts.world import ETHEREUM, POLYGON, SHARED, USDC, USDT, World
from tests.parts.worlds import BOTH, open_world

USDT_25 = 25_000_000
LOOK = timedelta(minutes=30)
HOUR = timedelta(minutes=61)


@pytest.fixture(params=BOTH)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A world whose orders wait half an hour for a second look before they end without money."""
    url = "sqlite+aiosqlite://"
    if request.param != "sqlite":
        url = request.getfixturevalue("postgres_tables")
    made = await open_world(url, second_look_s=int(LOOK.total_seconds()))
    yield made
    await made.close()


async def first_sight(world: World, to: str, amount: int = 0) -> None:
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, amount))


async def test_order_without_money_ends_once_its_balance_was_explained(world: World) -> None:
    to = await world.place()
    await first_sight(world, to, 7)
    await world.pass_time(HOUR)
    assert await world.kinds("o-1") == ["awaiting"]
    await world.facts(world.ethereum.balance(to, 7))
    await world.mine(1)
    assert await world.kinds("o-1") == ["awaiting", "expired"]
    assert await world.open_exceptions() == {}


async def test_a_derived_address_is_an_own_one_and_its_balance_is_explained_first(
    world: World,
) -> None:
    rules = world.context.routes["own"].policy
    route = msgspec.structs.replace(derived_routes()["ethereum"], policy=rules)
    world.context = context(world, ethereum=route)
    await world.commands(place(1))
    to = address_at(0)
    await world.facts(world.ethereum.covered(to))
    await first_sight(world, to, 7)
    await world.pass_time(HOUR)
    assert await world.kinds("o-1") == ["awaiting"]
    await world.facts(world.ethereum.balance(to, 7))
    await world.mine(1)
    assert await world.kinds("o-1") == ["awaiting", "expired"]


async def test_order_without_money_ends_by_itself_when_nobody_looks(world: World) -> None:
    to = await world.place()
    await first_sight(world, to)
    await world.pass_time(HOUR)
    await world.pass_time(LOOK - timedelta(minutes=2))
    assert await world.kinds("o-1") == ["awaiting"]
    await world.pass_time(timedelta(minutes=3))
    assert await world.kinds("o-1") == ["awaiting", "expired"]


async def test_a_first_sight_after_the_end_compares_nothing(world: World) -> None:
    to = await world.place()
    await world.pass_time(HOUR)
    await world.facts(world.ethereum.balance(to, USDT_25))
    await world.mine(1)
    assert await world.kinds("o-1") == ["awaiting"]
    assert await world.open_exceptions() == {}


async def test_comparison_before_the_end_does_not_let_it_end(world: World) -> None:
    to = await world.place()
    await first_sight(world, to)
    await world.mine(2)
    await world.facts(world.ethereum.balance(to, 0))
    await world.pass_time(HOUR)
    assert await world.kinds("o-1") == ["awaiting"]


async def test_unexplained_rise_holds_the_end_until_the_transfer_is_found(world: World) -> None:
    to = await world.place()
    await first_sight(world, to)
    missed = world.ethereum.seen(to, USDT_25)
    await world.mine(1)
    await world.pass_time(HOUR)
    await world.facts(world.ethereum.balance(to, USDT_25))
    await world.pass_time(3 * LOOK)
    last = await world.last()
    assert last.phase is Phase.AWAITING_PAYMENT
    assert {Attention.BALANCE_DIFFERS, Attention.HELD} <= set(last.attention)
    found = (await world.open_exceptions())[ExceptionKind.BALANCE_DIFFERS]
    assert (found.amount, found.order) == (USDT_25, "o-1")

    await world.mine(1, missed)
    await world.facts(world.ethereum.balance(to, USDT_25))
    await world.mine(1)
    last = await world.last()
    assert last.phase is Phase.CONFIRMED
    assert Attention.BALANCE_DIFFERS not in last.attention
    assert await world.open_exceptions() == {}


@pytest.mark.parametrize("more", [0, 1])
async def test_one_base_unit_more_than_came_is_a_difference(world: World, more: int) -> None:
    to = await world.place()
    await first_sight(world, to, 5)
    await world.mine(3, world.ethereum.seen(to, USDT_25))
    await world.facts(world.ethereum.balance(to, 5 + USDT_25 + more))
    differs = ExceptionKind.BALANCE_DIFFERS in await world.open_exceptions()
    assert differs == bool(more)


async def test_money_taken_away_hides_nothing_and_alarms_nobody(world: World) -> None:
    to = await world.place()
    await first_sight(world, to, 100)
    await world.mine(3, world.ethereum.seen(to, USDT_25))
    await world.facts(world.ethereum.balance(to, 0))
    assert await world.open_exceptions() == {}
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, 3))
    assert (await world.open_exceptions())[ExceptionKind.BALANCE_DIFFERS].amount == 3


async def test_money_that_was_seen_unexplained_still_is_when_the_shop_takes_it_away(
    world: World,
) -> None:
    to = await world.place()
    await first_sight(world, to)
    missed = world.ethereum.seen(to, USDT_25)
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, USDT_25))
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, 0))
    await world.pass_time(HOUR)
    await world.facts(world.ethereum.balance(to, 3))
    await world.pass_time(3 * LOOK)
    assert (await world.last()).phase is Phase.AWAITING_PAYMENT
    found = (await world.open_exceptions())[ExceptionKind.BALANCE_DIFFERS]
    assert found.amount == USDT_25

    await world.facts(missed, world.ethereum.balance(to, 0))
    await world.mine(1)
    assert await world.open_exceptions() == {}
    assert (await world.last()).phase is Phase.CONFIRMED


async def test_a_person_explains_what_is_held_and_the_order_ends(world: World) -> None:
    to = await world.place()
    await first_sight(world, to)
    await world.pass_time(HOUR)
    await world.facts(world.ethereum.balance(to, 9))
    found = (await world.open_exceptions())[ExceptionKind.BALANCE_DIFFERS]
    await world.decide(Close(exception=found.exception))
    await world.mine(1)
    assert await world.open_exceptions() == {}
    assert (await world.last()).phase is Phase.EXPIRED

    # What rises from there is another difference, and is told again.
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, 12))
    assert (await world.open_exceptions())[ExceptionKind.BALANCE_DIFFERS].amount == 3


async def test_difference_in_another_asset_holds_too_and_each_is_settled_alone(
    world: World,
) -> None:
    to = await world.place()
    await world.mine(1)
    for asset in (USDT, USDC):
        await world.facts(world.ethereum.balance(to, 0, asset=asset))
    await world.mine(1)
    for asset in (USDT, USDC):
        await world.facts(world.ethereum.balance(to, 4, asset=asset))
    opened = [e.exception for e in await world.exceptions()]
    assert len(opened) == 2
    await world.mine(1)
    await world.decide(Close(exception=opened[0]))
    assert Attention.BALANCE_DIFFERS in (await world.last()).attention
    await world.decide(Close(exception=opened[1]))
    assert await world.open_exceptions() == {}
    assert Attention.BALANCE_DIFFERS not in (await world.last()).attention


async def test_shared_address_that_differs_holds_the_ends_of_all_its_orders(world: World) -> None:
    await world.place("o-1", route="shared")
    await world.place("o-2", route="shared")
    await first_sight(world, SHARED)
    missed = world.ethereum.seen(SHARED, 5)
    await world.mine(1)
    await world.facts(world.ethereum.balance(SHARED, 5))
    await world.pass_time(HOUR)
    assert [(await world.last(name)).phase for name in ("o-1", "o-2")] == [
        Phase.AWAITING_PAYMENT,
        Phase.AWAITING_PAYMENT,
    ]
    await world.facts(missed, world.ethereum.balance(SHARED, 5))
    await world.mine(1)
    assert [(await world.last(name)).phase for name in ("o-1", "o-2")] == [
        Phase.EXPIRED,
        Phase.EXPIRED,
    ]


async def test_balances_of_blocks_that_were_not_read_or_are_old_say_nothing(world: World) -> None:
    to = await world.place()
    await first_sight(world, to)
    ahead = world.ethereum.balance(to, 50, height=world.ethereum.height + 5)
    await world.facts(ahead)
    assert await world.open_exceptions() == {}
    await world.mine(1)
    await world.facts(world.ethereum.balance(to, 0))
    await world.facts(world.ethereum.balance(to, 50, height=world.ethereum.height - 1))
    assert await world.open_exceptions() == {}


async def test_balance_on_another_lane_than_its_own_says_nothing(world: World) -> None:
    world.context.lanes[ETHEREUM] = 2
    to = await world.place()
    lanes = world.ethereum.lanes = [Lane(transfers_topic(ETHEREUM), n) for n in (0, 1)]
    own = next(
        n for n in lanes if n.name == world.context.lane_of(ETHEREUM, canonical_key(ETHEREUM, to))
    )
    other = next(n for n in lanes if n != own)
    await world.facts(world.ethereum.covered(to), lane=own)
    mark = world.ethereum.watermark()
    for lane in lanes:
        await world.facts(mark, lane=lane)
    await world.facts(world.ethereum.balance(to, 0), lane=own)
    await world.facts(world.ethereum.watermark(), lane=other)
    await world.facts(world.ethereum.balance(to, USDT_25), lane=other)
    assert await world.open_exceptions() == {}


async def test_balance_of_a_stranger_or_of_an_unlisted_asset_is_kept_as_unreadable(
    world: World,
) -> None:
    await world.place()
    await world.mine(1)
    strange = world.ethereum.balance("0x" + "9" * 40, 1)
    await world.facts(strange)
    assert ExceptionKind.UNREADABLE_FACT in await world.open_exceptions()


async def test_watched_on_another_chain_the_address_is_compared_there(world: World) -> None:
    to = await world.place()
    usdc_there = next(
        a.id for a in world.catalogue.assets_of(POLYGON) if a.symbol.startswith("USDC")
    )
    covered = world.polygon.covered(to)
    await world.facts(covered)
    await world.mine(1, chain=world.polygon)
    await world.facts(world.polygon.balance(to, 0, asset=usdc_there))
    await world.mine(1, chain=world.polygon)
    await world.facts(world.polygon.balance(to, 8, asset=usdc_there))
    found = (await world.open_exceptions())[ExceptionKind.BALANCE_DIFFERS]
    assert (found.chain, found.amount, found.order) == (POLYGON, 8, "o-1")
