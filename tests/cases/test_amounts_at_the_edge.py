"""Cases CH-D03 to D06 at the edges where amounts come in and go out: text, drivers, two connections."""

from __future__ import annotations

import asyncio
import csv
import io
from decimal import Decimal

import msgspec
import pytest
from sqlalchemy import select

from chains.addresses import Address
from chains.catalog import load_catalogue
from chains.registry import parse_address, payment_uri
from reconciler.exports.files import line
from reconciler.exports.rows import EXPORTS
from reconciler.services.apply_facts import apply_facts
from reconciler.storage import tables
from reconciler.storage.engine import make_engine
from reconciler.storage.positions import PositionMovedError
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Batch
from schemas.amounts import AmountError, format_decimal_amount, parse_decimal_amount
from schemas.codes import Phase
from schemas.commands import ClaimPaid, PlaceOrder
from schemas.values import FiatTerms
from tests.parts.world import ETH, ETHEREUM, USDT, World, address
from tests.parts.worlds import open_world

DUE = 25_000_000


# CH-D03


async def test_d03_twenty_digits_of_both_sides_come_back_from_either_database(world: World) -> None:
    """1234567890123456789.123456789012345678 in nine transfers, which only add up exactly."""
    asset = world.context.routes["eth"].asset
    amount = int(Decimal("1234567890123456789.123456789012345678").scaleb(18))
    parts = [amount // 9 + (1 if n < amount % 9 else 0) for n in range(9)]
    to = await world.place(route="shared")
    seen = [
        world.ethereum.seen(to, part, asset=asset, tx="0xnine", position=f"call:{n}")
        for n, part in enumerate(parts)
    ]
    await world.mine(1, *seen)
    async with world.engine.connect() as connection:
        columns = select(tables.transfers.c.amount, tables.transfers.c.tx_total)
        stored = (await connection.execute(columns)).all()
    assert sum(int(row.amount) for row in stored) == amount
    assert {int(row.tx_total) for row in stored} == {amount}


# CH-D04


@pytest.mark.parametrize(
    ("text", "decimals"),
    [("1e-8", 8), ("1E-7", 8), ("5E-7", 8), ("1e3", 6), ("1E+2", 6), ("1.5e1", 6)],
)
def test_d04_exponent_is_refused_by_name_and_never_read_as_its_first_digit(
    text: str, decimals: int
) -> None:
    with pytest.raises(AmountError) as refused:
        parse_decimal_amount(text, decimals)
    assert refused.value.code == "amount_exponent"


@pytest.mark.parametrize("field", ["amount", "amount_decimal"])
@pytest.mark.parametrize("text", ["5E-7", "1e-07", "1e8"])
async def test_d04_order_with_an_exponent_is_refused(
    quick_world: World, field: str, text: str
) -> None:
    await quick_world.commands(
        PlaceOrder(
            idempotency_key="k",
            reference="o-1",
            route="own",
            address=address(1),
            **{field: text},
        )
    )
    assert [code for code, _ in await quick_world.rejections()] == ["amount_exponent"]


@pytest.mark.parametrize(
    ("units", "decimals", "text"),
    [
        (1, 8, "0.00000001"),
        (10, 8, "0.00000010"),
        (50, 8, "0.00000050"),
        (1, 18, "0.000000000000000001"),
        (10**26, 18, "100000000.000000000000000000"),
        (0, 6, "0.000000"),
    ],
)
def test_d04_small_and_large_amounts_are_written_out(units: int, decimals: int, text: str) -> None:
    assert format_decimal_amount(units, decimals) == text
    assert parse_decimal_amount(text, decimals) == units


async def test_d04_no_exponent_leaves_in_an_event_a_uri_or_a_statement(world: World) -> None:
    amount = 10**12
    to = await world.place(route="eth", amount=amount)
    await world.mine(3, world.ethereum.seen(to, amount, asset=ETH, position="value"))
    event = await world.last()
    assert event.phase is Phase.CONFIRMED
    assert event.payment_uri.endswith(f"value={amount}")

    async def written(work) -> str:
        rows = EXPORTS["orders"].rows(work, world.catalogue, None)
        return "".join([line(row, "csv") async for row in rows])

    (cells,) = csv.reader(io.StringIO(await world.store.read(written), newline=""))
    row = dict(zip(EXPORTS["orders"].columns, cells, strict=True))
    assert (row["due"], row["due_decimal"]) == (str(amount), "0.000001000000000000")
    numbers = [row[name] for name in row if name.startswith(("due", "received", "missing"))]
    assert not any("e" in number.lower() for number in numbers)


def test_d04_uri_of_one_unit_has_no_exponent() -> None:
    receiver: Address = parse_address(ETHEREUM, address(1))
    uri = payment_uri(load_catalogue().asset(USDT), receiver, 1)
    assert uri.endswith("&uint256=1")


# CH-D05


@pytest.mark.parametrize("stale", [False, True])
async def test_d05_two_connections_that_insert_the_same_transfer_credit_it_once(
    database: str, stale: bool
) -> None:
    """Both have read that nothing is there; one inserts and credits, the other is told so."""
    world = await open_world(database)
    to = await world.place()
    lane = world.ethereum.lanes[0]
    records = [
        world.record(lane, to, world.ethereum.seen(to, DUE)),
        world.record(lane, "k", world.ethereum.watermark()),
    ]
    held = await world.position(lane)
    batch = Batch(lane=lane, records=records, next_offset=records[-1].offset + 1)
    other = Store(make_engine(database))
    try:
        first = apply_facts(world.store, world.context, batch, held=held)
        if stale:
            await first
            first = asyncio.sleep(0)
        second = apply_facts(other, world.context, batch, held=held)
        done = await asyncio.gather(first, second, return_exceptions=True)
        assert sum(isinstance(each, PositionMovedError) for each in done) == 1
        async with world.engine.connect() as connection:
            shares = (await connection.execute(select(tables.shares))).all()
            rows = (await connection.execute(select(tables.transfers))).all()
        assert (len(shares), len(rows)) == (1, 1)
        await world.mine(3)
        event = await world.last()
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)
    finally:
        await other.close()
        await world.close()


# CH-D06


async def test_d06_rates_of_one_batch_come_back_digit_by_digit(world: World) -> None:
    """[0.00002513, 1.5, 3.1] in one batch, through the real drivers."""
    rates = ["0.00002513", "1.5", "3.1", "0.1", "2.675"]
    orders = []
    for number, rate in enumerate(rates, 1):
        fiat = {
            "currency": "EUR",
            "amount": rate,
            "rate": rate,
            "rate_source": "desk",
            "rate_at": "2026-11-30T11:59:00Z",
        }
        orders.append(
            PlaceOrder(
                idempotency_key=f"k-{number}",
                reference=f"o-{number}",
                route="own",
                amount=str(DUE),
                address=address(number),
                fiat=msgspec.convert(fiat, FiatTerms),
            )
        )
    await world.commands(*orders)
    await world.commands(
        *(ClaimPaid(idempotency_key=f"c-{n}", reference=f"o-{n}") for n in range(1, 6))
    )
    for number, rate in enumerate(rates, 1):
        fiat = (await world.last(f"o-{number}")).fiat
        assert (fiat.rate, fiat.amount) == (rate, rate)
