"""Cases CH-D01 to D06: amounts, sums and rates through both databases, exactly."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from sqlalchemy import select

from reconciler.model.policy import FinalityTier, Route
from reconciler.storage import tables
from schemas.amounts import BaseUnits
from schemas.codes import Phase
from schemas.commands import ClaimPaid, PlaceOrder
from schemas.values import FiatTerms
from tests.parts.world import ETH, SHARED, USDC, World, address

WEI = 10**18
LARGEST = 2**256 - 1


async def stored(world: World) -> list[tuple[int, int]]:
    async with world.engine.connect() as connection:
        table = tables.transfers
        found = await connection.execute(
            select(table.c.amount, table.c.tx_total).order_by(table.c.transfer)
        )
        return [(int(row.amount), int(row.tx_total)) for row in found]


# CH-D01


@pytest.mark.parametrize("amount", [2**63 - 1, 2**63, 10 * WEI, 2**64, 10**23])
async def test_d01_amounts_beyond_eight_bytes_are_paid_exactly(world: World, amount: int) -> None:
    to = await world.place(route="eth", amount=amount)
    await world.mine(3, world.ethereum.seen(to, amount, asset=ETH, position="value"))
    event = await world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, amount)
    assert await stored(world) == [(amount, amount)]


@pytest.mark.parametrize("amount", [1, LARGEST - 1, LARGEST])
async def test_d01_every_amount_that_a_chain_can_hold_comes_back(world: World, amount: int) -> None:
    await world.place("o-1", route="shared")
    await world.mine(1, world.ethereum.seen(SHARED, amount))
    assert await stored(world) == [(amount, amount)]
    (found,) = (await world.open_exceptions()).values()
    assert found.amount in {None, BaseUnits(amount)}  # dust is told by the day, not by the grain


# CH-D02


async def test_d02_sums_of_absurd_amounts_stop_nothing(world: World) -> None:
    """Nine times 2^256 - 1 in one transaction, then an honest payment."""
    to = await world.place(amount=3_450_000)
    absurd = [
        world.ethereum.seen(to, LARGEST, tx="0x09", position=f"log:{n}", asset=USDC)
        for n in range(9)
    ]
    done = await world.facts(*absurd)
    assert done.unreadable == 0
    await world.mine(3, world.ethereum.seen(to, 3_450_000))
    assert (await world.last()).phase is Phase.CONFIRMED
    assert (await world.last()).received_final == 3_450_000
    assert {total for _, total in await stored(world)} == {LARGEST, 3_450_000}


async def test_d02_neighbour_absurd_amounts_of_the_order_s_own_asset(world: World) -> None:
    to = await world.place(amount=3_450_000)
    absurd = [world.ethereum.seen(to, LARGEST, tx="0x09", position=f"log:{n}") for n in range(9)]
    await world.mine(3, *absurd, world.ethereum.seen(to, 3_450_000))
    assert (await world.last()).phase is Phase.CONFIRMED
    assert (await world.last()).received_final == 3_450_000


# CH-D03, CH-D04


@pytest.mark.parametrize("text", ["0.000000000000100001", "1234567.123456789012345678", "0.00001"])
async def test_d03_eighteen_decimals_come_back_without_a_float_or_an_exponent(
    world: World, text: str
) -> None:
    route: Route = msgspec.structs.replace(
        world.context.routes["eth"], minimum=BaseUnits(1), name="any"
    )
    deep = msgspec.structs.replace(
        route.policy, tiers=(FinalityTier(up_to=None, depth=3),), amount_max=BaseUnits(10**30)
    )
    world.context.routes = {"any": msgspec.structs.replace(route, policy=deep)}
    await world.commands(
        PlaceOrder(
            idempotency_key="k",
            reference="o-1",
            route="any",
            amount_decimal=text,
            address=address(1),
        )
    )
    amount = int(Decimal(text).scaleb(18))
    if amount > 10**23:
        assert [code for code, _ in await world.rejections()] == ["amount_too_large"]
        return
    await world.mine(3, world.ethereum.seen(address(1), amount, asset=ETH, position="value"))
    event = await world.last()
    assert (event.due, event.received_final) == (amount, amount)
    assert f"value={amount}" in event.payment_uri


# CH-D05 stands in tests/integration/services/test_concurrency.py, with real connections; here the repeat.


async def test_d05_same_transfer_delivered_twice_is_credited_once(world: World) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, 25_000_000)
    await world.facts(paid, paid)
    await world.facts(paid)
    await world.mine(3)
    async with world.engine.connect() as connection:
        rows = list(await connection.execute(select(tables.shares)))
    assert len(rows) == 1
    assert (await world.last()).received_final == 25_000_000


# CH-D06


@pytest.mark.parametrize("rate", ["0.00002513", "1.5", "3.1", "0.1", "64302.500000000000000001"])
async def test_d06_rates_are_kept_digit_by_digit(world: World, rate: str) -> None:
    fiat = msgspec.convert(
        {
            "currency": "EUR",
            "amount": "25.10",
            "rate": rate,
            "rate_source": "desk",
            "rate_at": "2026-11-30T11:59:00Z",
        },
        FiatTerms,
    )
    await world.place(fiat=fiat)
    await world.commands(ClaimPaid(idempotency_key="c", reference="o-1"))
    event = await world.last()
    assert (event.fiat.rate, event.fiat.amount) == (rate, "25.10")
