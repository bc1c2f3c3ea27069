"""Several orders that pay for the same thing: one is confirmed, the others end."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from schemas.amounts import BaseUnits
from schemas.codes import Attention, ClaimEnd, Phase
from schemas.commands import Assign, ClaimPaid, Reject, Revive, Undo
from tests.parts.world import ETHEREUM, POLYGON, SHARED, USDT, World

DUE = 25_000_000


async def last(world: World, order: str):
    return (await world.events(order))[-1]


async def test_siblings_are_cancelled_when_one_is_confirmed(world: World) -> None:
    to = await world.place("o-1", purchase="p")
    await world.place("o-2", purchase="p")
    await world.place("o-3", purchase="p", route="shared")
    await world.place("o-4", purchase="q")
    await world.mine(3, world.ethereum.seen(to, DUE))
    assert (await last(world, "o-1")).phase is Phase.CONFIRMED
    for order in ("o-2", "o-3"):
        assert await world.kinds(order) == ["awaiting", "cancelled"]
        assert (await last(world, order)).attention == (Attention.SIBLING_CONFIRMED,)
    assert await world.kinds("o-4") == ["awaiting"]
    assert await world.open_exceptions() == {}


async def test_late_money_on_a_sibling_is_paid_twice_and_never_confirms(world: World) -> None:
    first, second = [await world.place(f"o-{n}", purchase="p") for n in (1, 2)]
    await world.mine(3, world.ethereum.seen(first, DUE))
    await world.mine(3, world.ethereum.seen(second, DUE))
    event = await last(world, "o-2")
    assert await world.kinds("o-2") == ["awaiting", "cancelled", "late"]
    assert set(event.attention) == {
        Attention.LATE,
        Attention.PAID_TWICE,
        Attention.SIBLING_CONFIRMED,
    }
    assert event.received_final == 0
    assert set(await world.open_exceptions()) == {"paid_twice"}


async def test_money_that_a_sibling_had_is_late_at_once(world: World) -> None:
    first, second = [await world.place(f"o-{n}", purchase="p") for n in (1, 2)]
    await world.mine(3, world.ethereum.seen(second, 10_000_000))
    assert (await last(world, "o-2")).received_final == 10_000_000
    await world.mine(3, world.ethereum.seen(first, DUE))
    event = await last(world, "o-2")
    assert (event.phase, event.received_final) == (Phase.CANCELLED, 0)
    assert (await world.open_exceptions())["paid_twice"].amount == BaseUnits(10_000_000)


async def test_both_paid_in_one_block_and_the_older_is_confirmed(world: World) -> None:
    first, second = [await world.place(f"o-{n}", purchase="p") for n in (1, 2)]
    await world.mine(3, world.ethereum.seen(second, DUE), world.ethereum.seen(first, DUE))
    assert (await last(world, "o-1")).phase is Phase.CONFIRMED
    assert (await last(world, "o-2")).phase is Phase.CANCELLED
    assert set(await world.open_exceptions()) == {"paid_twice"}


async def test_the_one_that_is_final_first_is_confirmed(world: World) -> None:
    first, second = [await world.place(f"o-{n}", purchase="p") for n in (1, 2)]
    await world.mine(1, world.ethereum.seen(second, DUE))
    await world.mine(3, world.ethereum.seen(first, DUE))
    assert (await last(world, "o-2")).phase is Phase.CONFIRMED
    assert (await last(world, "o-1")).phase is Phase.CANCELLED


async def test_order_placed_after_the_purchase_was_paid_ends_as_the_others_did(
    world: World,
) -> None:
    to = await world.place("o-1", purchase="p")
    await world.mine(3, world.ethereum.seen(to, DUE))
    await world.place("o-2", purchase="p")
    assert await world.kinds("o-2") == ["awaiting", "cancelled"]


async def test_order_placed_when_the_purchase_is_due_but_not_swept_ends_too(world: World) -> None:
    to = await world.place("o-1", purchase="p")
    world.sweeps = False
    await world.mine(3, world.ethereum.seen(to, DUE))
    assert await world.kinds("o-1") == ["awaiting", "detected"]
    await world.place("o-2", purchase="p")
    assert (await world.kinds("o-1"))[-1] == "confirmed"
    assert await world.kinds("o-2") == ["awaiting", "cancelled"]


async def test_expired_sibling_changes_nothing_for_the_paid_one(world: World) -> None:
    """CH-M06: the expiry of one attempt does not cancel the order that another one paid."""
    to = await world.place("o-1", purchase="p")
    await world.place("o-2", purchase="p")
    await world.mine(3, world.ethereum.seen(to, DUE))
    await world.pass_time(timedelta(minutes=300))
    assert (await last(world, "o-1")).phase is Phase.CONFIRMED
    assert await world.kinds("o-2") == ["awaiting", "cancelled"]


async def test_sibling_that_had_expired_stays_expired(world: World) -> None:
    await world.place("o-1", purchase="p")
    await world.pass_time(timedelta(minutes=61))
    to = await world.place("o-2", purchase="p")
    await world.mine(3, world.ethereum.seen(to, DUE))
    assert await world.kinds("o-1") == ["awaiting", "expired"]
    assert (await last(world, "o-2")).phase is Phase.CONFIRMED


async def test_reversal_does_not_bring_siblings_back(world: World) -> None:
    to = await world.place("o-1", purchase="p")
    await world.place("o-2", purchase="p")
    await world.mine(3, world.ethereum.seen(to, DUE))
    await world.facts(*(world.ethereum.retraction() for _ in range(3)))
    await world.pass_time(timedelta(minutes=15))
    assert (await last(world, "o-1")).phase is Phase.REVERSED
    assert (await last(world, "o-2")).phase is Phase.CANCELLED


async def test_person_gives_a_siblings_money_to_the_paid_order_and_takes_it_back(
    world: World,
) -> None:
    first, second = [await world.place(f"o-{n}", purchase="p") for n in (1, 2)]
    await world.mine(3, world.ethereum.seen(first, DUE))
    extra = world.ethereum.seen(second, DUE)
    await world.mine(3, extra)
    key = await world.decide(Assign(transfer=extra.transfer, reference="o-1"))
    assert (await last(world, "o-1")).received_final == 2 * DUE
    assert set(await world.open_exceptions()) == {"overpaid"}
    await world.decide(Undo(decision=key))
    assert (await last(world, "o-1")).received_final == DUE
    assert set(await world.open_exceptions()) == {"paid_twice"}


async def test_person_gives_late_money_to_the_cancelled_order_itself(world: World) -> None:
    """Its customer is another one after all: a person's word may lead from any outcome to any."""
    first, second = [await world.place(f"o-{n}", purchase="p") for n in (1, 2)]
    await world.mine(3, world.ethereum.seen(first, DUE))
    extra = world.ethereum.seen(second, DUE)
    await world.mine(3, extra)
    await world.decide(Assign(transfer=extra.transfer, reference="o-2"))
    assert (await last(world, "o-2")).phase is Phase.CONFIRMED
    assert (await last(world, "o-1")).phase is Phase.CONFIRMED
    await world.decide(Reject(transfer=extra.transfer))
    assert (await last(world, "o-2")).phase is Phase.REVERSED


async def test_siblings_on_two_lanes_race(quick_world: World) -> None:
    """Each lane confirms its own at its own pace: whichever is judged first wins, once."""
    await quick_world.close()
    for swept_first in (0, 1):
        world = await World.open(lanes=2)
        lanes = world.ethereum.lanes
        where: dict[int, str] = {}
        for number in range(1, 60):
            name = world.context.lane_of(ETHEREUM, f"0x{10**39 + number}")
            where.setdefault(int(name[-1]), f"o-{number}")
        world.sweeps = False
        to = {lane: await world.place(order, purchase="p") for lane, order in where.items()}
        await world.inbox()
        marks = [world.ethereum.watermark() for _ in range(3)]
        order_of_lanes = (swept_first, 1 - swept_first)
        for lane in order_of_lanes:
            paid = world.ethereum.seen(to[lane], DUE, height=marks[0].height)
            await world.facts(paid, *marks, lane=lanes[lane])
        await world.sweep()
        phases = {lane: (await last(world, where[lane])).phase for lane in (0, 1)}
        assert phases == {swept_first: Phase.CONFIRMED, 1 - swept_first: Phase.CANCELLED}
        assert set(await world.open_exceptions()) == {"paid_twice"}
        await world.close()


async def test_claim_of_a_siblings_transaction_is_already_used(world: World) -> None:
    first = await world.place("o-1", purchase="p")
    await world.place("o-2", purchase="p")
    paid = world.ethereum.seen(first, DUE)
    tx = paid.transfer.split("/")[1]
    await world.mine(1, paid)
    await world.commands(ClaimPaid(idempotency_key="c", reference="o-2", transaction=tx))
    assert (await world.state("o-2")).claims[0].end is ClaimEnd.ALREADY_USED


async def test_money_on_another_network_of_a_sibling_confirms_nobody(world: World) -> None:
    first, second = [await world.place(f"o-{n}", purchase="p") for n in (1, 2)]
    usdt = next(a.id for a in world.catalogue.assets_of(POLYGON) if a.symbol == "USDT")
    await world.mine(3, world.polygon.seen(second, DUE, asset=usdt), chain=world.polygon)
    assert (await last(world, "o-2")).attention == (Attention.WRONG_NETWORK,)
    await world.mine(3, world.ethereum.seen(first, DUE, asset=USDT))
    assert (await last(world, "o-1")).phase is Phase.CONFIRMED
    assert set(await world.open_exceptions()) == {"wrong_network"}
    assert SHARED not in {first, second}


async def test_what_one_order_has_paid_no_rule_revives_on_another(world: World) -> None:
    """Both have ended, both are paid late, and late money counts by itself: one of them is unlocked."""
    own = world.context.routes["own"]
    policy = msgspec.structs.replace(own.policy, late_revive_within_s=86_400)
    world.context.routes = {"own": msgspec.structs.replace(own, policy=policy)}
    first, second = [await world.place(f"o-{n}", purchase="p") for n in (1, 2)]
    await world.pass_time(timedelta(minutes=61))
    assert [(await last(world, f"o-{n}")).phase for n in (1, 2)] == [Phase.EXPIRED] * 2
    await world.mine(3, world.ethereum.seen(first, DUE))
    assert (await last(world, "o-1")).phase is Phase.CONFIRMED
    await world.mine(3, world.ethereum.seen(second, DUE))
    event = await last(world, "o-2")
    assert (event.phase, event.received_final) == (Phase.EXPIRED, 0)
    assert set(event.attention) == {Attention.LATE, Attention.PAID_TWICE}
    assert set(await world.open_exceptions()) == {"paid_twice"}
    await world.decide(Revive(reference="o-2"))
    await world.mine(1)
    assert (await last(world, "o-2")).phase is Phase.CONFIRMED, "a person may"
