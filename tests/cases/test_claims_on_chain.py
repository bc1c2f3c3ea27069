"""Cases CH-M01 to M14 where a node answers: claims that are looked up, on every chain there is."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from sqlalchemy import select

from chains.devnet.faults import DropSocket
from reconciler.services.sweep import sweep_lane
from reconciler.storage import tables
from schemas.codes import Attention, ClaimEnd, Phase
from schemas.commands import ClaimPaid, PlaceOrder
from schemas.envelope import derived_id, from_headers
from tests.parts.whole_way import Way, whole_way
from tests.parts.world import ETHEREUM, POLYGON, SHARED, START, World, address

DUE = 25_000_000
UNKNOWN = "0x" + "ab" * 32


async def ends(way: Way, order: str = "o-1") -> list[ClaimEnd]:
    return [claim.end for claim in (await way.world.state(order)).claims]


# CH-M01


@pytest.mark.parametrize("flagged", ["o-1", "o-2"])
async def test_m01_round_price_on_a_shared_address_is_nobodys_and_the_reserved_one_is(
    way: Way, flagged: str
) -> None:
    for order in ("o-1", "o-2"):
        await way.place(order, amount=30_000_000, route="shared")
    await way.claim(order=flagged)
    way.ethereum.pay(SHARED, 30_000_000)
    await way.mine(3)
    assert set(await way.world.open_exceptions()) == {"unmatched"}
    due = int((await way.world.last("o-2")).due)
    way.ethereum.pay(SHARED, due)
    await way.mine(3)
    assert (await way.world.last("o-2")).phase is Phase.CONFIRMED
    assert (await way.world.last("o-1")).received_final == 0


# CH-M02


@pytest.mark.parametrize(
    "spelled", ["{0}", "0X{1}", "{2}", "{0}-0", "https://etherscan.io/tx/{0}?a=1"]
)
async def test_m02_second_order_with_the_first_one_s_transaction_is_already_used(
    way: Way, spelled: str
) -> None:
    world = way.world
    first = await way.place("o-1")
    tx = way.ethereum.pay(first, DUE)
    await way.mine(3)
    await way.place("o-2")
    await way.claim(spelled.format(tx, tx[2:].upper(), tx[2:]), order="o-2")
    assert await ends(way, "o-2") == [ClaimEnd.ALREADY_USED]
    assert (await world.last("o-2")).received_final == 0
    await way.claim(tx, order="o-1")
    assert await ends(way, "o-1") == [ClaimEnd.USED]
    found = (await world.open_exceptions())["claim_already_used"]
    assert found.order == "o-2"


# CH-M03


@pytest.mark.parametrize("thief_first", [True, False])
@pytest.mark.parametrize("after_mining", [True, False])
async def test_m03_stranger_s_claim_takes_nothing_whoever_comes_first(
    way: Way, thief_first: bool, after_mining: bool
) -> None:
    """Alice pays her amount on the shared address; Mallory names the transaction."""
    for order in ("o-1", "o-2"):
        await way.place(order, route="shared")
    due = int((await way.world.last("o-1")).due)
    tx = way.ethereum.pay(SHARED, due)
    if after_mining:
        await way.mine(1)
    for order in ("o-2", "o-1") if thief_first else ("o-1", "o-2"):
        await way.claim(tx, order=order)
    await way.mine(3)
    assert (await way.world.last("o-1")).phase is Phase.CONFIRMED
    assert (await way.world.last("o-2")).received_final == 0
    assert (await ends(way, "o-1"), await ends(way, "o-2")) == (
        [ClaimEnd.USED],
        [ClaimEnd.ALREADY_USED],
    )


@pytest.mark.parametrize("claims", [("o-1", "o-2"), ("o-2", "o-1")])
async def test_m03_neighbour_two_claims_on_money_without_an_order_are_a_person_s_to_judge(
    way: Way, claims: tuple[str, str]
) -> None:
    for order in ("o-1", "o-2"):
        await way.place(order, route="shared")
    tx = way.ethereum.pay(SHARED, DUE)
    await way.mine(1)
    for order in claims:
        await way.claim(tx, order=order)
    await way.mine(3)
    (found,) = (await way.world.open_exceptions()).values()
    assert found.kind.value in {"ambiguous", "unmatched"}
    assert {s.order for s in found.suggestions} == {"o-1", "o-2"}
    for order in claims:
        assert (await way.world.last(order)).received_final == 0


# CH-M04


@pytest.mark.parametrize(("minutes", "late"), [(59, False), (62, True)])
async def test_m04_money_after_the_end_is_told_with_its_amount_and_never_counted_by_itself(
    way: Way, minutes: int, late: bool
) -> None:
    to = await way.place()
    await way.pass_time(timedelta(minutes=minutes))
    way.ethereum.pay(to, DUE)
    await way.mine(3)
    event = await way.world.last()
    assert event.phase is (Phase.EXPIRED if late else Phase.CONFIRMED)
    if late:
        assert event.kind.value == "late"
        assert (await way.world.open_exceptions())["late"].amount == DUE


# CH-M05


@pytest.mark.parametrize(
    ("paid", "phase"),
    [
        ((990_000, 5_000), Phase.CONFIRMED),
        ((990_000, 4_999), Phase.PARTIALLY_PAID),
        ((999_556,), Phase.CONFIRMED),
        ((994_999,), Phase.PARTIALLY_PAID),
    ],
)
async def test_m05_fee_of_an_exchange_a_top_up_and_444_units_short(
    way: Way, paid: tuple[int, ...], phase: Phase
) -> None:
    to = await way.place(amount=1_000_000)
    for amount in paid:
        way.ethereum.pay(to, amount)
        await way.mine(3)
    event = await way.world.last()
    assert event.phase is phase
    if phase is Phase.PARTIALLY_PAID:
        assert event.missing > 0


# CH-M06


@pytest.mark.parametrize("attempts", [2, 9])
async def test_m06_sister_orders_that_expire_leave_the_paid_one_alone(
    world: World, attempts: int
) -> None:
    """Every page view made an attempt; one was paid, the others ran out: each has its own end."""
    for number in range(1, attempts + 1):
        await world.place(f"o-{number}", purchase="shop-7")
    await world.mine(3, world.ethereum.seen(address(1), DUE))
    await world.pass_time(timedelta(minutes=90))
    assert (await world.last("o-1")).phase is Phase.CONFIRMED
    for number in range(2, attempts + 1):
        assert await world.kinds(f"o-{number}") == ["awaiting", "cancelled"]
    await world.mine(3, world.ethereum.seen(address(2), DUE))
    assert (await world.last("o-1")).phase is Phase.CONFIRMED
    assert set(await world.open_exceptions()) == {"paid_twice"}


async def test_m06_neighbour_without_a_common_name_they_know_nothing_of_each_other(
    world: World,
) -> None:
    for number in (1, 2):
        await world.place(f"o-{number}")
    await world.mine(3, world.ethereum.seen(address(1), DUE))
    await world.pass_time(timedelta(minutes=90))
    assert (await world.last("o-1")).phase is Phase.CONFIRMED
    assert (await world.last("o-2")).phase is Phase.EXPIRED


# CH-M07


async def test_m07_event_s_id_is_made_of_order_and_sequence_so_a_repeat_is_the_same(
    world: World,
) -> None:

    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, DUE))
    async with world.engine.connect() as connection:
        rows = await connection.execute(
            select(tables.outbox.c.headers)
            .where(tables.outbox.c.topic == "payment-events")
            .order_by(tables.outbox.c.id)
        )
        ids = [
            from_headers(list(msgspec.msgpack.decode(row.headers)), default_time=START).id
            for row in rows
        ]
    events = await world.events("o-1")
    assert ids == [derived_id("payment-event", "o-1", str(event.sequence)) for event in events]
    assert len(set(ids)) == len(ids) == 3


# CH-M08


@pytest.mark.parametrize("claim_first", [True, False])
async def test_m08_right_address_on_another_network_is_named_and_not_credited(
    quick_world: World, claim_first: bool
) -> None:
    async with whole_way(quick_world, [ETHEREUM, POLYGON]) as way:
        to = await way.place()
        tx = way.polygon.pay(to, DUE, "USDC")
        if claim_first:
            await way.claim(tx)
        await way.mine(3, on=way.polygon)
        if not claim_first:
            await way.claim(tx)
        event = await quick_world.last()
        assert (event.received_final, event.attention) == (0, (Attention.WRONG_NETWORK,))
        assert await ends(way) == [ClaimEnd.OTHER_CHAIN]
        found = (await quick_world.open_exceptions())["wrong_network"]
        assert (found.chain, found.order, found.amount) == (POLYGON, "o-1", DUE)


async def test_m08_neighbour_on_a_network_that_nobody_watches_it_is_not_found(way: Way) -> None:
    await way.place()
    await way.claim(UNKNOWN)
    await way.pass_time(timedelta(minutes=30))
    assert (await way.world.last()).attention == (Attention.CLAIMED_UNSEEN,)
    await way.pass_time(timedelta(minutes=60))
    assert await ends(way) == [ClaimEnd.UNSEEN]
    assert (await way.world.last()).phase is Phase.EXPIRED


# CH-M09


@pytest.mark.parametrize("off_by", [-1, 1, -10_000, 10_000])
async def test_m09_payment_without_its_reference_goes_to_nobody_near_it(
    quick_world: World, off_by: int
) -> None:
    """The reserved amount is the reference here: exact, or a person decides; nothing is near enough."""
    await quick_world.place("o-1", route="shared")
    due = int((await quick_world.last("o-1")).due)
    await quick_world.mine(3, quick_world.ethereum.seen(SHARED, due + off_by))
    assert await quick_world.kinds("o-1") == ["awaiting"]
    assert set(await quick_world.open_exceptions()) == {"unmatched"}


@pytest.mark.parametrize("reference", ["order-7 ", " order-7", "order\n7", ""])
async def test_m09_neighbour_reference_with_a_blank_is_refused_and_never_trimmed(
    quick_world: World, reference: str
) -> None:
    await quick_world.commands(
        PlaceOrder(
            idempotency_key="k",
            reference=reference,
            route="own",
            amount=str(DUE),
            address=address(1),
        )
    )
    assert [code for code, _ in await quick_world.rejections()] == ["unreadable"]
    assert await quick_world.events() == []


# CH-M10


@pytest.mark.parametrize("before_final", [True, False])
async def test_m10_order_that_is_paid_twice_on_chain_is_confirmed_once(
    way: Way, before_final: bool
) -> None:
    to = await way.place()
    way.ethereum.pay(to, DUE)
    await way.mine(1 if before_final else 3)
    way.ethereum.pay(to, DUE)
    await way.mine(3)
    event = await way.world.last()
    assert (await way.world.kinds("o-1")).count("confirmed") == 1
    assert (event.received_final, event.excess) == (2 * DUE, DUE)
    assert (await way.world.open_exceptions())["overpaid"].amount == DUE


# CH-M11


@pytest.mark.parametrize("seconds", [0, 40, 600, 3_000])
async def test_m11_claim_before_any_node_knows_the_transaction_is_kept_and_used(
    way: Way, seconds: int
) -> None:
    """Unknown, then waiting, then mined: not refused, not paid, and not forgotten."""
    line = way.ethereum
    to = await way.place()
    other = await way.place("o-2")
    tx = line.pay(to, DUE)
    line.node.set(mempool=False)
    await way.claim(tx)
    assert await ends(way) == [ClaimEnd.OPEN]
    if seconds:
        await way.pass_time(timedelta(seconds=seconds))
    line.node.set(mempool=True)
    assert (await way.world.last()).phase is Phase.CLAIMED
    await way.mine(3)
    assert (await way.world.last()).phase is Phase.CONFIRMED
    assert await ends(way) == [ClaimEnd.USED]
    assert (await way.world.last("o-2")).address == other


@pytest.mark.parametrize("restarted", [False, True])
async def test_m11_neighbour_claim_of_what_fails_later_hears_of_it(
    way: Way, restarted: bool
) -> None:
    """Waiting when it was named, failed when it was mined: the claim ends, and not as unseen."""
    line = way.ethereum
    to = await way.place()
    tx = line.pay(to, DUE)
    line.chain.deploy_token("USDT", 6, address=line.token("USDT"), kind="returns_false")
    broke = line.chain.account("broke")
    poor = line.chain.pay_token(line.token("USDT"), broke, to, DUE)
    await way.claim(poor)
    assert await ends(way) == [ClaimEnd.OPEN]
    if restarted:
        await line.restart()
        line.clock.pass_by(1.0)
    await way.mine(1)
    await way.pass_time(timedelta(minutes=2))
    assert await ends(way) == [ClaimEnd.PAYS_NOTHING]
    assert tx in {t.transfer.split("/")[1] for t in (await way.world.last()).transfers}


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("0x" + "a" * 63, False),
        ("0x" + "a" * 65, False),
        ("https://etherscan.io/tx/" + UNKNOWN, True),
        ("Transaction: " + UNKNOWN[2:].upper() + "\n", True),
        (f"{UNKNOWN} {'0x' + 'cd' * 32}", False),
    ],
)
async def test_m11_what_a_customer_types_is_read_or_dropped_and_the_flag_stands(
    way: Way, typed: str, named: bool
) -> None:
    await way.place()
    await way.claim(typed)
    (claim,) = (await way.world.state("o-1")).claims
    assert (claim.tx == UNKNOWN) is named
    assert claim.end is (ClaimEnd.OPEN if named else ClaimEnd.JUNK)
    assert (await way.world.last()).phase is Phase.CLAIMED


# CH-M12


@pytest.mark.parametrize("paid", [38_879, 38_897])
async def test_m12_frozen_amount_is_the_only_yardstick(quick_world: World, paid: int) -> None:
    to = await quick_world.place(amount=38_879)
    await quick_world.mine(3, quick_world.ethereum.seen(to, paid))
    assert (await quick_world.last()).phase is Phase.CONFIRMED


# CH-M13


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"amount": "0"}, "amount_zero"),
        ({"amount": "1"}, "amount_below_minimum"),
        ({"amount": "9999"}, "amount_below_minimum"),
        ({"amount_decimal": "0.0000004"}, "amount_fraction"),
        ({"amount_decimal": "0"}, "amount_zero"),
    ],
)
async def test_m13_order_below_what_can_be_paid_is_refused_when_it_is_placed(
    quick_world: World, fields: dict[str, str], code: str
) -> None:
    await quick_world.commands(
        PlaceOrder(idempotency_key="k", reference="o-1", route="own", address=address(1), **fields)
    )
    assert [found for found, _ in await quick_world.rejections()] == [code]
    assert await quick_world.events() == []


# CH-M14


@pytest.mark.parametrize("killed_after", [0, 1, 199, 200])
async def test_m14_orders_of_one_second_all_end_once_wherever_the_sweeper_dies(
    world: World, killed_after: int
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
        for n in range(30)
    ]
    await world.commands(*orders)
    await world.facts(*(world.ethereum.covered(address(n)) for n in range(30)))
    await world.pass_time(timedelta(minutes=61))
    lane = world.ethereum.lanes[0].name
    if killed_after:
        await sweep_lane(world.store, world.context, lane, limit=min(killed_after, 7))
    while await sweep_lane(world.store, world.context, lane, limit=7):
        pass
    ended = [e.order for e in await world.events() if e.phase is Phase.EXPIRED]
    assert sorted(ended) == sorted(f"o-{n}" for n in range(30))


async def test_m14_neighbour_a_chain_that_is_away_ends_nobody_and_then_everybody(way: Way) -> None:
    for number in range(1, 6):
        await way.place(f"o-{number}")
    await way.world.commands(ClaimPaid(idempotency_key="c", reference="o-3"))
    way.ethereum.node.faults.add(DropSocket(times=None))
    await way.pass_time(timedelta(minutes=90))
    assert not [e for e in await way.world.events() if e.phase is Phase.EXPIRED]
    way.ethereum.node.faults.clear()
    await way.pass_time(timedelta(minutes=1))
    ended = [e.order for e in await way.world.events() if e.phase is Phase.EXPIRED]
    assert sorted(ended) == [f"o-{number}" for number in range(1, 6)]
