"""Amounts that tell orders on one shared address apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.matcher import ReservedAmountError, candidate_amounts
from reconciler.matcher.amounts import steps_within
from schemas.amounts import AMOUNT_LIMIT

KEY = b"a secret of thirty-two bytes...."
dues = st.integers(1, 10**13)
steps = st.integers(0, 8).map(lambda power: 10**power)
counts = st.integers(1, 60)
references = st.from_regex(r"[A-Za-z0-9-]{1,12}", fullmatch=True)


def amounts(due: int, step: int, most: int, reference: str, key: bytes = KEY) -> list[int]:
    return [int(a) for a in candidate_amounts(due, step, most, reference=reference, key=key)]


@given(dues, steps, counts, references)
def test_each_is_above_the_price_by_at_most_the_steps_and_given_once(
    due: int, step: int, most: int, reference: str
) -> None:
    found = amounts(due, step, most, reference)
    up = -(-due // step) * step
    assert len(found) == len(set(found))
    assert all(up < amount <= up + most * step for amount in found)
    assert all(amount % step == 0 for amount in found)
    #: One in ten is left out: it ends in zero, as what a wallet rounds to.
    assert most - most // 10 - 1 <= len(found) <= most


@given(dues, steps, counts, references)
def test_same_order_gets_the_same_in_the_same_order(
    due: int, step: int, most: int, reference: str
) -> None:
    assert amounts(due, step, most, reference) == amounts(due, step, most, reference)
    assert sorted(amounts(due, step, most, reference)) == sorted(
        amounts(due, step, most, reference, key=b"another secret")
    )


@given(dues, dues, steps, counts, references)
def test_what_a_wallet_rounds_to_is_never_given_out(
    due: int, other_due: int, step: int, most: int, reference: str
) -> None:
    """Rounding down, up or to the nearest at any coarser number of decimals never lands on one."""
    given_out = {*amounts(due, step, most, reference), *amounts(other_due, step, most, "another")}
    for amount in amounts(due, step, most, reference)[:10]:
        unit = step * 10
        while unit <= amount * 10:
            down = amount // unit * unit
            for rounded in (down, down + unit):
                assert rounded not in given_out
            unit *= 10


@given(dues, steps, references)
def test_none_is_left_when_all_are_taken(due: int, step: int, reference: str) -> None:
    everything = set(amounts(due, step, 20, reference))
    free = [a for a in amounts(due, step, 20, "another") if a not in everything]
    assert free == []


def test_limit_of_the_chain_is_not_passed() -> None:
    found = amounts(AMOUNT_LIMIT - 3, 1, 20, "o-1")
    assert found
    assert all(amount < AMOUNT_LIMIT for amount in found)


@pytest.mark.parametrize("step", [0, -1, -10, 2, 5, 11, 20, 101, 1_001, 10_010])
def test_step_that_is_no_power_of_ten_is_refused(step: int) -> None:
    with pytest.raises(ReservedAmountError, match="power of ten"):
        amounts(25_000_000, step, 20, "o-1")


@given(dues, steps, st.integers(1, 999), st.integers(1, 100_000), references)
def test_no_more_than_a_share_of_the_price_is_asked_above_it(
    due: int, step: int, most: int, more_ppm: int, reference: str
) -> None:
    within = steps_within(due, step, most, more_ppm=more_ppm)
    found = amounts(due, step, within, reference)
    assert all((amount - due) * 1_000_000 <= due * more_ppm for amount in found)
    next_step = -(-due // step) * step + (within + 1) * step
    assert within == most or (next_step - due) * 1_000_000 > due * more_ppm, "and no less"
