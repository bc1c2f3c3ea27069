"""Lanes are shared evenly, by who wants them, and as few as possible change hands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reconciler.stream.sharing import share_out

MEMBERS = st.sets(st.sampled_from("abcdef"), min_size=1)
OWNERS = st.dictionaries(st.integers(0, 20), st.sampled_from("abcdefgh"))


def test_a_newcomer_gets_its_part_and_no_other_lane_moves() -> None:
    lanes = {lane: ["a", "b"] for lane in range(5)}
    assert share_out(lanes, dict.fromkeys(range(5), "a")) == {
        0: "a",
        1: "a",
        2: "a",
        3: "b",
        4: "b",
    }


def test_lanes_of_the_dead_go_to_the_living() -> None:
    assert share_out({0: ["b"], 1: ["b"]}, {0: "a", 1: "b"}) == {0: "b", 1: "b"}


def test_a_lane_goes_only_to_who_wants_it() -> None:
    assert share_out({0: ["a"], 1: ["a", "b"], 2: []}, {}) == {0: "a", 1: "b", 2: None}


@given(lanes=st.sets(st.integers(0, 20)), members=MEMBERS, owners=OWNERS)
def test_shares_differ_by_one_at_most_and_settle(lanes, members, owners) -> None:
    wanting = {lane: sorted(members) for lane in lanes}
    shared = share_out(wanting, owners)
    sizes = [list(shared.values()).count(member) for member in members]
    assert sum(sizes) == len(lanes)
    assert max(sizes) - min(sizes) <= 1
    assert share_out(wanting, shared) == shared


@given(lanes=st.sets(st.integers(0, 20), min_size=1), members=MEMBERS, owners=OWNERS)
def test_no_more_lanes_move_than_must(lanes, members, owners) -> None:
    wanting = {lane: sorted(members) for lane in lanes}
    shared = share_out(wanting, owners)
    stayed = sum(shared[lane] == owners.get(lane) for lane in lanes)
    held = sorted(
        (sum(owners.get(lane) == member for lane in lanes) for member in members), reverse=True
    )
    low, extra = divmod(len(lanes), len(members))
    fair = [low + (index < extra) for index in range(len(members))]
    assert stayed == sum(min(has, share) for has, share in zip(held, fair, strict=True))
