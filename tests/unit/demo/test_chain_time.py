"""Block times: the machine's, rising, and never past what a story holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconciler.demo.chain_time import MARGIN_S, ChainTime
from reconciler.kernel.clock import ManualClock

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
NOON_S = int(NOON.timestamp())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def time(clock: ManualClock) -> ChainTime:
    return ChainTime(clock)


def test_a_block_bears_the_time_at_which_it_is_made(time: ChainTime):
    assert time.next_block_s(NOON_S - 60, waiting=False) == NOON_S


def test_no_second_block_is_made_in_one_second(time: ChainTime):
    assert time.next_block_s(NOON_S, waiting=True) is None


def test_a_hold_far_ahead_changes_nothing(time: ChainTime):
    with time.held_before(NOON + timedelta(seconds=60)):
        assert time.next_block_s(NOON_S - 1, waiting=False) == NOON_S


def test_a_late_payment_block_still_lies_before_the_end_that_is_held(
    time: ChainTime, clock: ManualClock
):
    end = NOON + timedelta(seconds=10)
    with time.held_before(end):
        clock.advance(timedelta(minutes=5))
        parent_s, blocks = NOON_S, []
        for _ in range(3 * MARGIN_S):
            made = time.next_block_s(parent_s, waiting=True)
            assert made is not None
            assert parent_s <= made < int(end.timestamp())
            blocks.append(made)
            parent_s = made
    assert blocks[: MARGIN_S + 1] == sorted(set(blocks[: MARGIN_S + 1]))


def test_a_hold_spends_no_second_on_empty_blocks(time: ChainTime, clock: ManualClock):
    with time.held_before(NOON + timedelta(seconds=10)):
        clock.advance(timedelta(minutes=5))
        held_s = time.next_block_s(NOON_S, waiting=False)
        assert held_s is not None
        assert time.next_block_s(held_s, waiting=False) is None


def test_after_a_hold_time_goes_on_from_the_present(time: ChainTime, clock: ManualClock):
    with time.held_before(NOON + timedelta(seconds=10)):
        clock.advance(timedelta(minutes=5))
    assert time.next_block_s(NOON_S, waiting=False) == NOON_S + 300


def test_the_earliest_of_several_holds_counts(time: ChainTime, clock: ManualClock):
    with time.held_before(NOON + timedelta(seconds=60)):
        with time.held_before(NOON + timedelta(seconds=10)):
            clock.advance(timedelta(minutes=5))
            first = time.next_block_s(NOON_S, waiting=False)
        second = time.next_block_s(NOON_S, waiting=False)
    assert first is not None
    assert second is not None
    assert first < NOON_S + 10 < second < NOON_S + 60
