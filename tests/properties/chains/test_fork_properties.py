"""Where two lines part, against the naive answer; retractions against a naive list of blocks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chains.errors import AnswerRefused
from chains.forks import retractions, where_they_part
from chains.port import Header
from schemas.facts import Watermark
from schemas.values import ParentRef
from tests.parts.scripted_source import CHAIN, START


def header(height: int, branch: str, parent: str) -> Header:
    time = START + timedelta(seconds=height)
    return Header(
        height=height,
        hash=f"{branch}{height}",
        parent_hash=f"{parent}{height - 1}",
        time=time,
        coverage_time=time,
    )


def lines(shared: int, ours: int, theirs: int) -> tuple[list[Header], list[Header]]:
    """Two lines that share their first blocks."""
    base = [header(height, "s", "s") for height in range(shared)]

    def grow(name: str, count: int) -> list[Header]:
        return base + [
            header(height, name, "s" if height == shared else name)
            for height in range(shared, shared + count)
        ]

    return grow("a", ours), grow("b", theirs)


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 8), st.integers(0, 8), st.data())
def test_lines_part_at_the_highest_block_that_both_have_and_we_know(shared, ours, theirs, data):
    own, other = lines(shared, ours, theirs)
    known = data.draw(st.sets(st.sampled_from(range(len(own))), min_size=1))
    hashes = {at: own[at].hash for at in known}
    parted = where_they_part(hashes, reversed(other))
    naive = [at for at in known if at < len(other) and other[at].hash == own[at].hash]
    if naive:
        assert parted.common == other[max(naive)]
    else:
        assert parted.common is None


def test_a_line_with_a_gap_is_refused():
    own, other = lines(3, 0, 4)
    with pytest.raises(AnswerRefused, match="is not the parent"):
        where_they_part({0: own[0].hash}, [other[6], other[4]])


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=10), st.data())
def test_retractions_lower_coverage_step_by_step_to_the_point(spans, data):
    marks, height = [], 0
    for span in spans:
        first, height = height + 1, height + span
        marks.append(
            Watermark(
                chain=CHAIN,
                from_height=first,
                height=height,
                hash=f"h{height}",
                parent_hash=f"h{first - 1}",
                time=START,
                finalized_height=0,
                read_at=START,
                log_id="log",
                watchlist_upto=0,
            )
        )
    point = data.draw(st.integers(0, height))
    facts = retractions(marks, ParentRef(height=point, hash=f"h{point}"))
    covered = height
    for fact in facts:
        assert fact.height == covered
        assert fact.hash == f"h{fact.height}"
        assert fact.parent.height < covered
        assert fact.parent.hash == f"h{fact.parent.height}"
        covered = fact.parent.height
    assert covered == (point if facts else height)
    assert bool(facts) == (point < height)
