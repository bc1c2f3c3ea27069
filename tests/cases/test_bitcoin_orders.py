"""Cases CH-M02, M04, M05, M08, M10, M11 and M13 on a chain of outputs, whose time is a median of blocks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from chains.devnet.faults import DropSocket
from chains.utxo.networks import BITCOIN_REGTEST, LITECOIN_REGTEST
from reconciler.model.policy import Tolerance
from schemas.amounts import BaseUnits
from schemas.codes import Attention, ClaimEnd, Phase
from tests.parts.utxo_way import DEPTH, DUE, DUST, LOOK_S, MEDIAN_BLOCKS, CoinWay, coin_way
from tests.parts.world import START, World

QUOTE = timedelta(minutes=60)
UNKNOWN = "ab" * 32


async def ends(way: CoinWay, order: str = "o-1") -> list[ClaimEnd]:
    return [claim.end for claim in (await way.world.state(order)).claims]


# CH-M02


@pytest.mark.parametrize("spelled", ["{1}", "https://mempool.space/tx/{0}#vin=0", " {0}-0\n"])
async def test_m02_second_order_with_the_first_one_s_transaction_is_already_used(
    coins: CoinWay, spelled: str
) -> None:
    tx = coins.line.pay(await coins.order("o-1"), DUE)
    await coins.mine(DEPTH)
    await coins.order("o-2")
    typed = spelled.format(tx, tx.upper())
    await coins.claim(typed, order="o-2")
    assert await ends(coins, "o-2") == [ClaimEnd.ALREADY_USED]
    await coins.claim(typed, order="o-1")
    assert await ends(coins, "o-1") == [ClaimEnd.USED]
    assert (await coins.world.last("o-2")).received_final == 0
    assert (await coins.world.open_exceptions())["claim_already_used"].order == "o-2"


# CH-M04


@pytest.mark.parametrize(("late_s", "ended"), [(-1, False), (0, False), (1, True)])
async def test_m04_order_ends_when_the_median_of_eleven_blocks_is_past_its_end(
    coins: CoinWay, late_s: int, ended: bool
) -> None:
    """A single block's time is what its miner likes: six of them have to agree."""
    way, line, world = coins, coins.line, coins.world
    await way.order()
    end = int((START + QUOTE).timestamp())
    for _ in range(MEDIAN_BLOCKS - 1):
        line.chain.mine(time=end + 6_000)
    await way.catch_up(line)
    assert (await world.last()).phase is Phase.AWAITING_PAYMENT
    line.chain.mine(time=end + late_s)
    await way.catch_up(line)
    assert (await world.last()).phase is (Phase.EXPIRED if ended else Phase.AWAITING_PAYMENT)


@pytest.mark.parametrize("seen_in", ["mempool", "block"])
@pytest.mark.parametrize("late_s", [0, 1])
async def test_m04_first_sight_decides_and_a_block_says_when_it_was_where_nobody_looked(
    coins: CoinWay, seen_in: str, late_s: int
) -> None:
    line, world = coins.line, coins.world
    to = await coins.order()
    if seen_in == "block":
        line.node.set(hears=False)
    passed_s = QUOTE.total_seconds() + late_s
    if seen_in == "mempool":
        await coins.wait(passed_s - LOOK_S)
        line.pay(to, DUE)
        await coins.look()
    else:
        line.pay(to, DUE)
        line.chain.mine(time=int(START.timestamp() + passed_s))
        await coins.catch_up(line)
    await coins.mine(DEPTH)
    event = await world.last()
    assert (Attention.LATE in event.attention) is bool(late_s)
    assert event.phase is (Phase.AWAITING_PAYMENT if late_s else Phase.CONFIRMED)


async def test_m04_late_money_is_told_with_its_amount_and_never_counted_by_itself(
    coins: CoinWay,
) -> None:
    to = await coins.order()
    await coins.pass_time(QUOTE + timedelta(minutes=1))
    assert (await coins.world.last()).phase is Phase.EXPIRED
    coins.line.pay(to, DUE)
    await coins.look()
    assert (await coins.world.last()).kind.value == "late"
    await coins.mine(DEPTH)
    event = await coins.world.last()
    assert (event.phase, event.attention) == (Phase.EXPIRED, (Attention.LATE,))
    assert (await coins.world.open_exceptions())["late"].amount == DUE


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
async def test_m05_fee_of_an_exchange_a_top_up_and_444_satoshi_short(
    quick_world: World, paid: tuple[int, ...], phase: Phase
) -> None:
    half = Tolerance(under_ppm=5_000, under_max=BaseUnits(5_000))
    async with coin_way(quick_world, tolerance=half) as way:
        to = await way.order(amount=1_000_000)
        for amount in paid:
            way.line.pay(to, amount)
            await way.mine(1)
        await way.mine(DEPTH)
        event = await quick_world.last()
        assert event.phase is phase
        assert event.missing == 1_000_000 - sum(paid), (
            "told to the last satoshi, also when it is enough"
        )


# CH-M08


async def test_m08_transaction_of_another_chain_is_not_found_here_and_pays_nobody(
    coins: CoinWay,
) -> None:
    """One script is an address on both chains; nobody watches it there, and here nothing came."""
    async with coin_way(await World.open(), LITECOIN_REGTEST) as other:
        tx = other.line.pay(other.line.new_address("p2pkh"), DUE)
        await other.world.close()
    await coins.order()
    await coins.claim(tx)
    await coins.pass_time(QUOTE + timedelta(minutes=30))
    await coins.pass_time(timedelta(minutes=30))
    assert await ends(coins) == [ClaimEnd.UNSEEN]
    assert (await coins.world.last()).phase is Phase.EXPIRED
    assert coins.line.name == BITCOIN_REGTEST.chain


# CH-M10


@pytest.mark.parametrize("before_final", [True, False])
async def test_m10_order_that_is_paid_twice_is_confirmed_once(
    coins: CoinWay, before_final: bool
) -> None:
    to = await coins.order()
    coins.line.pay(to, DUE)
    await coins.mine(1 if before_final else DEPTH)
    coins.line.pay(to, DUE)
    await coins.mine(DEPTH)
    event = await coins.world.last()
    assert (await coins.world.kinds("o-1")).count("confirmed") == 1
    assert (event.received_final, event.excess) == (2 * DUE, DUE)
    assert (await coins.world.open_exceptions())["overpaid"].amount == DUE


# CH-M11


@pytest.mark.parametrize(("heard_after_s", "indexed"), [(0, True), (40, False), (3_000, True)])
async def test_m11_claim_before_any_node_knows_the_transaction_is_kept_and_used(
    coins: CoinWay, heard_after_s: int, indexed: bool
) -> None:
    line, world = coins.line, coins.world
    line.node.set(tx_index=indexed, hears=False)
    to = await coins.order()
    tx = line.pay(to, DUE)
    await coins.claim(tx.upper())
    assert (await ends(coins), (await world.last()).phase) == ([ClaimEnd.OPEN], Phase.CLAIMED)
    if heard_after_s:
        await coins.wait(heard_after_s)
        assert line.node.hear(tx)
        await coins.look()
        assert (await world.last()).received_pending == DUE
    await coins.mine(DEPTH)
    assert (await world.last()).phase is Phase.CONFIRMED
    assert await ends(coins) == [ClaimEnd.USED]


@pytest.mark.parametrize("typed", ["ab" * 31 + "a", "ab" * 32 + "a", f"{UNKNOWN} {'cd' * 32}"])
async def test_m11_neighbour_what_is_no_transaction_is_said_at_once(
    coins: CoinWay, typed: str
) -> None:
    await coins.order()
    await coins.claim(typed)
    assert await ends(coins) == [ClaimEnd.JUNK]
    assert (await coins.world.last()).phase is Phase.CLAIMED


@pytest.mark.parametrize("indexed", [True, False])
async def test_m11_neighbour_claim_of_what_pays_somebody_else_ends_where_it_can_be_found(
    coins: CoinWay, indexed: bool
) -> None:
    line = coins.line
    line.node.set(tx_index=indexed)
    await coins.order()
    tx = line.pay(line.chain.new_address("somebody"), DUE)
    await coins.mine(1)
    await coins.claim(tx)
    await coins.mine(1)
    assert await ends(coins) == [ClaimEnd.PAYS_NOTHING]


# CH-M13


@pytest.mark.parametrize(
    ("amount", "code"),
    [
        (0, "amount_zero"),
        (200, "amount_below_minimum"),
        (DUST - 1, "amount_below_minimum"),
        (DUST, None),
    ],
)
async def test_m13_order_below_what_any_node_relays_is_refused_when_it_is_placed(
    coins: CoinWay, amount: int, code: str | None
) -> None:
    await coins.order(amount=amount)
    assert [found for found, _ in await coins.world.rejections()] == ([code] if code else [])
    assert len(await coins.world.events()) == (code is None)


# CH-M14


async def test_m14_neighbour_chain_that_is_away_ends_nobody_and_then_everybody(
    coins: CoinWay,
) -> None:
    for number in range(1, 4):
        await coins.order(f"o-{number}")
    coins.line.node.faults.add(DropSocket(times=None))
    await coins.pass_time(QUOTE + timedelta(minutes=30))
    assert not [e for e in await coins.world.events() if e.phase is Phase.EXPIRED]
    coins.line.node.faults.clear()
    coins.line.clock.patience = 24
    await coins.pass_time(timedelta(minutes=1))
    ended = [e.order for e in await coins.world.events() if e.phase is Phase.EXPIRED]
    assert sorted(ended) == ["o-1", "o-2", "o-3"]
