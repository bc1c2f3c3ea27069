"""Cases CH-F03, F04, F12, T04, T05, T09, T10, T11, T13: what is no payment, and what is one."""

from __future__ import annotations

import pytest

from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.codes import Attention, Phase
from schemas.commands import Assign, PlaceOrder
from tests.parts.world import ETH, POLYGON, SHARED, USDC, World, address

DUE = 25_000_000
ATTACKER = "0xcccccccccccccccccccccccccccccccccccccccc"


# CH-F03


@pytest.mark.parametrize("where", ["mempool", "block"])
async def test_f03_transfer_of_zero_by_a_stranger_is_ignored(world: World, where: str) -> None:
    to = await world.place()
    height = None if where == "mempool" else -1
    zero = world.ethereum.seen(to, 0, sender=ATTACKER, height=height)
    done = await world.facts(zero)
    assert done.unreadable == 0
    await world.mine(3)
    assert await world.kinds("o-1") == ["awaiting"]
    assert await world.open_exceptions() == {}
    assert "fact" not in await world.journal()


async def test_f03_neighbour_transfer_of_one_unit_is_kept_as_dust(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 1, sender=ATTACKER))
    assert await world.kinds("o-1") == ["awaiting"]
    assert set(await world.open_exceptions()) == {"dust"}
    assert (await world.journal())[-2:] == ["awaiting_payment", "fact"]


# CH-F04


@pytest.mark.parametrize("before", [True, False])
async def test_f04_poisoning_dust_changes_nothing_whenever_it_comes(
    world: World, before: bool
) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE)
    dust = world.ethereum.seen(to, 1, sender=ATTACKER)
    await world.mine(1, *((dust, paid) if before else (paid, dust)))
    await world.mine(3)
    event = await world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)
    assert {t.transfer: t.counted for t in event.transfers} == {
        paid.transfer: DUE,
        dust.transfer: 0,
    }
    assert set(await world.open_exceptions()) == {"dust"}
    assert b"cccc" not in (await world.state("o-1")).terms.payment_uri.encode()


async def test_f04_a_thousand_grains_make_one_exception_and_no_endless_event(world: World) -> None:
    to = await world.place()
    for _ in range(3):
        grains = [world.ethereum.seen(to, 1, sender=ATTACKER) for _ in range(100)]
        await world.mine(1, *grains)
    await world.mine(3, world.ethereum.seen(to, DUE))
    event = await world.last()
    assert (event.phase, len(event.transfers)) == (Phase.CONFIRMED, 200)
    assert sum(t.counted for t in event.transfers) == DUE
    assert [e.kind.value for e in await world.exceptions()] == ["dust"]


# CH-F12


async def test_f12_coin_beside_the_token_is_never_added_to_its_sum(world: World) -> None:
    to = await world.place(amount=9_000_000)
    token = world.ethereum.seen(to, 9_000_000)
    coin = world.ethereum.seen(to, 10**16, asset=ETH, position="value")
    await world.mine(3, token, coin)
    event = await world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, 9_000_000)
    assert event.attention == (Attention.WRONG_ASSET,)
    assert (await world.open_exceptions())["wrong_asset"].amount == BaseUnits(10**16)


async def test_f12_coin_instead_of_the_token_closes_nothing(world: World) -> None:
    to = await world.place(amount=100_000_000)
    await world.mine(3, world.ethereum.seen(to, 100_000_000, asset=ETH, position="value"))
    assert (await world.last()).received_final == 0
    assert (await world.last()).phase is Phase.AWAITING_PAYMENT


async def test_f12_neighbour_a_grain_of_coin_is_dust_and_no_exception_of_its_own(
    world: World,
) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 1, asset=ETH, position="value"))
    assert set(await world.open_exceptions()) == {"dust"}


# CH-T04


async def test_t04_token_that_took_a_fee_is_credited_with_what_came(world: World) -> None:
    """100 sent, 99.9 came, 0.1 went to the token's owner, whose log is not for us: 0.1 % short."""
    to = await world.place(amount=100_000_000)
    await world.mine(3, world.ethereum.seen(to, 99_900_000))
    event = await world.last()
    assert (event.phase, event.amount_state.value, event.received_final) == (
        Phase.CONFIRMED,
        "short",
        99_900_000,
    )


async def test_t04_neighbour_a_fee_above_the_tolerance_is_short(world: World) -> None:
    to = await world.place(amount=100_000_000)
    await world.mine(3, world.ethereum.seen(to, 99_499_999))
    assert (await world.last()).phase is Phase.PARTIALLY_PAID
    assert (await world.last()).missing == 500_001


# CH-T05


async def test_t05_150_transfers_in_one_transaction_are_150_payments(world: World) -> None:
    to = await world.place(amount=150_000_000)
    tx = "0x6cc8e57350d0e97d42ce89d92a85bf935960adc6dc9e3de8cc95078c5054d58e"
    logs = [
        world.ethereum.seen(to, 1_000_000, tx=tx, position=f"log:{number}") for number in range(150)
    ]
    await world.mine(3, *logs)
    event = await world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, 150_000_000)
    assert len({t.transfer for t in event.transfers}) == 150


async def test_t05_neighbour_the_same_log_once_more_is_no_payment(world: World) -> None:
    to = await world.place()
    logs = [world.ethereum.seen(to, DUE, tx="0x01", position=f"log:{n}") for n in (571, 572)]
    await world.mine(1, *logs, *logs)
    await world.mine(3, *[world.ethereum.seen(to, DUE, tx="0x01", position="log:571", height=101)])
    assert (await world.last()).received_final == 2 * DUE


# CH-T09


BSC = ChainName("eip155:56")


async def test_t09_decimals_belong_to_the_asset_not_to_its_name(quick_world: World) -> None:
    six = quick_world.catalogue.asset(
        AssetName("eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7")
    )
    eighteen = next(a for a in quick_world.catalogue.assets_of(BSC) if a.symbol == "USDT")
    assert (six.decimals, eighteen.decimals) == (6, 18)


@pytest.mark.parametrize(
    ("amount", "phase"), [(10**19, Phase.CONFIRMED), (10**7, Phase.AWAITING_PAYMENT)]
)
async def test_t09_ten_is_ten_at_eighteen_decimals_and_ten_million_units_are_nothing(
    quick_world: World, amount: int, phase: Phase
) -> None:
    world = quick_world
    await world.commands(
        PlaceOrder(
            idempotency_key="k",
            reference="o-1",
            route="eth",
            amount_decimal="10",
            address=address(1),
        )
    )
    await world.mine(3, world.ethereum.seen(address(1), amount, asset=ETH, position="value"))
    assert (await world.last()).due == 10**19
    assert (await world.last()).phase is phase


# CH-T10


async def test_t10_bridged_twin_is_named_and_never_merged(world: World) -> None:
    twins = [a.id for a in world.catalogue.assets_of(POLYGON) if a.symbol.startswith("USDC")]
    assert len(twins) == 2
    to = await world.place()
    facts = [world.polygon.seen(to, DUE, asset=twin) for twin in twins]
    await world.mine(3, *facts, chain=world.polygon)
    event = await world.last()
    assert (event.received_final, event.attention) == (0, (Attention.WRONG_NETWORK,))
    named = {e.asset for e in await world.exceptions() if e.open}
    assert named == set(twins)


async def test_t10_neighbour_the_other_stablecoin_on_the_right_chain(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, DUE, asset=USDC))
    assert (await world.last()).attention == (Attention.WRONG_ASSET,)
    assert (await world.open_exceptions())["wrong_asset"].asset == USDC


# CH-T11

ABSURD = 115792089237316195423570985008687907815158359570495456131559627975555089956886


@pytest.mark.parametrize("amount", [ABSURD, 2**256 - 1, 2_500_000_001])
async def test_t11_absurd_amount_confirms_nothing(world: World, amount: int) -> None:
    to = await world.place()
    absurd = world.ethereum.seen(to, amount)
    await world.mine(3, absurd)
    assert (await world.last()).phase is Phase.AWAITING_PAYMENT
    assert (await world.last()).attention == (Attention.IMPLAUSIBLE_AMOUNT,)
    assert (await world.open_exceptions())["implausible_amount"].amount == BaseUnits(amount)
    await world.mine(3, world.ethereum.seen(to, DUE))
    assert (await world.last()).received_final == DUE


async def test_t11_neighbour_a_hundred_times_due_is_still_believed(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 2_500_000_000))
    assert (await world.last()).phase is Phase.CONFIRMED
    assert set(await world.open_exceptions()) == {"overpaid"}


async def test_t11_nobody_can_give_what_the_asset_cannot_hold_to_an_order(world: World) -> None:
    await world.place()
    absurd = world.ethereum.seen(SHARED, 2**256 - 1)
    await world.place("o-2", route="shared")
    await world.mine(3, absurd)
    await world.decide(Assign(transfer=absurd.transfer, reference="o-1"))
    assert [code for code, _ in await world.rejections()] == ["decision_not_possible"]
    assert set(await world.open_exceptions()) == {"unmatched"}


# CH-T13


@pytest.mark.parametrize(
    ("amount_decimal", "code"),
    [("12.345679", None), ("12.3456780000", None), ("12.34567891", "amount_fraction")],
)
async def test_t13_price_is_whole_base_units_from_the_start(
    world: World, amount_decimal: str, code: str | None
) -> None:
    await world.commands(
        PlaceOrder(
            idempotency_key="k",
            reference="o-1",
            route="own",
            amount_decimal=amount_decimal,
            address=address(1),
        )
    )
    assert [found for found, _ in await world.rejections()] == ([code] if code else [])
    if code is None:
        due = int((await world.last()).due)
        await world.mine(3, world.ethereum.seen(address(1), due))
        assert (await world.last()).amount_state.value == "exact"
