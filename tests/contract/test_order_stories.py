"""Stories of one order, told through the services on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.services.blindness import watch_for_blindness
from schemas.codes import Attention, Phase
from schemas.commands import ClaimPaid, Close, Decide, Hold, PlaceOrder, Release
from tests.parts.world import SHARED, USDC, World, address


async def test_exact_payment_is_detected_and_then_confirmed(world: World) -> None:
    to = await world.place()
    await world.mine(1, world.ethereum.seen(to, 25_000_000))
    assert await world.kinds("o-1") == ["awaiting", "detected"]
    await world.mine(2)
    events = await world.events("o-1")
    assert [e.kind.value for e in events] == ["awaiting", "detected", "confirmed"]
    assert [e.sequence for e in events] == [1, 2, 3]
    assert events[-1].received_final == 25_000_000
    assert events[-1].phase is Phase.CONFIRMED
    assert await world.open_exceptions() == {}


async def test_two_parts_add_up_and_the_customer_is_told_what_is_missing(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 10_000_000))
    assert (await world.events("o-1"))[-1].missing == 15_000_000
    await world.mine(3, world.ethereum.seen(to, 15_000_000))
    kinds = await world.kinds("o-1")
    assert kinds == ["awaiting", "detected", "partially_paid", "detected", "confirmed"]


async def test_nothing_comes_and_the_order_expires_on_chain_time(world: World) -> None:
    await world.place()
    world.now += timedelta(hours=3)
    await world.inbox()
    await world.sweep()
    assert await world.kinds("o-1") == ["awaiting"]
    await world.pass_time(timedelta(minutes=61))
    assert await world.kinds("o-1") == ["awaiting", "expired"]


async def test_too_little_ends_underpaid_with_an_exception(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 10_000_000))
    await world.pass_time(timedelta(minutes=61))
    assert (await world.kinds("o-1"))[-1] == "underpaid"
    assert set(await world.open_exceptions()) == {"underpaid"}


async def test_late_money_is_attached_and_not_counted(world: World) -> None:
    to = await world.place()
    await world.pass_time(timedelta(minutes=61))
    await world.mine(3, world.ethereum.seen(to, 25_000_000))
    events = await world.events("o-1")
    assert [e.kind.value for e in events] == ["awaiting", "expired", "late"]
    assert events[-1].phase is Phase.EXPIRED
    assert events[-1].transfers[0].counted == 0
    assert set(await world.open_exceptions()) == {"late"}


async def test_reorganised_away_after_confirmation_reverses_after_patience(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 25_000_000))
    assert (await world.kinds("o-1"))[-1] == "confirmed"
    await world.facts(*(world.ethereum.retraction() for _ in range(3)))
    events = await world.events("o-1")
    assert (events[-1].kind.value, events[-1].phase) == ("adjusted", Phase.CONFIRMED)
    assert Attention.RETRACTED in events[-1].attention
    await world.pass_time(timedelta(minutes=15))
    assert (await world.kinds("o-1"))[-1] == "reversed"
    await world.pass_time(timedelta(minutes=90))
    assert (await world.kinds("o-1"))[-1] == "expired"


async def test_short_reorganisation_neither_reverses_nor_confirms_twice(world: World) -> None:
    to = await world.place()
    seen = world.ethereum.seen(to, 25_000_000)
    await world.mine(3, seen)
    await world.facts(*(world.ethereum.retraction() for _ in range(3)))
    again = world.ethereum.seen(to, 25_000_000, tx=seen.transfer.split("/")[1])
    await world.mine(5, again)
    kinds = await world.kinds("o-1")
    assert kinds.count("confirmed") == 1
    assert "reversed" not in kinds
    last = (await world.events("o-1"))[-1]
    assert last.phase is Phase.CONFIRMED
    assert last.received_final == 25_000_000
    assert last.attention == ()


async def test_two_customers_one_address_equal_price_are_told_apart(world: World) -> None:
    await world.place("o-1", route="shared", address=None)
    await world.place("o-2", route="shared", address=None)
    first, second = (await world.events("o-1"))[0], (await world.events("o-2"))[0]
    assert first.due != second.due
    await world.mine(3, world.ethereum.seen(SHARED, int(second.due)))
    assert await world.kinds("o-1") == ["awaiting"]
    assert (await world.kinds("o-2"))[-1] == "confirmed"


async def test_wrong_asset_is_named_and_never_counted(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 25_000_000, asset=USDC))
    last = (await world.events("o-1"))[-1]
    assert (last.kind.value, last.attention) == ("adjusted", (Attention.WRONG_ASSET,))
    assert last.received_final == 0
    assert set(await world.open_exceptions()) == {"wrong_asset"}


async def test_claim_flags_and_extends_but_never_credits(world: World) -> None:
    await world.place()
    await world.commands(
        ClaimPaid(idempotency_key="c", reference="o-1", transaction="0x" + "ab" * 32)
    )
    last = (await world.events("o-1"))[-1]
    assert (last.kind.value, last.phase) == ("claimed", Phase.CLAIMED)
    assert last.open_until == last.deadline + timedelta(minutes=20)
    await world.pass_time(timedelta(minutes=70))
    assert (await world.events("o-1"))[-1].attention == (Attention.CLAIMED_UNSEEN,)
    await world.pass_time(timedelta(minutes=20))
    assert (await world.kinds("o-1"))[-1] == "expired"


async def test_a_blind_chain_holds_expiry_and_tells_the_shop(world: World) -> None:
    await world.place()
    await world.mine()
    world.now += timedelta(minutes=70)
    blind = await watch_for_blindness(world.store, world.context, now=world.now)
    assert blind == ["eip155:1"]
    last = (await world.events("o-1"))[-1]
    assert (last.kind.value, last.attention) == ("adjusted", (Attention.HELD,))
    await world.pass_time(timedelta(minutes=75))
    assert (await world.events("o-1"))[-1].attention == (Attention.HELD,)
    assert await watch_for_blindness(world.store, world.context, now=world.now) == []
    await world.mine()
    assert (await world.kinds("o-1"))[-1] == "expired"


@pytest.mark.parametrize("who", ["the service", "a person"])
async def test_orders_that_end_while_a_hold_lasts_are_told_that_they_wait(
    world: World, who: str
) -> None:
    """The hold came before their end, and nothing comes from the chain that could touch them."""
    await world.place("o-1")
    await world.mine()
    if who == "a person":
        await world.decide(Hold(subject="own"))
    for minutes in (10, 45, 10, 1, 1):
        world.now += timedelta(minutes=minutes)
        await watch_for_blindness(world.store, world.context, now=world.now)
    assert await world.kinds("o-1") == ["awaiting", "adjusted"]
    assert (await world.last()).attention == (Attention.HELD,)
    told = (await world.journal("o-1")).count("decision")
    for _ in range(3):
        world.now += timedelta(minutes=1)
        await watch_for_blindness(world.store, world.context, now=world.now)
    assert (await world.journal("o-1")).count("decision") == told
    await world.pass_time(timedelta(minutes=75))
    await watch_for_blindness(world.store, world.context, now=world.now)
    if who == "a person":
        await world.decide(Release(subject="own"))
    await world.mine()
    assert (await world.kinds("o-1"))[-1] == "expired"


async def test_money_during_blindness_is_in_time_by_block_time(world: World) -> None:
    to = await world.place()
    await world.mine()
    world.now += timedelta(minutes=70)
    await watch_for_blindness(world.store, world.context, now=world.now)
    await world.mine(4, world.ethereum.seen(to, 25_000_000))
    await watch_for_blindness(world.store, world.context, now=world.now)
    await world.mine()
    assert (await world.kinds("o-1"))[-1] == "confirmed"


async def test_an_unreadable_fact_holds_its_order_until_a_person_has_seen_to_it(
    world: World,
) -> None:
    to = await world.place()
    lane = world.ethereum.lanes[0]
    await world.apply_records(lane, [world.raw(lane, "TransferSeen", b"{", key=to)])
    opened = (await world.open_exceptions())["unreadable_fact"]
    await world.pass_time(timedelta(minutes=70))
    assert Attention.HELD in (await world.events("o-1"))[-1].attention
    await world.commands(
        Decide(
            idempotency_key="d",
            actor="ann",
            reason="it was junk",
            action=Close(exception=opened.exception),
        )
    )
    await world.mine()
    assert (await world.kinds("o-1"))[-1] == "expired"


async def test_an_address_that_nobody_watches_is_told_and_its_order_waits(world: World) -> None:
    await world.commands(
        PlaceOrder(
            idempotency_key="k", reference="o-1", route="own", amount="25000000", address=address(1)
        )
    )
    await world.pass_time(timedelta(minutes=70))
    assert set(await world.open_exceptions()) == {"not_watched"}
    await world.facts(world.ethereum.covered(address(1)))
    await world.mine()
    assert (await world.kinds("o-1"))[-1] == "expired"
    assert await world.open_exceptions() == {}
