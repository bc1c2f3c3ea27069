"""Cases CH-M01 to M14: orders, claims, matching and expiry."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from reconciler.services.claims import request_id
from reconciler.services.sweep import sweep_lane
from schemas.codes import Attention, ClaimEnd, Phase
from schemas.commands import (
    AcceptShort,
    Assign,
    ClaimPaid,
    Part,
    PlaceOrder,
    Reject,
    Returned,
    Revive,
    Split,
    Undo,
    WriteOff,
)
from schemas.facts import LookedUpState, TransactionLookedUp
from schemas.values import FiatTerms
from tests.parts.world import ETHEREUM, PAYER, POLYGON, SHARED, World, address

DUE = 25_000_000


def tx_of(fact) -> str:
    return fact.transfer.split("/")[1]


async def claim(world: World, order: str, tx: str | None = None, **more: object) -> None:
    await world.commands(
        ClaimPaid(idempotency_key=world.key(), reference=order, transaction=tx, **more)
    )


async def end_of(world: World, order: str) -> ClaimEnd:
    return (await world.state(order)).claims[-1].end


# CH-M01


async def test_m01_two_orders_of_one_price_on_one_address_are_told_apart(world: World) -> None:
    for order in ("o-1", "o-2"):
        await world.place(order, amount=30_000_000, route="shared")
    dues = [int((await world.last(order)).due) for order in ("o-1", "o-2")]
    assert len({30_000_000, *dues}) == 3
    await claim(world, "o-1")
    await world.mine(3, world.ethereum.seen(SHARED, dues[1]))
    assert (await world.last("o-1")).phase is Phase.CLAIMED
    assert (await world.last("o-2")).phase is Phase.CONFIRMED


async def test_m01_the_round_price_itself_is_nobodys(world: World) -> None:
    for order in ("o-1", "o-2"):
        await world.place(order, amount=30_000_000, route="shared")
    await claim(world, "o-2")
    await world.mine(3, world.ethereum.seen(SHARED, 30_000_000))
    found = (await world.open_exceptions())["unmatched"]
    assert {s.order for s in found.suggestions} == {"o-1", "o-2"}
    assert (await world.last("o-1")).received_final == 0
    assert (await world.last("o-2")).received_final == 0


async def test_m01_neighbour_one_unit_beside_the_reserved_amount(world: World) -> None:
    await world.place("o-1", amount=30_000_000, route="shared")
    due = int((await world.last("o-1")).due)
    await world.mine(3, world.ethereum.seen(SHARED, due - 1), world.ethereum.seen(SHARED, due + 1))
    assert await world.kinds("o-1") == ["awaiting"]
    assert [e.kind.value for e in await world.exceptions()] == ["unmatched", "unmatched"]


async def test_m01_amount_is_free_again_only_after_the_match_span(world: World) -> None:
    await world.place("o-1", route="shared")
    due = int((await world.last("o-1")).due)
    await world.pass_time(timedelta(days=30, minutes=79))
    late = world.ethereum.seen(SHARED, due)
    await world.mine(3, late)
    assert (await world.last("o-1")).attention == (Attention.LATE,)
    await world.pass_time(timedelta(minutes=5))
    await world.mine(3, world.ethereum.seen(SHARED, due))
    assert set(await world.open_exceptions()) == {"late", "unmatched"}


# CH-M02


@pytest.mark.parametrize("spelled", ["{0}", "0X{1}", "{1}", "https://etherscan.io/tx/{0}"])
async def test_m02_transaction_that_paid_one_order_cannot_be_claimed_for_another(
    world: World, spelled: str
) -> None:
    first = await world.place("o-1")
    paid = world.ethereum.seen(first, DUE)
    await world.mine(3, paid)
    await world.place("o-2")
    tx = tx_of(paid)
    await claim(world, "o-2", spelled.format(tx, tx[2:].upper()))
    assert await end_of(world, "o-2") is ClaimEnd.ALREADY_USED
    assert (await world.last("o-2")).received_final == 0
    assert set(await world.open_exceptions()) == {"claim_already_used"}


async def test_m02_neighbour_claimed_before_it_arrived_ends_the_same(world: World) -> None:
    first = await world.place("o-1")
    await world.place("o-2")
    paid = world.ethereum.seen(first, DUE)
    await claim(world, "o-2", tx_of(paid))
    assert await end_of(world, "o-2") is ClaimEnd.OPEN
    await world.mine(3, paid)
    assert await end_of(world, "o-2") is ClaimEnd.ALREADY_USED
    assert set(await world.open_exceptions()) == {"claim_already_used"}


async def test_m02_neighbour_the_same_claim_for_its_own_order_is_used(world: World) -> None:
    to = await world.place("o-1")
    paid = world.ethereum.seen(to, DUE)
    await claim(world, "o-1", tx_of(paid))
    await world.mine(3, paid)
    await claim(world, "o-1", tx_of(paid))
    assert await end_of(world, "o-1") is ClaimEnd.USED
    assert await world.open_exceptions() == {}


# CH-M03


@pytest.mark.parametrize("claim_first", [True, False])
async def test_m03_stolen_transaction_pays_whom_the_address_says(
    world: World, claim_first: bool
) -> None:
    alice = await world.place("o-1")
    await world.place("o-2")
    paid = world.ethereum.seen(alice, DUE)
    if claim_first:
        await claim(world, "o-2", tx_of(paid))
    await world.mine(3, paid)
    if not claim_first:
        await claim(world, "o-2", tx_of(paid))
    await claim(world, "o-1", tx_of(paid))
    assert (await world.last("o-1")).phase is Phase.CONFIRMED
    assert (await world.last("o-2")).phase is Phase.CLAIMED
    assert await end_of(world, "o-1") is ClaimEnd.USED
    assert await end_of(world, "o-2") is ClaimEnd.ALREADY_USED


@pytest.mark.parametrize("claims_first", [True, False])
async def test_m03_two_claims_on_a_shared_address_are_a_persons_decision(
    world: World, claims_first: bool
) -> None:
    for order in ("o-1", "o-2"):
        await world.place(order, route="shared")
    paid = world.ethereum.seen(SHARED, DUE)
    if claims_first:
        await claim(world, "o-2", tx_of(paid))
        await claim(world, "o-1", tx_of(paid))
    await world.mine(3, paid)
    if not claims_first:
        await claim(world, "o-2", tx_of(paid))
        await claim(world, "o-1", tx_of(paid))
    found = (await world.open_exceptions())["ambiguous"]
    assert [s.order for s in found.suggestions][:2] == ["o-1", "o-2"]
    await world.decide(Assign(transfer=paid.transfer, reference="o-2"))
    assert (await world.last("o-1")).phase is Phase.CLAIMED


# CH-M04


async def test_m04_late_payment_is_told_kept_and_not_counted(world: World) -> None:
    to = await world.place()
    await world.pass_time(timedelta(minutes=65))
    await world.mine(3, world.ethereum.seen(to, DUE))
    event = await world.last()
    assert (event.kind.value, event.phase, event.transfers[0].counted) == (
        "late",
        Phase.EXPIRED,
        0,
    )
    assert (await world.open_exceptions())["late"].amount == DUE


async def test_m04_person_revives_it_and_takes_that_back(world: World) -> None:
    to = await world.place()
    await world.pass_time(timedelta(minutes=65))
    await world.mine(3, world.ethereum.seen(to, DUE))
    key = await world.decide(Revive(reference="o-1"))
    assert (await world.last()).phase is Phase.CONFIRMED
    assert await world.open_exceptions() == {}
    await world.decide(Undo(decision=key))
    assert (await world.last()).phase is Phase.REVERSED
    assert (await world.journal())[-2:] == ["decision", "reversed"]


async def test_m04_money_that_was_sent_back_cannot_be_revived(world: World) -> None:
    to = await world.place()
    await world.pass_time(timedelta(minutes=65))
    late = world.ethereum.seen(to, DUE)
    await world.mine(3, late)
    await world.decide(Returned(transfer=late.transfer, tx="0xback"))
    assert await world.open_exceptions() == {}
    await world.decide(Revive(reference="o-1"))
    assert (await world.last()).phase is Phase.EXPIRED
    assert (await world.last()).received_final == 0


async def test_m04_price_of_a_volatile_asset_does_not_hold(world: World) -> None:
    to = await world.place(route="eth", amount=10**18)
    await world.pass_time(timedelta(minutes=65))
    asset = world.context.routes["eth"].asset
    await world.mine(3, world.ethereum.seen(to, 10**18, asset=asset, position="value"))
    await world.decide(Revive(reference="o-1"))
    assert [code for code, _ in await world.rejections()] == ["not_revivable"]
    assert (await world.last()).phase is Phase.EXPIRED


async def test_m04_neighbour_in_time_by_a_second(world: World) -> None:
    to = await world.place()
    await world.pass_time(timedelta(minutes=65))
    await world.mine(
        3,
        world.ethereum.seen(
            to, DUE, height=101 + 300, first_seen_at=world.ethereum.time_at(101 + 300)
        ),
    )
    # Block 401 is that of minute 60: found by a second look, after the order had ended.
    assert (await world.last()).attention == (Attention.LATE,)
    assert (await world.last()).transfers[0].in_time


# CH-M05


async def test_m05_fee_taken_from_the_amount_and_a_top_up_add_up(world: World) -> None:
    to = await world.place(amount=1_000_000)
    await world.mine(3, world.ethereum.seen(to, 990_000))
    assert (await world.last()).missing == 10_000
    await world.mine(3, world.ethereum.seen(to, 5_000))
    event = await world.last()
    # 995,000 is 0.5 % short: within tolerance, and the grain that completes it counts.
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, 995_000)


async def test_m05_neighbour_one_unit_less(world: World) -> None:
    to = await world.place(amount=1_000_000)
    await world.mine(3, world.ethereum.seen(to, 990_000), world.ethereum.seen(to, 4_999))
    assert (await world.last()).phase is Phase.PARTIALLY_PAID
    assert (await world.last()).received_final == 990_000
    assert set(await world.open_exceptions()) == {"dust"}


async def test_m05_what_came_is_accepted_and_if_it_is_lost_it_was_not(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 4_000_000))
    await world.mine(3, world.ethereum.seen(to, 6_000_000))
    await world.decide(AcceptShort(reference="o-1"))
    assert (await world.last()).phase is Phase.CONFIRMED
    await world.facts(*(world.ethereum.retraction() for _ in range(3)))
    await world.pass_time(timedelta(minutes=15))
    assert (await world.last()).phase is Phase.REVERSED
    assert (await world.last()).received_final == 4_000_000


async def test_m05_one_decision_is_taken_back_and_the_other_stays(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 10_000_000))
    await world.pass_time(timedelta(minutes=61))
    await world.mine(3, world.ethereum.seen(to, 1_000_000))
    revived = await world.decide(Revive(reference="o-1"))
    assert (await world.last()).received_final == 11_000_000
    await world.decide(AcceptShort(reference="o-1"))
    assert (await world.last()).phase is Phase.CONFIRMED
    await world.decide(Undo(decision=revived))
    assert (await world.last()).phase is Phase.REVERSED
    decisions = (await world.state("o-1")).decisions
    assert (decisions.accepted, decisions.revived) == (11_000_000, False)
    assert await world.rejections() == []


# CH-M06 stands in tests/contract/test_purchases.py.


# CH-M07


async def test_m07_repeated_facts_tell_nothing_twice(world: World) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE)
    marks = [world.ethereum.watermark() for _ in range(3)]
    world.now = marks[-1].time
    await world.inbox()
    for _ in range(3):
        await world.facts(paid, *marks)
    assert await world.kinds("o-1") == ["awaiting", "detected", "confirmed"]
    assert len({e.sequence for e in await world.events("o-1")}) == 3


# CH-M08


async def test_m08_right_address_on_the_wrong_network(world: World) -> None:
    to = await world.place()
    usdc = next(a.id for a in world.catalogue.assets_of(POLYGON) if a.symbol.startswith("USDC"))
    paid = world.polygon.seen(to, DUE, asset=usdc)
    await claim(world, "o-1", tx_of(paid))
    await world.mine(3, paid, chain=world.polygon)
    event = await world.last()
    assert (event.received_final, event.attention) == (0, (Attention.WRONG_NETWORK,))
    assert await end_of(world, "o-1") is ClaimEnd.OTHER_CHAIN
    found = (await world.open_exceptions())["wrong_network"]
    assert (found.chain, found.order) == (POLYGON, "o-1")


@pytest.mark.parametrize("home_first", [True, False])
async def test_m08_look_ups_of_two_chains_in_any_order(world: World, home_first: bool) -> None:
    await world.place()
    tx = "0x" + "ab" * 32
    await claim(world, "o-1", tx)
    answers = []
    for chain, state in ((ETHEREUM, LookedUpState.PENDING), (POLYGON, LookedUpState.INCLUDED)):
        request = await _request(world, chain)
        answers.append(TransactionLookedUp(request=request, chain=chain, tx=tx, state=state))
    for answer in answers if home_first else answers[::-1]:
        await world.facts(answer)
    assert await end_of(world, "o-1") is ClaimEnd.OPEN
    assert (await world.state("o-1")).claims[0].known


async def _request(world: World, chain: str) -> str:
    return request_id("o-1", (await world.state("o-1")).claims[-1].key, chain)


# CH-M09: no chain here carries a reference; the amount is it, and nothing falls back to a near one.


# CH-M10


async def test_m10_paid_twice_is_one_confirmation_and_an_excess(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, DUE))
    await world.mine(3, world.ethereum.seen(to, DUE))
    event = await world.last()
    assert (await world.kinds("o-1")).count("confirmed") == 1
    assert (event.received_final, event.excess) == (2 * DUE, DUE)
    assert (await world.open_exceptions())["overpaid"].amount == DUE


async def test_m10_before_the_first_is_final(world: World) -> None:
    to = await world.place()
    await world.mine(1, world.ethereum.seen(to, DUE))
    await world.mine(3, world.ethereum.seen(to, DUE))
    assert (await world.kinds("o-1")).count("confirmed") == 1
    assert (await world.last()).excess == DUE


async def test_m10_fifteen_days_later_it_is_late_and_paid_twice(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, DUE))
    await world.pass_time(timedelta(days=15))
    again = world.ethereum.seen(to, DUE)
    await world.mine(3, again)
    event = await world.last()
    assert (event.kind.value, event.received_final) == ("late", DUE)
    assert set(await world.open_exceptions()) == {"paid_twice"}
    await world.decide(WriteOff(transfer=again.transfer))
    assert await world.open_exceptions() == {}
    assert (await world.last()).phase is Phase.CONFIRMED


async def test_m10_excess_is_taken_from_the_order_and_sent_back(world: World) -> None:
    to = await world.place()
    first, second = world.ethereum.seen(to, DUE), world.ethereum.seen(to, DUE)
    await world.mine(3, first, second)
    await world.decide(Returned(transfer=second.transfer, tx="0xback"))
    assert [code for code, _ in await world.rejections()] == ["decision_not_possible"]
    await world.decide(Reject(transfer=second.transfer))
    assert set(await world.open_exceptions()) == {"unmatched"}
    await world.decide(Returned(transfer=second.transfer, tx="0xback"))
    assert await world.open_exceptions() == {}
    assert (await world.last()).phase is Phase.CONFIRMED
    assert (await world.last()).amount_state.value == "exact"


async def test_m10_one_transfer_for_two_orders_is_split_and_adds_up(world: World) -> None:
    to = await world.place("o-1")
    await world.place("o-2")
    paid = world.ethereum.seen(to, 2 * DUE)
    await world.mine(3, paid)
    parts = tuple(Part(reference=o, amount=str(DUE)) for o in ("o-1", "o-2"))
    await world.decide(Split(transfer=paid.transfer, parts=parts))
    for order in ("o-1", "o-2"):
        assert (await world.last(order)).phase is Phase.CONFIRMED
        assert (await world.last(order)).received_final == DUE
    wrong = (parts[0], Part(reference="o-2", amount=str(DUE + 1)))
    await world.decide(Split(transfer=paid.transfer, parts=wrong))
    assert [code for code, _ in await world.rejections()] == ["parts_do_not_add_up"]


async def test_m10_money_that_goes_back_to_its_own_order_confirms_it_at_once(world: World) -> None:
    """It was deep enough while it was another's: the undoing decision leads from nothing to confirmed."""
    await world.place("o-1")
    to = await world.place("o-2")
    paid = world.ethereum.seen(to, DUE)
    await world.mine(1, paid)
    key = await world.decide(Assign(transfer=paid.transfer, reference="o-1"))
    await world.mine(10)
    assert (await world.last("o-1")).phase is Phase.CONFIRMED
    await world.decide(Undo(decision=key))
    assert (await world.last("o-1")).phase is Phase.REVERSED
    assert (await world.last("o-2")).phase is Phase.CONFIRMED


# CH-M11


async def test_m11_claim_before_the_transaction_is_seen_is_kept_and_confirms_nothing(
    world: World,
) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE, height=None, tx="0x" + "ab" * 32)
    await claim(world, "o-1", "0x" + "ab" * 32)
    assert (await world.last()).phase is Phase.CLAIMED
    await world.facts(paid)
    assert (await world.last()).phase is Phase.DETECTED
    await world.mine(3, world.ethereum.seen(to, DUE, tx="0x" + "ab" * 32))
    assert (await world.last()).phase is Phase.CONFIRMED
    assert await end_of(world, "o-1") is ClaimEnd.USED


async def test_m11_never_seen_is_told_and_ends_unseen(world: World) -> None:
    await world.place()
    await claim(world, "o-1", "0x" + "ab" * 32)
    await world.pass_time(timedelta(minutes=25))
    assert (await world.last()).attention == (Attention.CLAIMED_UNSEEN,)
    await world.pass_time(timedelta(minutes=60))
    event = await world.last()
    assert (event.phase, event.claims[0].end) == (Phase.EXPIRED, ClaimEnd.UNSEEN)
    assert set(await world.open_exceptions()) == {"claimed_unseen"}


@pytest.mark.parametrize("junk", ["0x" + "a" * 63, "paid!", "https://example.com/", ""])
async def test_m11_junk_is_dropped_and_the_flag_kept(world: World, junk: str) -> None:
    await world.place()
    await claim(world, "o-1", junk)
    assert (await world.last()).phase is Phase.CLAIMED
    assert (await world.state("o-1")).claims[0].tx is None


async def test_m11_named_sender_ranks_what_comes_after_it(world: World) -> None:
    for order in ("o-1", "o-2"):
        await world.place(order, route="shared")
    await claim(world, "o-2", sender=PAYER)
    await world.mine(3, world.ethereum.seen(SHARED, DUE))
    found = (await world.open_exceptions())["unmatched"]
    assert found.suggestions[0].order == "o-2"


# CH-M12


async def test_m12_only_the_frozen_amount_counts(world: World) -> None:
    """38,879 quoted, 38,897 paid: paid, whatever the rate says meanwhile."""
    fiat = {
        "currency": "USD",
        "amount": "25.00",
        "rate": "64302.50",
        "rate_source": "desk",
        "rate_at": "2026-11-30T11:59:00Z",
    }
    to = await world.place(amount=38_879, fiat=msgspec.convert(fiat, FiatTerms))
    await world.mine(3, world.ethereum.seen(to, 38_897))
    assert (await world.last()).phase is Phase.CONFIRMED
    assert (await world.last()).fiat.rate == "64302.50"


# CH-M13


@pytest.mark.parametrize(
    ("amount", "code"),
    [("0", "amount_zero"), ("9999", "amount_below_minimum"), ("0.4", "amount_fraction")],
)
async def test_m13_order_that_nobody_can_pay_is_refused(
    world: World, amount: str, code: str
) -> None:
    await world.commands(
        PlaceOrder(
            idempotency_key="k", reference="o-1", route="own", amount=amount, address=address(1)
        )
    )
    assert [found for found, _ in await world.rejections()] == [code]


async def test_m13_neighbour_the_least_that_can_be_paid(world: World) -> None:
    to = await world.place(amount=10_000)
    await world.mine(3, world.ethereum.seen(to, 10_000))
    assert (await world.last()).phase is Phase.CONFIRMED


# CH-M14


async def test_m14_five_hundred_orders_of_one_second_end_once_though_the_worker_is_killed(
    world: World,
) -> None:
    world.sweeps = False
    orders = [
        PlaceOrder(
            idempotency_key=f"k-{n}",
            reference=f"o-{n}",
            route="own",
            amount=str(DUE),
            address=address(n),
        )
        for n in range(500)
    ]
    await world.commands(*orders)
    await world.facts(*(world.ethereum.covered(address(n)) for n in range(500)))
    await world.pass_time(timedelta(minutes=61))
    lane = world.ethereum.lanes[0].name
    assert await sweep_lane(world.store, world.context, lane) == 200
    while await sweep_lane(world.store, world.context, lane, limit=77):
        pass
    events = await world.events()
    assert len(events) == 1_000
    assert sum(e.kind.value == "expired" for e in events) == 500
    assert {e.order for e in events if e.phase is Phase.EXPIRED} == {f"o-{n}" for n in range(500)}


# A shared address that is covered late wakes its orders.


async def test_orders_of_a_shared_address_end_when_it_is_covered(world: World) -> None:
    await world.commands(
        PlaceOrder(idempotency_key="k", reference="o-1", route="shared", amount=str(DUE))
    )
    await world.pass_time(timedelta(minutes=90))
    assert (await world.last()).attention == (Attention.NOT_COVERED,)
    await world.facts(world.ethereum.covered(SHARED))
    await world.mine(1)
    assert (await world.last()).phase is Phase.EXPIRED
    assert await world.open_exceptions() == {}
