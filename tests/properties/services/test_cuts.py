"""What comes out depends on the stream, not on batches or on when a sweeper came by."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.facts import LookedUpState
from tests.parts.stories import LAZY, UNSWEPT, Pace, Teller, act, moves, outcome
from tests.parts.world import World

PAID = [("place", 0, "own", 3), ("cover", 0), ("pay", 0, 100, "usdt", False)]
#: What made a difference once, each by a name of its own.
STORIES: dict[str, list[tuple]] = {
    "a_hold_comes_after_the_watermark_that_confirms": [*PAID, ("mine", 3), ("hold", 0)],
    "a_hold_ends_after_a_watermark_that_it_held": [
        *PAID,
        ("hold", 2),
        ("mine", 4),
        ("release", 2),
        ("mine", 1),
    ],
    "a_gap_is_still_there_in_the_next_batch": [
        *PAID,
        ("gap",),
        ("wait", 30),
        ("close_gap",),
        ("mine", 1),
    ],
    "a_sibling_is_placed_after_the_watermark_that_pays_the_purchase": [
        ("place", 0, "own", 1),
        ("pay", 0, 100, "usdt", False),
        ("mine", 3),
        ("place", 4, "own", 1),
    ],
    "a_sibling_is_paid_after_the_watermark_that_ends_it": [
        ("place", 0, "own", 1),
        ("place", 1, "own", 1),
        ("pay", 0, 100, "usdt", False),
        ("mine", 3),
        ("pay", 1, 100, "usdt", False),
        ("mine", 3),
    ],
    "money_on_a_shared_address_comes_after_the_end": [
        ("place", 0, "shared", 3),
        ("cover", 0),
        ("wait", 61),
        ("wait", 30),
        ("pay", 0, 100, "usdt", False),
        ("mine", 3),
    ],
    "a_shared_address_is_covered_after_the_end": [
        ("place", 0, "shared", 3),
        ("wait", 61),
        ("cover", 0),
        ("mine", 1),
    ],
    "an_own_address_is_covered_after_the_end": [
        ("place", 0, "own", 3),
        ("wait", 61),
        ("cover", 0),
        ("mine", 1),
    ],
    "one_transaction_pays_two_orders_at_different_times": [
        *PAID,
        ("place", 1, "own", 3),
        ("mine", 1),
        ("pay", 1, 130, "usdt", True),
        ("mine", 4),
    ],
    "a_balance_differs_after_the_end_and_is_explained": [
        *PAID[:2],
        ("balance", 0, 0),
        ("wait", 61),
        ("balance", 0, 7),
        ("mine", 2),
        ("balance", 0, 0),
        ("mine", 1),
    ],
    "a_balance_of_a_shared_address_differs_until_a_person_explains_it": [
        ("place", 0, "shared", 3),
        ("place", 1, "shared", 3),
        ("cover", 0),
        ("balance", 0, 0),
        ("mine", 1),
        ("balance", 0, 7),
        ("wait", 61),
        ("close", 0),
        ("mine", 1),
    ],
    "a_garbled_fact_comes_after_the_end": [*PAID[:2], ("wait", 61), ("garbage", 0, 0), ("mine", 1)],
    "a_garbled_fact_of_a_shared_address_comes_after_the_end": [
        ("place", 0, "shared", 3),
        ("cover", 0),
        ("wait", 61),
        ("garbage", 0, 1),
        ("mine", 1),
    ],
    "claims_wait_for_an_order_among_others": [
        ("claim", 0, 0),
        ("place", 0, "own", 3),
        ("claim", 0, 1),
        ("place", 1, "own", 3),
        ("claim", 0, 3),
    ],
    "a_claimed_transaction_is_looked_up_beside_another_sight_of_it": [
        ("place", 0, "own", 3),
        ("place", 1, "own", 3),
        ("pay", 1, 100, "usdt", False),
        ("claim", 0, 1),
        ("look_up", 0, LookedUpState.FAILED),
        ("pay", 1, 40, "usdt", True),
        ("mine", 3),
    ],
    "a_decision_and_its_undoing_come_together": [
        ("place", 0, "shared", 3),
        ("cover", 0),
        ("pay", 0, 40, "usdt", False),
        ("mine", 3),
        ("decide", 2, 0, 0),
        ("undo", 0),
        ("decide", 2, 0, 0),
        ("mine", 1),
    ],
    "a_block_is_taken_back_after_it_confirmed": [
        *PAID,
        ("mine", 2),
        ("retract", 3, True),
        ("mine", 4),
    ],
}


async def told(
    story: list[tuple], lanes: int, paces: list[Pace], *, look_s: int = 0
) -> list[object]:
    """Tell a story record by record with a sweep after each, then at other paces."""
    first = await World.open(lanes=lanes, second_look_s=look_s)
    try:
        script = await Teller(first).tell(story)
        outcomes: list[object] = []
        for pace in [Pace(), *paces]:
            world = await World.open(lanes=lanes, second_look_s=look_s)
            try:
                await act(world, script, pace)
                outcomes.append(await outcome(world))
            finally:
                await world.close()
        return outcomes
    finally:
        await first.close()


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("name", STORIES)
async def test_story_told_at_any_pace_ends_the_same_when(name: str, lanes: int) -> None:
    at_once, lazy, unswept = await told(STORIES[name], lanes, [LAZY, UNSWEPT])
    assert lazy == at_once
    assert unswept == at_once


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
@given(moves(), st.sampled_from([1, 2]), st.integers(0, 2**16))
def test_stream_cut_anywhere_and_swept_at_any_time_tells_the_same(story, lanes, seed) -> None:
    paces, look_s = [Pace(seed, 0.3, 0.2)], seed % 2 * 1_800
    at_once, cut = asyncio.run(told(story, lanes, paces, look_s=look_s))
    assert cut == at_once
