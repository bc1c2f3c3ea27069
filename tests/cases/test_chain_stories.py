"""Cases CH-R11, G01 to G05, B01, B04, B05, B08, K05: what a chain takes back, repeats or leaves out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas.codes import Attention, ClaimEnd, Phase
from schemas.commands import ClaimPaid
from tests.parts.world import BLOCK_S, USDC, World

DUE = 25_000_000


def tx_of(fact) -> str:
    return fact.transfer.split("/")[1]


async def reorganise(world: World, depth: int) -> None:
    await world.facts(*(world.ethereum.retraction() for _ in range(depth)))


# CH-R11


async def test_r11_blind_chain_expires_nothing_and_money_by_block_time_counts(world: World) -> None:
    """Blind from minute 5 to beyond the deadline; the payment stands in the block of minute 10."""
    to = await world.place()
    await world.pass_time(timedelta(minutes=5))
    world.now += timedelta(minutes=90)
    await world.inbox()
    await world.sweep()
    assert await world.kinds("o-1") == ["awaiting"]
    await world.pass_time(timedelta(minutes=5))
    await world.mine(1, world.ethereum.seen(to, DUE))
    await world.pass_time(timedelta(minutes=80))
    assert await world.kinds("o-1") == ["awaiting", "detected", "confirmed"]
    assert await world.open_exceptions() == {}


async def test_r11_neighbour_our_own_inbox_is_behind(world: World) -> None:
    """The chain is read past the end; `orders` is not: a claim may lie there that extends it."""
    await world.place()
    mark = world.ethereum.watermark(world.ethereum.height + 61 * 60 // BLOCK_S)
    await world.inbox(world.now)
    await world.facts(mark)
    assert await world.kinds("o-1") == ["awaiting"]
    await world.pass_time(timedelta(minutes=1))
    assert await world.kinds("o-1") == ["awaiting", "expired"]


# CH-G01


async def test_g01_deep_reorganisation_reverses_what_was_confirmed(world: World) -> None:
    to = await world.place()
    await world.mine(1, world.ethereum.seen(to, DUE))
    await world.mine(40)
    assert (await world.last()).phase is Phase.CONFIRMED
    await reorganise(world, 41)
    assert (await world.last()).phase is Phase.CONFIRMED
    assert (await world.last()).attention == (Attention.RETRACTED,)
    await world.pass_time(timedelta(minutes=30))
    assert (await world.kinds("o-1"))[-2:] == ["adjusted", "reversed"]
    assert set(await world.open_exceptions()) == {"reversed"}
    assert (await world.journal())[-1] == "reversed"


async def test_g01_the_reversal_stays_open_for_a_person_when_the_order_has_ended(
    world: World,
) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, DUE))
    await reorganise(world, 3)
    await world.pass_time(timedelta(minutes=15))
    await world.pass_time(timedelta(minutes=90))
    assert (await world.last()).phase is Phase.EXPIRED
    assert set(await world.open_exceptions()) == {"reversed"}


async def test_g01_neighbour_restored_says_which_confirmation_it_restores(world: World) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE)
    await world.mine(3, paid)
    first = await world.last()
    await reorganise(world, 3)
    await world.pass_time(timedelta(minutes=15))
    await world.mine(3, world.ethereum.seen(to, DUE, tx=tx_of(paid)))
    again = await world.last()
    assert (again.kind.value, again.restores) == ("confirmed", first.sequence)
    assert first.restores is None
    assert await world.open_exceptions() == {}


# CH-G02


@pytest.mark.parametrize("position", ["log:0", "log:3"])
async def test_g02_mined_again_elsewhere_is_one_payment(world: World, position: str) -> None:
    """Another block, and perhaps another place in the receipt: never twice the money."""
    to = await world.place()
    old = world.ethereum.seen(to, DUE, position="log:0")
    await world.mine(1, old)
    await reorganise(world, 1)
    await world.mine(1)
    await world.mine(1, world.ethereum.seen(to, DUE, tx=tx_of(old), position=position))
    event = await world.last()
    assert event.received_pending <= DUE
    await world.mine(1)
    assert (await world.last()).phase is not Phase.CONFIRMED
    await world.mine(1)
    event = await world.last()
    assert (event.phase, event.received_final, event.received_pending) == (Phase.CONFIRMED, DUE, 0)
    assert sum(t.counted for t in event.transfers) == DUE


async def test_g02_in_time_is_decided_once_also_at_another_position(world: World) -> None:
    to = await world.place()
    await world.pass_time(timedelta(minutes=59))
    old = world.ethereum.seen(to, DUE)
    await world.mine(1, old)
    await reorganise(world, 1)
    await world.pass_time(timedelta(minutes=5))
    await world.mine(3, world.ethereum.seen(to, DUE, tx=tx_of(old), position="log:9"))
    assert (await world.last()).phase is Phase.CONFIRMED


async def test_g02_neighbour_other_money_at_the_old_position_is_other_money(world: World) -> None:
    to = await world.place()
    old = world.ethereum.seen(to, DUE)
    await world.mine(3, old)
    await reorganise(world, 3)
    await world.mine(3, world.ethereum.seen(to, 1_000_000, tx=tx_of(old)))
    await world.mine(1)
    assert (await world.last()).received_final == 1_000_000
    assert (await world.last()).phase is not Phase.CONFIRMED


# CH-G03


async def test_g03_block_that_left_without_a_word_is_found_by_its_hash(world: World) -> None:
    """No retraction came: the lane's watermark names another block, so the money is never final."""
    to = await world.place()
    stray = world.ethereum.seen(to, DUE)
    world.ethereum.hashes[world.ethereum.height + 1] = "0xother"
    await world.mine(10, stray)
    assert (await world.last()).phase is Phase.DETECTED
    assert (await world.last()).received_final == 0


async def test_g03_retraction_twice_or_of_an_unknown_block_changes_nothing(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, DUE))
    fact = world.ethereum.retraction()
    await world.facts(fact)
    kinds = await world.kinds("o-1")
    await world.facts(fact)
    await world.facts(fact)
    assert await world.kinds("o-1") == kinds
    await world.mine(3)
    assert (await world.last()).phase is Phase.CONFIRMED


# CH-G04


async def test_g04_two_block_reorganisation_that_holds_the_payment_in_its_second(
    world: World,
) -> None:
    to = await world.place()
    old = world.ethereum.seen(to, DUE)
    await world.mine(1, old)
    await reorganise(world, 1)
    await world.mine(1)
    await world.mine(3, world.ethereum.seen(to, DUE, tx=tx_of(old)))
    event = await world.last()
    assert event.phase is Phase.CONFIRMED
    assert event.transfers[0].block.height == 102
    assert "withdrawn" not in await world.kinds("o-1")


# CH-G05


async def test_g05_retraction_with_everything_that_hangs_on_it_is_repeatable(world: World) -> None:
    """Confirmed, claimed, told, journalled: the row is marked and never deleted."""
    to = await world.place()
    paid = world.ethereum.seen(to, DUE)
    await world.commands(ClaimPaid(idempotency_key="c", reference="o-1", transaction=tx_of(paid)))
    await world.mine(3, paid)
    gone = [world.ethereum.retraction() for _ in range(3)]
    await world.facts(*gone)
    await world.facts(*gone)
    await world.mine(3, world.ethereum.seen(to, DUE, tx=tx_of(paid)))
    assert (await world.last()).phase is Phase.CONFIRMED
    assert (await world.last()).claims[0].end is ClaimEnd.USED
    assert (await world.journal())[0] == "command"


# CH-B01


async def test_b01_replaced_payment_is_withdrawn_and_the_order_ends_as_any_other(
    world: World,
) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE, height=None)
    await world.commands(ClaimPaid(idempotency_key="c", reference="o-1", transaction=tx_of(paid)))
    await world.facts(paid)
    await world.facts(world.ethereum.dropped(paid))
    assert await world.kinds("o-1") == ["awaiting", "claimed", "detected", "withdrawn"]
    assert (await world.last()).claims[0].end is ClaimEnd.REPLACED
    await world.pass_time(timedelta(minutes=90))
    assert (await world.last()).phase is Phase.EXPIRED


async def test_b01_claim_after_the_replacement_ends_the_same(world: World) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE, height=None)
    await world.facts(paid)
    await world.facts(world.ethereum.dropped(paid))
    await world.commands(ClaimPaid(idempotency_key="c", reference="o-1", transaction=tx_of(paid)))
    assert (await world.last()).claims[0].end is ClaimEnd.REPLACED


async def test_b01_neighbour_what_stands_in_a_block_is_not_dropped(world: World) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE)
    await world.mine(1, paid)
    await world.facts(world.ethereum.dropped(paid))
    await world.mine(2)
    assert (await world.last()).phase is Phase.CONFIRMED


async def test_b01_confirmed_then_double_spent_in_the_new_branch_is_reversed_at_once(
    world: World,
) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE)
    await world.mine(3, paid)
    await reorganise(world, 3)
    await world.facts(world.ethereum.dropped(paid))
    assert (await world.last()).phase is Phase.CONFIRMED
    await world.mine(1)
    assert (await world.last()).phase is Phase.REVERSED


# CH-B04


async def test_b04_two_outputs_to_one_address_are_two_rows_and_one_sum(world: World) -> None:
    to = await world.place(amount=50_000)
    outputs = [
        world.ethereum.seen(to, amount, tx="0xb4", position=f"out:{n}")
        for n, amount in ((0, 30_000), (2, 20_000))
    ]
    await world.mine(3, *outputs)
    event = await world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, 50_000, 2)


async def test_b04_neighbour_one_of_them_is_not_enough(world: World) -> None:
    to = await world.place(amount=50_000)
    await world.mine(3, world.ethereum.seen(to, 30_000, tx="0xb4", position="out:0"))
    assert (await world.last()).phase is Phase.PARTIALLY_PAID


# CH-B05


async def test_b05_same_txid_in_two_blocks_is_one_output(world: World) -> None:
    to = await world.place()
    for _ in range(2):
        await world.mine(1, world.ethereum.seen(to, DUE, tx="0xd5d27987", position="out:0"))
    await world.mine(3)
    event = await world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, DUE, 1)


# CH-B08


async def test_b08_malleated_twin_counts_once_and_the_claim_on_the_old_id_is_answered(
    world: World,
) -> None:
    to = await world.place()
    old = world.ethereum.seen(to, DUE, tx="0x" + "c9" * 32, position="out:0", height=None)
    await world.commands(ClaimPaid(idempotency_key="c", reference="o-1", transaction=tx_of(old)))
    await world.facts(old)
    twin = world.ethereum.seen(to, DUE, tx="0x" + "34" * 32, position="out:0")
    await world.mine(3, world.ethereum.dropped(old), twin)
    event = await world.last()
    assert (event.phase, event.amount_state.value) == (Phase.CONFIRMED, "exact")
    assert event.claims[0].end is ClaimEnd.REPLACED


async def test_b08_neighbour_both_seen_before_one_is_dropped(world: World) -> None:
    to = await world.place()
    old = world.ethereum.seen(to, DUE, tx="0x" + "c9" * 32, position="out:0", height=None)
    twin = world.ethereum.seen(to, DUE, tx="0x" + "34" * 32, position="out:0", height=None)
    await world.facts(old, twin)
    assert (await world.last()).phase is Phase.DETECTED
    mined = world.ethereum.seen(to, DUE, tx="0x" + "34" * 32, position="out:0")
    await world.mine(3, mined, world.ethereum.dropped(old))
    event = await world.last()
    assert (event.phase, event.amount_state.value) == (Phase.CONFIRMED, "exact")
    assert await world.open_exceptions() == {}


# CH-K05


async def test_k05_hole_between_watermarks_holds_verdicts_until_it_is_read(world: World) -> None:
    to = await world.place()
    await world.mine(1)
    lost = world.ethereum.watermark()
    paid = world.ethereum.seen(to, DUE)
    for number in range(3):
        mark = world.ethereum.watermark()
        await world.facts(*([paid] if number == 0 else []), mark)
    assert (await world.last()).phase is Phase.DETECTED
    assert set(await world.open_exceptions()) == {"coverage_gap"}
    state = await world.position(world.ethereum.lanes[0])
    assert state is not None
    await world.facts(lost)
    assert await world.open_exceptions() == {}
    again = world.ethereum.watermark(
        world.ethereum.height, from_height=lost.height + 1, parent_hash=lost.hash
    )
    await world.facts(paid, again)
    assert (await world.last()).phase is Phase.CONFIRMED


async def test_k05_neighbour_a_hole_tells_the_orders_that_are_over(world: World) -> None:
    await world.place()
    await world.mine(1)
    world.ethereum.watermark()
    world.now += timedelta(minutes=61)
    await world.inbox()
    await world.facts(world.ethereum.watermark())
    event = await world.last()
    assert (event.phase, event.attention) == (Phase.AWAITING_PAYMENT, (Attention.HELD,))


async def test_k05_neighbour_the_same_watermark_twice_is_nothing(world: World) -> None:
    to = await world.place()
    paid = world.ethereum.seen(to, DUE)
    mark = world.ethereum.watermark()
    await world.facts(paid, mark)
    await world.facts(paid, mark, mark)
    assert await world.kinds("o-1") == ["awaiting", "detected"]
    assert await world.open_exceptions() == {}


async def test_k05_lagging_finalized_height_does_not_stop_the_sweeper(world: World) -> None:
    """A node behind a balancer names a lower finalized height: what was final stays final."""
    to = await world.place()
    other = world.ethereum.seen(to, 5_000_000, asset=USDC, height=101)
    world.ethereum.finalized = 110
    await world.mine(1, world.ethereum.seen(to, DUE))
    await world.mine(1, other)
    world.ethereum.finalized = 90
    await world.mine(3)
    assert (await world.last()).phase is Phase.CONFIRMED
