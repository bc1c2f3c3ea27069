"""Attacks by customers: claims, prices and reserved amounts. The table stands in SECURITY.md."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from sqlalchemy import select

from reconciler.storage import tables
from schemas.codes import ClaimEnd, Phase
from schemas.commands import (
    AmendOrder,
    CancelOrder,
    ClaimPaid,
    Revive,
)
from tests.parts.attacks import ATTACKER, DUE, codes, order
from tests.parts.world import ETH, SHARED, World, address

# Claims


@pytest.mark.parametrize("route", ["own", "shared"])
@pytest.mark.parametrize("first", [True, False])
async def test_attack_claim_theft(each_database: World, route: str, first: bool) -> None:
    """Transaction ids are public: Mallory names Alice's, before or after it is seen."""
    for name in ("o-1", "o-2"):
        await each_database.place(name, route=route)
    to = SHARED if route == "shared" else address(1)
    paid = each_database.ethereum.seen(
        to, int((await each_database.last("o-1")).due), tx="0x" + "ab" * 32
    )
    stolen = ClaimPaid(idempotency_key="m", reference="o-2", transaction="0x" + "ab" * 32)
    if first:
        await each_database.commands(stolen)
    await each_database.mine(3, paid)
    if not first:
        await each_database.commands(stolen)
    assert (await each_database.last("o-1")).phase is Phase.CONFIRMED
    assert (await each_database.last("o-2")).received_final == 0
    assert (await each_database.state("o-2")).claims[0].end is ClaimEnd.ALREADY_USED
    assert set(await each_database.open_exceptions()) == {"claim_already_used"}


async def test_attack_sender_claimed_by_a_stranger(world: World) -> None:
    """The richest sender on the chain is named by everybody: it ranks, and never credits."""
    for name in ("o-1", "o-2"):
        await world.place(name, route="shared")
    await world.commands(ClaimPaid(idempotency_key="m", reference="o-2", sender=ATTACKER))
    await world.mine(3, world.ethereum.seen(SHARED, DUE, sender=ATTACKER))
    assert (await world.last("o-2")).received_final == 0
    (found,) = (await world.open_exceptions()).values()
    assert found.order is None


async def test_attack_claim_flood(world: World) -> None:
    """A thousand presses and ids: three ids are looked up, the order's events do not grow."""
    await world.place()
    claims = [
        ClaimPaid(idempotency_key=f"c-{n}", reference="o-1", transaction=f"0x{n:064x}")
        for n in range(250)
    ]
    await world.commands(*claims)
    presses = [ClaimPaid(idempotency_key=f"p-{n}", reference="o-1") for n in range(250)]
    await world.commands(*presses)
    state = await world.state("o-1")
    most = state.terms.policy.claims_max
    assert len({claim.tx for claim in state.claims if claim.tx}) == most == 3
    assert set(await codes(world)) == {"too_many_claims"}
    assert await world.kinds("o-1") == ["awaiting", "claimed"]
    async with world.engine.connect() as connection:
        topics = (await connection.execute(select(tables.outbox.c.topic))).scalars().all()
    assert sum(topic.startswith("requests.") for topic in topics) == most * len(world.context.lanes)


async def test_attack_button_as_a_free_option_on_the_price(world: World) -> None:
    """The button extends once, and what came late in a coin whose price moves is not counted."""
    to = await world.place(route="eth", amount=10**18)
    for number in range(5):
        await world.commands(ClaimPaid(idempotency_key=f"c-{number}", reference="o-1"))
        await world.pass_time(timedelta(minutes=13))
    event = await world.last()
    assert event.open_until - event.deadline == timedelta(minutes=20)
    await world.mine(3, world.ethereum.seen(to, 10**18, asset=ETH, position="value"))
    assert (await world.last()).received_final == 0
    await world.pass_time(timedelta(minutes=30))
    await world.decide(Revive(reference="o-1"))
    assert await codes(world) == ["not_revivable"]


# Orders and amounts


async def test_attack_reserved_amounts_are_squatted(world: World) -> None:
    """All amounts near a price are taken: the next is refused by name, prices elsewhere are free."""
    shared = world.context.routes["shared"]
    world.context.routes["shared"] = msgspec.structs.replace(shared, steps_max=5)
    squatters = [order(n, route="shared", address=None) for n in range(1, 7)]
    await world.commands(*squatters)
    assert await codes(world) == ["no_free_amount"]
    dues = {int((await world.last(f"o-{n}")).due) for n in range(1, 6)}
    assert len(dues) == 5
    assert DUE not in dues
    await world.commands(order(7, route="shared", address=None, amount="40000000"))
    await world.commands(order(8))
    assert await codes(world) == ["no_free_amount"]
    await world.facts(world.ethereum.covered(SHARED))
    await world.pass_time(timedelta(days=31, minutes=80))
    await world.commands(order(9, route="shared", address=None))
    assert await codes(world) == ["no_free_amount"]


async def test_attack_amount_of_another_customer_is_guessed(world: World) -> None:
    """Amounts and page tokens are keyed: the same references elsewhere give others."""
    await world.commands(*(order(n, route="shared", address=None) for n in range(1, 9)))
    events = [await world.last(f"o-{n}") for n in range(1, 9)]
    other = await World.open()
    other.context.secret = b"another secret of thirty-two b.."
    await other.commands(*(order(n, route="shared", address=None) for n in range(1, 9)))
    elsewhere = [await other.last(f"o-{n}") for n in range(1, 9)]
    await other.close()
    assert [int(e.due) for e in events] != [int(e.due) for e in elsewhere]
    tokens = {e.page_token for e in events} | {e.page_token for e in elsewhere}
    assert len(tokens) == 16
    assert not any("o-" in token for token in tokens)


@pytest.mark.parametrize(
    ("amount", "code"),
    [
        ("-1", "amount_negative"),
        ("1e9", "amount_exponent"),
        ("0x10", "amount_malformed"),
        ("２５", "amount_malformed"),
        ("25_000_000", "amount_malformed"),
        (" 25", "amount_malformed"),
        (str(2**256), "amount_too_large"),
        ("9" * 200, "amount_too_large"),
        ("1" + "0" * 15 + "1", "amount_too_large"),
        ("NaN", "amount_malformed"),
        ("0", "amount_zero"),
    ],
)
async def test_attack_amounts_that_read_as_something_else(
    world: World, amount: str, code: str
) -> None:
    await world.commands(order(amount=amount))
    assert await codes(world) == [code]


async def test_attack_address_of_another_order_is_taken(world: World) -> None:
    """One order's address in another's name, in another letter case, or the shop's shared one."""
    mine = "0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B"
    await world.commands(order(1, address=mine))
    await world.commands(order(2, address=mine.lower()), order(3, address=mine))
    assert await codes(world) == ["address_in_use", "address_in_use"]


async def test_attack_price_is_lowered_after_the_payment(world: World) -> None:
    """Terms are frozen: the same key with another amount is a conflict, and so is a second order."""
    await world.place(amount=DUE)
    placed = order(1, amount=str(DUE))
    await world.commands(placed, msgspec.structs.replace(placed, amount="10000"))
    assert await codes(world) == ["reference_in_use", "reference_in_use"]
    await world.mine(3, world.ethereum.seen(address(1), DUE))
    await world.commands(AmendOrder(idempotency_key="a", reference="o-1", amount="10000"))
    assert (await codes(world))[-1] == "order_confirmed"
    assert (await world.last()).due == DUE


async def test_attack_cancel_races_the_payment(world: World) -> None:
    to = await world.place()
    await world.facts(world.ethereum.seen(to, DUE, height=None))
    await world.commands(CancelOrder(idempotency_key="x", reference="o-1", reason="refund me"))
    assert await codes(world) == ["money_pending"]
    assert (await world.last()).phase is Phase.DETECTED
