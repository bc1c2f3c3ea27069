import asyncio
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains.port import Step
from reconciler.kernel import ManualClock
from reconciler.stream.promise import Lane
from reconciler.stream.topics import topic_specs, transfers_topic
from reconciler.watch import checkpoint
from reconciler.watch.checkpoint import (
    ReadLog,
    read_standing,
    read_tail,
    standing_watermarks,
)
from reconciler.watch.publishing import messages_of
from schemas.facts import LookedUpState, TransactionLookedUp, TransferDropped
from tests.parts.memory_stream import MemoryLog, MemoryStream
from tests.parts.scripted_loop import (
    CHAIN,
    NOON,
    address_number,
    retracted,
    seen,
    watermark,
)

LANE = Lane(transfers_topic(CHAIN), 0)


async def log_of(*steps, lanes=1, marker_holes=False):
    log = MemoryLog(ManualClock(NOON), marker_holes=marker_holes)
    log.create(topic_specs({CHAIN: lanes}, ["eip155"]))
    stream = MemoryStream(log)
    writer = stream.writer(f"watch/{CHAIN}")
    await writer.start()
    for facts in steps:
        await writer.append(messages_of(Step(facts=facts), CHAIN, lanes=lanes, now=NOON))
    return stream


async def heights(stream, limit=64):
    tail = await read_tail(stream, CHAIN, reorganisation_limit=limit)
    return [w.height for w in tail.checkpoint.watermarks] if tail.checkpoint else None


async def test_an_empty_topic_has_no_checkpoint():
    assert await heights(await log_of()) is None


async def test_a_topic_with_facts_and_no_watermark_has_no_checkpoint():
    assert await heights(await log_of([seen(1, address_number(1), 5)])) is None


async def test_watermarks_are_read_back_to_the_finalized_height(monkeypatch):
    monkeypatch.setattr(checkpoint, "CHUNK_OFFSETS", 3)
    stream = await log_of(*([watermark(h, finalized=max(0, h - 4))] for h in range(1, 30)))
    found = await heights(stream)
    assert found[-1] == 29
    assert found[0] <= 25
    assert found == list(range(found[0], 30))
    assert len(found) < 10, "earlier ones than needed were read"


async def test_without_finality_a_few_limits_are_read_back(monkeypatch):
    monkeypatch.setattr(checkpoint, "CHUNK_OFFSETS", 5)
    stream = await log_of(*([watermark(h)] for h in range(1, 100)))
    found = await heights(stream, limit=4)
    assert found[-1] == 99
    assert 76 < found[0] <= 99 - 16


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
@pytest.mark.parametrize("marker_holes", [False, True])
async def test_a_retracted_block_is_no_checkpoint(chunk, marker_holes, monkeypatch):
    monkeypatch.setattr(checkpoint, "CHUNK_OFFSETS", chunk)
    stream = await log_of(
        [watermark(1)],
        [seen(1, address_number(1), 2), watermark(2)],
        [watermark(3)],
        [retracted(3), retracted(2), watermark(2, branch="b")],
        marker_holes=marker_holes,
    )
    tail = await read_tail(stream, CHAIN, reorganisation_limit=64)
    assert [(w.height, w.hash[2]) for w in tail.checkpoint.watermarks] == [(1, "a"), (2, "b")]


async def test_the_last_step_may_be_a_retraction_alone():
    stream = await log_of([watermark(1)], [watermark(2)], [retracted(2)])
    assert await heights(stream) == [1]


async def test_the_same_watermark_again_takes_its_own_place():
    stream = await log_of([watermark(1)], [watermark(2)], [watermark(2, upto=7)])
    tail = await read_tail(stream, CHAIN, reorganisation_limit=64)
    assert [w.height for w in tail.checkpoint.watermarks] == [1, 2]
    assert tail.checkpoint.last.watchlist_upto == 7


async def test_an_answer_to_read_again_does_not_move_the_checkpoint():
    stream = await log_of([watermark(8)], [watermark(9)], [watermark(5, from_height=3)])
    assert await heights(stream) == [8, 9]


async def test_answered_look_ups_at_the_end_are_known():
    answer = TransactionLookedUp(
        request="claim-1", chain=CHAIN, tx="0x1", state=LookedUpState.UNKNOWN
    )
    found = msgspec.structs.replace(answer, request="claim-2", state=LookedUpState.PENDING)
    last = msgspec.structs.replace(found, state=LookedUpState.INCLUDED)
    stream = await log_of([watermark(1)], [answer, found], [last], lanes=3)
    tail = await read_tail(stream, CHAIN, reorganisation_limit=64)
    assert tail.answered == {"claim-1", "claim-2"}
    assert tail.unsettled == {"claim-1"}
    assert tail.checkpoint.last.height == 1


async def test_retention_may_have_taken_the_beginning():
    stream = await log_of(*([watermark(h)] for h in range(1, 20)))
    stream.log.forget_before(LANE, 15)
    assert await heights(stream) == [16, 17, 18, 19]


@st.composite
def histories(draw):
    """Steps as a watcher writes them: a block, one again, blocks read again, a reorganisation."""
    line, steps = [watermark(10)], [[watermark(10)]]
    for number in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["block", "block", "block", "same", "again", "reorganisation"]))
        if kind == "same":
            line[-1] = msgspec.structs.replace(line[-1], watchlist_upto=number)
            steps.append([line[-1]])
        elif kind == "again":
            # Each block by itself, also where the line has one watermark for several.
            lower = draw(st.integers(1, line[-1].height))
            heights = range(lower, draw(st.integers(lower, line[-1].height)) + 1)
            hashes = {mark.height: mark.hash[2:3] for mark in line}
            again = [watermark(h, branch=hashes.get(h, "f")) for h in heights]
            steps.append([*(mark for mark in again if mark.height < line[-1].height), line[-1]])
        else:
            gone = []
            if kind == "reorganisation" and len(line) > 1:
                kept = [mark for mark in line if mark.height <= line[-1].finalized_height]
                for _ in range(draw(st.integers(0, len(line) - max(1, len(kept))))):
                    mark = line.pop()
                    gone.append(retracted(mark.height, mark.hash[2:3]))
            first = line[-1].height + 1
            height = first + draw(st.integers(0, 2))
            finalized = max(line[-1].finalized_height, height - draw(st.integers(4, 9)))
            branch = draw(st.sampled_from("abcdef"))
            line.append(watermark(height, from_height=first, branch=branch, finalized=finalized))
            steps.append([*gone, line[-1]])
    return steps, line


@given(history=histories())
def test_the_standing_watermarks_are_those_of_the_line(history):
    steps, line = history
    assert standing_watermarks(fact for step in steps for fact in step) == line


@given(history=histories(), chunk=st.integers(1, 12), holes=st.booleans())
def test_where_the_reading_back_stops_it_has_the_lines_end_down_to_what_is_final(
    history, chunk, holes
):
    steps, line = history

    async def check():
        stream = await log_of(*steps, marker_holes=holes)
        kept, checkpoint.CHUNK_OFFSETS = checkpoint.CHUNK_OFFSETS, chunk
        try:
            tail = await read_tail(stream, CHAIN, reorganisation_limit=1_000)
        finally:
            checkpoint.CHUNK_OFFSETS = kept
        found = tail.checkpoint.watermarks
        assert found[-1] == line[-1]
        places = {mark.height: mark.hash for mark in found}
        assert len(places) == len(found), "one watermark a height"
        for mark in line:
            assert mark.height < found[0].height or places[mark.height] == mark.hash
        assert found[0].height <= max(line[-1].finalized_height, line[0].height)

    asyncio.run(check())


async def test_a_reading_back_that_begins_with_blocks_read_again_goes_on(monkeypatch):
    monkeypatch.setattr(checkpoint, "CHUNK_OFFSETS", 2)
    marks = [watermark(h, finalized=5) for h in range(4, 10)]
    stream = await log_of(*([mark] for mark in marks), [watermark(3), marks[-1]])
    found = await heights(stream)
    assert found in ([4, 5, 6, 7, 8, 9], [5, 6, 7, 8, 9])


def test_the_moment_of_a_watermark_is_not_its_place():
    # Two watermarks of one height differ by their hash alone: only the newest line stands.
    first, second = watermark(5, branch="a"), watermark(5, branch="b")
    assert standing_watermarks([first, second]) == [first]
    assert second.time - first.time == timedelta()


@pytest.mark.parametrize(("down_to", "first"), [(95, 94), (40, 39), (0, 1)])
async def test_older_watermarks_are_read_back_as_far_as_they_are_asked_for(
    down_to, first, monkeypatch
):
    monkeypatch.setattr(checkpoint, "CHUNK_OFFSETS", 2)
    stream = await log_of(*([watermark(h)] for h in range(1, 100)))
    found = await read_standing(stream, CHAIN, down_to=down_to)
    assert [mark.height for mark in found] == list(range(found[0].height, 100))
    assert first <= found[0].height <= max(1, down_to)


def waits(number, to):
    return msgspec.structs.replace(seen(number, to, 1), block=None)


def dropped(number, to):
    name = seen(number, to, 1).transfer
    return TransferDropped(transfer=name, chain=CHAIN, to=to, replaced_by="0x1", reason="spent")


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("chunk", [1, 2, 2_000])
async def test_what_was_said_to_wait_is_read_back_unless_more_was_said_of_it(
    lanes, chunk, monkeypatch
):
    monkeypatch.setattr(checkpoint, "CHUNK_OFFSETS", chunk)
    us = [address_number(number) for number in range(6)]
    stream = await log_of(
        [waits(number, us[number]) for number in range(6)],
        [seen(1, us[1], 7), watermark(7)],
        [dropped(2, us[2])],
        [dropped(3, us[3])],
        [waits(3, us[3]), waits(4, us[4])],
        lanes=lanes,
    )
    found = await ReadLog(stream, CHAIN, lanes=lanes).announced(60)
    assert sorted(one.transfer for one in found) == sorted(
        seen(number, us[number], 1).transfer for number in (0, 3, 4, 5)
    )
    assert all(one.block is None for one in found)


async def test_what_was_said_long_before_the_logs_last_word_is_not_read_back(monkeypatch):
    monkeypatch.setattr(checkpoint, "CHUNK_OFFSETS", 1)
    clock = ManualClock(NOON)
    log = MemoryLog(clock)
    log.create(topic_specs({CHAIN: 1}, ["eip155"]))
    stream = MemoryStream(log)
    writer = stream.writer(f"watch/{CHAIN}")
    await writer.start()
    us = address_number(1)
    for number in range(4):
        step = Step(facts=[waits(number, us)])
        await writer.append(messages_of(step, CHAIN, lanes=1, now=clock.now()))
        clock.advance(timedelta(seconds=100))
    clock.advance(timedelta(days=1))
    found = await ReadLog(stream, CHAIN, lanes=1).announced(150)
    names = [one.transfer for one in found]
    assert names[-2:] == [waits(number, us).transfer for number in (2, 3)]
    assert waits(0, us).transfer not in names


async def test_nothing_waited_in_an_empty_log():
    assert await ReadLog(await log_of(), CHAIN, lanes=1).announced(60) == []
