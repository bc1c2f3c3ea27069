"""The loop alone, against a scripted chain, on time that moves only when somebody waits."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from itertools import pairwise

import pytest

from chains.errors import (
    AnswerRefused,
    NoCheckpoint,
    NodeBehind,
    NodeBusy,
    NodeUnavailable,
    WrongChain,
)
from chains.observe import SourceStarted
from chains.pace import FollowSettings
from chains.port import Checkpoint, Step
from schemas.facts import (
    AddressCovered,
    BalanceSeen,
    BlockRetracted,
    FoundBy,
    LookedUpState,
    TransactionLookedUp,
    TransferDropped,
    TransferSeen,
    Watermark,
)
from schemas.requests import LookUpTransaction, ReadAgain, ReleaseReorganisation, SeeBalance
from schemas.values import transfer_id
from tests.parts.follow_story import Story, applied
from tests.parts.scripted_source import (
    BLOCK_TIME_S,
    CHAIN,
    COIN,
    START,
    Pay,
    address,
    display,
    tx_id,
)

US = 7
STRANGER = 8


async def test_without_checkpoint_and_start_at_nothing_is_read():
    story = Story()
    story.begin(start_at=None)
    with pytest.raises(NoCheckpoint):
        await story.step()
    assert story.source.reads == []


async def test_the_start_tells_what_the_nodes_are_blind_to():
    story = Story()
    story.source.blind_to = ("no node traces calls",)
    story.begin()
    await story.step()
    told = [seen for seen in story.observed if isinstance(seen, SourceStarted)]
    assert [seen.blind_spots for seen in told] == [("no node traces calls",)]


async def test_a_start_that_lies_ahead_of_the_node_is_said_until_the_chain_is_there():
    """A number with a digit too many, or a node that still reads old blocks: silence would look well."""
    story = Story()
    story.source.mine(blocks=3)
    loop = story.begin(start_at=5)
    held: list[str] = []

    async def wait(_: float) -> None:
        held.append(loop.status().held or "")
        story.source.mine(blocks=2)

    story.source.wait_for_change = wait
    assert (await story.step()).watermark.height == 5
    assert "block 5" in held[0]
    assert "blocks up to 3" in held[0]
    assert loop.status().held is None


async def test_begins_at_start_at_and_covers_every_block_in_order():
    story = Story()
    story.source.mine(blocks=20)
    story.begin(start_at=5)
    story.watch(US)
    await story.covers(20)
    marks = story.of(Watermark)
    assert marks[0].from_height == 5
    assert marks[0].parent_hash == story.source.branch[4]
    for before, after in pairwise(marks):
        if after.height > before.height:
            assert after.from_height == before.height + 1
            assert after.parent_hash == before.hash


async def test_a_block_with_a_payment_has_its_own_watermark_in_the_same_step():
    story = Story()
    story.source.mine(blocks=3)
    paid = story.source.mine(Pay("a", US))
    story.source.mine(blocks=3)
    story.begin()
    story.watch(US)
    await story.covers(story.source.height)
    (step,) = [s for s in story.steps if any(isinstance(f, TransferSeen) for f in s.facts)]
    assert step.watermark is not None
    assert (step.watermark.from_height, step.watermark.height) == (paid.height, paid.height)
    assert applied(story.steps)[0] == {
        transfer_id(CHAIN, tx_id("a"), "value"): (paid.height, paid.hash)
    }


async def test_empty_blocks_share_watermarks_and_give_at_most_one_a_second():
    story = Story()
    story.source.mine(blocks=100)
    story.begin()
    await story.covers(100)
    marks = story.of(Watermark)
    assert len(marks) < 10
    for before, after in pairwise(marks):
        assert (after.read_at - before.read_at).total_seconds() >= 1.0


async def test_the_last_watermark_is_given_again_after_30_s_and_says_the_same():
    story = Story()
    story.begin()
    first = (await story.step()).watermark
    again = (await story.step()).watermark
    assert first is not None
    assert again is not None
    assert (again.height, again.hash, again.from_height) == (
        first.height,
        first.hash,
        first.from_height,
    )
    assert 30 <= (again.read_at - first.read_at).total_seconds() < 32


async def test_coverage_time_is_never_later_than_the_moment_of_reading():
    story = Story()
    story.clock.moment = START - timedelta(hours=1)
    story.source.mine(blocks=2)
    story.begin()
    await story.covers(2)
    for mark in story.of(Watermark):
        assert mark.time <= mark.read_at


async def test_final_blocks_are_read_in_ranges_and_hits_still_stand_alone():
    story = Story()
    for number in range(1, 201):
        story.source.mine(*([Pay(f"p{number}", US)] if number % 50 == 0 else []))
    story.source.finalized = 180
    story.begin()
    story.watch(US)
    await story.covers(200)
    assert story.source.ranges
    assert max(last for _, last in story.source.ranges) <= 180
    standing, covered = applied(story.steps)
    assert sorted(height for height, _ in standing.values()) == [50, 100, 150, 200]
    assert covered == (200, story.source.tip.hash)
    own = {mark.height: mark for mark in story.of(Watermark)}
    for height in (50, 100, 150, 200):
        assert own[height].from_height == height


# --- failures: CH-R05, CH-R06, CH-R10 ---------------------------------------------------------


async def test_a_block_that_fails_is_read_again_and_never_skipped():
    story = Story()
    story.source.mine(blocks=5)
    story.source.mine(Pay("a", US))
    story.source.mine(blocks=4)
    story.source.fail_reads[6] = deque(
        [NodeBehind("receipt not there"), AnswerRefused("root"), NodeUnavailable("cut off")]
    )
    loop = story.begin()
    story.watch(US)
    await story.covers(10)
    assert [height for height, _ in applied(story.steps)[0].values()] == [6]
    assert len(story.of(TransferSeen)) == 1
    assert loop.status().failures_in_a_row == 0


async def test_a_busy_node_gets_the_time_that_it_asked_for():
    story = Story()
    story.source.failures.extend([NodeBusy("429", retry_after_s=17.0)])
    story.begin()
    await story.step()
    assert 17.0 in story.clock.slept


async def test_lasting_failures_show_as_blindness_and_back_off_with_a_limit():
    story = Story()
    story.source.failures.extend(NodeUnavailable("down") for _ in range(20))
    loop = story.begin()
    held: list[str | None] = []
    sleep = story.clock.sleep

    async def note(seconds: float) -> None:
        held.append(loop.status().held)
        await sleep(seconds)

    story.clock.sleep = note
    await story.step()
    assert held[0] is None
    assert held[-1] is not None
    assert held[-1].startswith(f"{CHAIN} blind since 2026-11-30 13:00: down")
    assert max(story.clock.slept) == 30.0
    assert loop.status().held is None


async def test_the_chain_is_identified_every_minute_and_a_wrong_one_stops_the_loop():
    story = Story()
    story.begin()
    for _ in range(5):
        await story.step()
    assert story.source.identified >= 2
    story.source.wrong_chain = True
    with pytest.raises(WrongChain):
        await story.until(TransferDropped, steps_max=5)


# --- reorganisations: CH-G01 to CH-G04 ---------------------------------------------------------


async def test_a_reorganisation_is_retracted_newest_first_down_to_the_common_block():
    story = Story()
    story.source.mine(Pay("a", US))
    story.source.mine(Pay("b", US))
    story.source.mine(Pay("c", US))
    story.begin()
    story.watch(US)
    await story.covers(3)
    gone = story.source.branch[2:]
    story.source.fork(2, [], [Pay("c", US)], [])
    await story.covers(4)
    assert [fact.hash for fact in story.of(BlockRetracted)] == gone[::-1]
    standing, covered = applied(story.steps)
    assert {k.split("/")[1]: at[0] for k, at in standing.items()} == {tx_id("a"): 1, tx_id("c"): 3}
    assert covered == (4, story.source.tip.hash)


async def test_the_same_transaction_in_another_block_keeps_its_id_and_moves():
    story = Story()
    story.source.mine(Pay("a", US))
    story.begin()
    story.watch(US)
    await story.covers(1)
    story.source.fork(1, [], [Pay("a", US)])
    await story.covers(2)
    seen = story.of(TransferSeen)
    assert [fact.block.height for fact in seen] == [1, 2]
    assert len({fact.transfer for fact in seen}) == 1
    assert story.of(TransferDropped) == []


async def test_blocks_that_share_a_watermark_are_taken_back_together_and_what_is_left_said_again():
    story = Story()
    story.source.mine(Pay("a", US))
    story.source.mine(blocks=6)
    story.begin()
    story.watch(US)
    await story.covers(7)
    story.source.fork(3, [], [], [], [Pay("b", US)])
    await story.covers(8)
    (fact,) = story.of(BlockRetracted)
    assert (fact.height, fact.parent.height) == (7, 4)
    at = next(i for i, step in enumerate(story.steps) if fact in step.facts)
    left = story.steps[at].watermark
    assert left is not None
    assert (left.from_height, left.height) == (2, 4)
    assert applied(story.steps)[1] == (8, story.source.tip.hash)


async def test_a_lagging_node_retracts_nothing():
    story = Story()
    story.source.mine(Pay("a", US))
    story.source.mine(blocks=9)
    story.begin()
    story.watch(US)
    await story.covers(10)
    story.source.lag = 4
    for _ in range(3):
        await story.step()
    assert story.of(BlockRetracted) == []
    story.source.lag = 0
    story.source.mine(Pay("b", US))
    await story.covers(11)
    assert story.of(BlockRetracted) == []


async def test_a_lower_head_of_another_branch_is_a_reorganisation():
    story = Story()
    story.source.mine(blocks=5)
    story.source.mine(Pay("a", US))
    story.begin()
    story.watch(US)
    await story.covers(6)
    story.source.fork(3, [])
    await story.covers(4)
    assert applied(story.steps)[0] == {}


async def test_a_wrong_chain_behind_a_parent_mismatch_stops_before_anything_is_retracted():
    story = Story()
    story.source.mine(Pay("a", US))
    story.begin()
    story.watch(US)
    await story.covers(1)
    story.source.fork(1, [], [])
    story.source.wrong_chain = True
    with pytest.raises(WrongChain):
        await story.covers(2)
    assert story.of(BlockRetracted) == []


async def test_a_reorganisation_while_down_is_retracted_after_the_restart():
    story = Story()
    story.source.mine(Pay("a", US))
    story.source.mine(Pay("b", US))
    story.begin()
    story.watch(US)
    await story.covers(2)
    story.source.fork(2, [], [Pay("b", US)], [])
    story.restart()
    story.offset = 0
    story.watch(US)
    await story.covers(3)
    assert [fact.height for fact in story.of(BlockRetracted)] == [2, 1]
    assert [at[0] for at in applied(story.steps)[0].values()] == [2]


async def test_deeper_than_the_limit_is_held_until_a_person_agrees():
    story = Story(limit=5)
    story.source.mine(Pay("a", US))
    story.source.mine(blocks=9)
    loop = story.begin()
    story.watch(US)
    await story.covers(10)
    story.source.fork(10, *([] for _ in range(12)))
    waited = 0

    def release() -> None:
        nonlocal waited
        waited += 1
        if waited == 20:
            assert loop.status().held is not None
            assert "more than 5 blocks" in (loop.status().held or "")
            assert story.of(BlockRetracted) == []
            loop.request(
                ReleaseReorganisation(request="r", chain=CHAIN, actor="ann", reason="checked")
            )

    story.source.on_wait = release
    await story.covers(12)
    assert waited >= 20
    assert applied(story.steps) == ({}, (12, story.source.tip.hash))
    assert loop.status().held is None


async def test_deeper_than_the_limit_is_released_by_a_second_node():
    story = Story(limit=5)
    story.source.mine(Pay("a", US))
    story.source.mine(blocks=156)
    loop = story.begin()
    story.watch(US)
    await story.covers(157)
    story.source.fork(157, *([] for _ in range(158)))
    story.source.second_node_agrees = True
    await story.covers(158)
    assert applied(story.steps)[0] == {}
    assert loop.status().retracted_total >= 2


async def test_a_release_from_before_the_reorganisation_does_not_count():
    story = Story(limit=2)
    story.source.mine(blocks=9)
    loop = story.begin()
    await story.covers(9)
    loop.request(ReleaseReorganisation(request="r", chain=CHAIN, actor="ann", reason="early"))
    story.source.fork(8, *([] for _ in range(9)))
    back = story.source.branch
    for _ in range(2):
        waits = story.source.waits

        def stop(before: int = waits) -> None:
            if story.source.waits - before > 5:
                message = "held"
                raise WrongChain(message)

        story.source.on_wait = stop
        with pytest.raises(WrongChain, match="held"):
            await story.step()
    assert story.source.branch is back
    assert story.of(BlockRetracted) == []


async def test_a_chain_that_comes_back_ends_the_hold_by_itself():
    story = Story(limit=2)
    story.source.mine(blocks=9)
    loop = story.begin()
    await story.covers(9)
    before = list(story.source.branch)
    story.source.fork(8, *([] for _ in range(9)))
    held: list[str | None] = []

    def come_back() -> None:
        held.append(loop.status().held)
        if len(held) == 10:
            story.source.branch = before
            story.source.mine(Pay("a", US))

    story.source.on_wait = come_back
    story.watch(US)
    await story.until(TransferSeen)
    assert any(held)
    assert loop.status().held is None
    assert story.of(BlockRetracted) == []


async def test_a_nonce_that_another_transaction_used_drops_the_transfer():
    story = Story()
    story.source.mine(Pay("a", US, nonce="1"))
    story.begin()
    story.watch(US)
    await story.covers(1)
    story.source.fork(1, [], [Pay("thief", STRANGER, nonce="1")], [])
    (dropped,) = await story.until(TransferDropped)
    assert dropped.transfer == transfer_id(CHAIN, tx_id("a"), "value")
    assert dropped.replaced_by == tx_id("thief")
    await story.covers(3)
    assert len(story.of(TransferDropped)) == 1


async def test_a_transaction_mined_again_without_paying_drops_the_transfer():
    story = Story()
    story.source.mine(Pay("a", US, nonce="1"))
    story.begin()
    story.watch(US)
    await story.covers(1)
    story.source.fork(1, [Pay("a", STRANGER, nonce="1")], [])
    (dropped,) = await story.until(TransferDropped)
    assert dropped.replaced_by is None


# --- side work -----------------------------------------------------------------------------------


async def test_a_new_address_is_scanned_back_in_memory_without_reading_other_blocks_again():
    story = Story()
    story.source.mine(blocks=20)
    story.source.mine(Pay("early", US))
    story.source.mine(blocks=5)
    story.begin()
    await story.covers(26)
    story.source.reads.clear()
    story.watch(US, since=START + timedelta(seconds=BLOCK_TIME_S * 15))
    (covered,) = await story.until(AddressCovered)
    assert (covered.address, covered.from_height) == (display(address(US)), 15)
    (seen,) = story.of(TransferSeen)
    assert (seen.found_by, seen.block.height) == (FoundBy.BACK_SCAN, 21)
    assert story.source.reads == [21]
    assert story.source.ranges == []
    assert story.steps[-1].watermark.watchlist_upto == 1
    assert all(mark.watchlist_upto == 0 for mark in story.of(Watermark)[:-1])


async def test_what_a_back_scan_finds_has_a_watermark_of_its_own_block():
    story = Story()
    story.source.mine(blocks=20)
    paid = story.source.mine(Pay("early", US))
    story.source.mine(blocks=5)
    story.begin()
    await story.covers(26)
    story.watch(US, since=START)
    await story.until(AddressCovered)
    assert paid.hash in {mark.hash for mark in story.of(Watermark)}
    assert applied(story.steps)[1] == (26, story.source.tip.hash)


async def test_an_older_back_scan_reads_ranges_and_is_bounded_to_a_day():
    story = Story()
    story.source.mine(Pay("too old", US))
    story.source.mine(blocks=2_000)
    paid = story.source.mine(Pay("in time", US))
    story.source.mine(blocks=12_000)
    story.source.finalized = story.source.height - 10
    story.clock.moment = story.source.tip.time
    story.begin(start_at=story.source.height - 20)
    await story.covers(story.source.height)
    story.watch(US, since=START)
    (covered,) = await story.until(AddressCovered)
    floor = story.clock.moment - timedelta(days=1)
    assert abs((covered.from_time - floor).total_seconds()) < 600
    assert (
        story.source.blocks[story.source.branch[covered.from_height]].header.time
        >= covered.from_time
    )
    assert [fact.transfer for fact in story.of(TransferSeen)] == []
    assert paid.height < covered.from_height
    assert story.source.ranges


async def test_a_pruned_node_leaves_the_address_uncovered_until_history_is_there():
    story = Story()
    story.source.mine(Pay("early", US))
    story.source.mine(blocks=30)
    loop = story.begin(start_at=25)
    await story.covers(31)
    story.source.pruned_below = 20
    story.watch(US, since=START)
    for _ in range(4):
        await story.step()
    assert story.of(AddressCovered) == []
    assert loop.status().back_scans_open == 1
    assert story.of(Watermark)[-1].watchlist_upto == 0
    story.source.pruned_below = 0
    await story.until(AddressCovered)
    assert [fact.block.height for fact in story.of(TransferSeen)] == [1]
    assert loop.status().back_scans_open == 0


async def test_addresses_announced_by_an_earlier_run_are_not_scanned_again():
    story = Story()
    story.source.mine(blocks=5)
    story.begin()
    story.watch(US, since=START)
    await story.until(AddressCovered)
    story.restart()
    story.offset = 0
    story.watch(US, STRANGER, since=START)
    story.source.mine(Pay("a", US))
    await story.covers(6)
    covered = [fact.address for fact in story.of(AddressCovered)]
    assert covered == [display(address(US)), display(address(STRANGER))]
    assert [fact.block.height for fact in story.of(TransferSeen)] == [6]


async def test_a_payment_read_ahead_before_its_address_came_is_not_lost():
    story = Story()
    story.source.mine(blocks=8)
    story.source.mine(Pay("a", US))
    story.source.mine(Pay("b", STRANGER))
    story.begin()
    story.watch(STRANGER)

    def order_comes(height: int) -> None:
        if height == 9:
            story.source.on_read = lambda _: None
            story.watch(US, since=START + timedelta(seconds=BLOCK_TIME_S * 8))

    story.source.on_read = order_comes
    await story.covers(10)
    await story.until(AddressCovered)
    names = {fact.transfer.split("/")[1] for fact in story.of(TransferSeen)}
    assert names == {tx_id("a"), tx_id("b")}
    assert applied(story.steps)[1] == (10, story.source.tip.hash)


async def test_look_ups_are_answered_with_their_request_and_move_no_watermark():
    story = Story()
    story.source.mine(blocks=2)
    loop = story.begin()
    await story.covers(2)
    story.source.transactions[tx_id("x")] = LookedUpState.PENDING
    loop.request(LookUpTransaction(request="claim-1", chain=CHAIN, tx=tx_id("x")))
    loop.request(LookUpTransaction(request="claim-2", chain=CHAIN, tx=tx_id("y")))
    found = await story.until(TransactionLookedUp)
    assert [(fact.request, fact.state) for fact in found] == [
        ("claim-1", LookedUpState.PENDING),
        ("claim-2", LookedUpState.UNKNOWN),
    ]
    assert story.steps[-1].watermark is None


async def test_a_look_up_that_fails_is_asked_again_and_holds_up_no_block():
    story = Story()
    loop = story.begin()
    await story.covers(0)
    loop.request(LookUpTransaction(request="claim-1", chain=CHAIN, tx=tx_id("x")))
    story.source.failures.extend([NodeUnavailable("down")] * 3)
    story.source.mine(Pay("a", US))
    await story.until(TransactionLookedUp)
    assert len(story.of(TransactionLookedUp)) == 1


async def test_look_ups_beyond_those_of_a_minute_come_later_and_none_is_lost():
    story = Story(settings=FollowSettings(look_ups_a_minute=4))
    loop = story.begin()
    await story.covers(0)
    for number in range(11):
        loop.request(LookUpTransaction(request=f"{number:02}", chain=CHAIN, tx=tx_id("x")))
    answered: list[tuple[float, str]] = []
    while len(answered) < 11:
        found = await story.until(TransactionLookedUp)
        answered += [(story.clock.monotonic_s(), fact.request) for fact in found]
    assert [name for _, name in answered] == [f"{number:02}" for number in range(11)]
    for (early, _), (late, _) in zip(answered, answered[4:], strict=False):
        assert late - early >= 60
    assert answered[-1][0] - answered[0][0] < 130
    assert loop.status().look_ups_open == 0


async def test_look_ups_that_wait_for_their_minute_hold_up_no_block():
    story = Story(settings=FollowSettings(look_ups_a_minute=1))
    loop = story.begin()
    await story.covers(0)
    for number in range(3):
        loop.request(LookUpTransaction(request=f"{number}", chain=CHAIN, tx=tx_id("x")))
    await story.until(TransactionLookedUp)
    story.source.mine(blocks=3)
    began_s = story.clock.monotonic_s()
    await story.covers(3)
    assert story.clock.monotonic_s() - began_s < 10
    assert loop.status().look_ups_open == 2


async def test_a_look_up_that_no_node_answers_uses_up_no_fresh_ones_turn():
    story = Story(settings=FollowSettings(look_ups_a_minute=2))
    loop = story.begin()
    await story.covers(0)
    story.source.unanswered.add(tx_id("pruned"))
    for number in range(5):
        loop.request(LookUpTransaction(request=f"p{number}", chain=CHAIN, tx=tx_id("pruned")))
    while story.clock.monotonic_s() < 600:
        await story.step()
    loop.request(LookUpTransaction(request="fresh", chain=CHAIN, tx=tx_id("x")))
    began_s = story.clock.monotonic_s()
    (found,) = await story.until(TransactionLookedUp)
    assert found.request == "fresh"
    assert story.clock.monotonic_s() - began_s <= 61


@pytest.mark.parametrize("first", [None, LookedUpState.PENDING])
async def test_what_was_unknown_or_waiting_is_asked_again_and_told_when_it_changed(
    first: LookedUpState | None,
):
    story = Story()
    loop = story.begin()
    await story.covers(0)
    if first is not None:
        story.source.transactions[tx_id("x")] = first
    loop.request(LookUpTransaction(request="claim-1", chain=CHAIN, tx=tx_id("x")))
    await story.until(TransactionLookedUp)
    assert loop.status().look_ups_open == 0
    while story.clock.monotonic_s() < 300:
        await story.step()
    assert len(story.of(TransactionLookedUp)) == 1
    story.source.transactions[tx_id("x")] = LookedUpState.FAILED
    (found,) = await story.until(TransactionLookedUp)
    assert (found.request, found.state) == ("claim-1", LookedUpState.FAILED)


async def test_what_stays_unknown_is_given_up_after_its_last_rest():
    story = Story(settings=FollowSettings(look_up_again_s=(10.0, 20.0)))
    loop = story.begin()
    await story.covers(0)
    asked: list[str] = []
    look_up = story.source.look_up
    story.source.look_up = lambda tx, watched: asked.append(tx) or look_up(tx, watched)
    loop.request(LookUpTransaction(request="claim-1", chain=CHAIN, tx=tx_id("x")))
    while story.clock.monotonic_s() < 600:
        await story.step()
    assert len(asked) == 3
    assert len(story.of(TransactionLookedUp)) == 1


async def test_half_of_every_minute_is_left_to_look_ups_that_were_never_asked():
    story = Story(settings=FollowSettings(look_ups_a_minute=4, look_up_again_s=(1.0,) * 100))
    loop = story.begin()
    await story.covers(0)
    for number in range(30):
        loop.request(LookUpTransaction(request=f"{number}", chain=CHAIN, tx=tx_id("x")))
    while loop.status().look_ups_open:
        await story.step()
    while story.clock.monotonic_s() < 1_000:
        await story.step()
    for number in range(2):
        loop.request(LookUpTransaction(request=f"f{number}", chain=CHAIN, tx=tx_id("y")))
    began_s = story.clock.monotonic_s()
    while loop.status().look_ups_open:
        await story.step()
    assert story.clock.monotonic_s() - began_s < 2


async def test_reading_again_publishes_the_span_with_its_watermarks_and_then_the_present_one():
    story = Story()
    story.source.mine(blocks=3)
    story.source.mine(Pay("a", US))
    story.source.mine(blocks=4)
    loop = story.begin()
    story.watch(US)
    await story.covers(8)
    steps_before = len(story.steps)
    loop.request(ReadAgain(request="r", chain=CHAIN, from_height=2, to_height=100, reason="audit"))
    await story.until(TransferSeen)
    again = [fact for step in story.steps[steps_before:] for fact in step.facts]
    assert [f.found_by for f in again if isinstance(f, TransferSeen)] == [FoundBy.READ_AGAIN]
    spans = [(f.from_height, f.height) for f in again if isinstance(f, Watermark)]
    assert spans[0][0] == 2
    assert spans[-1][1] == 8
    assert applied(story.steps)[1] == (8, story.source.tip.hash)


async def test_balance_is_that_of_the_newest_final_block_that_was_read():
    story = Story()
    story.source.mine(Pay("a", US, amount=5))
    story.source.mine(blocks=2)
    story.source.mine(Pay("b", US, amount=7))
    story.source.finalized = 3
    loop = story.begin()
    story.watch(US)
    await story.covers(4)
    loop.request(SeeBalance(request="s", chain=CHAIN, asset=COIN, address=display(address(US))))
    (seen,) = await story.until(BalanceSeen)
    assert (seen.request, seen.balance, seen.block.height) == ("s", 5, 3)
    assert isinstance(story.steps[-1].facts[-1], Watermark)


async def test_balance_waits_for_a_final_block_and_for_a_node_that_answers():
    story = Story()
    story.source.mine(Pay("a", US, amount=5), blocks=3)
    loop = story.begin()
    story.watch(US)
    await story.covers(3)
    loop.request(SeeBalance(request="s", chain=CHAIN, asset=COIN, address=display(address(US))))
    story.source.mine()
    await story.covers(4)
    assert story.of(BalanceSeen) == []
    story.source.finalized = 4
    story.source.mine()
    story.source.failures.extend([NodeUnavailable("gone")] * 3)
    (seen,) = await story.until(BalanceSeen)
    assert seen.balance == 5


async def test_balance_that_no_node_can_tell_is_given_up_and_blocks_nothing():
    story = Story()
    story.source.mine(blocks=3)
    story.source.finalized = 2
    loop = story.begin()
    story.watch(US)
    await story.covers(3)
    story.source.no_balances = True
    loop.request(SeeBalance(request="s", chain=CHAIN, asset=COIN, address=display(address(US))))
    story.source.mine(blocks=3)
    await story.covers(6)
    story.source.no_balances = False
    story.source.mine()
    await story.covers(7)
    assert story.of(BalanceSeen) == []


async def test_the_status_says_where_the_loop_stands():
    story = Story()
    story.source.mine(blocks=9)
    story.source.finalized = 4
    loop = story.begin()
    story.watch(US, STRANGER)
    await story.covers(9)
    status = loop.status()
    assert (status.head_height, status.covered_height, status.finalized_height) == (9, 9, 4)
    assert (status.watched, status.failures_in_a_row, status.held) == (2, 0, None)
    assert status.covered_time == story.source.tip.time


# Deeper than what is held in memory


@pytest.mark.parametrize("restarts", [False, True])
async def test_blocks_that_are_no_longer_held_in_memory_are_taken_back_as_any_other(restarts: bool):
    """Three blocks are the limit and twice as many are remembered; thirty leave the chain."""
    story = Story(limit=3)
    story.source.mine(blocks=9)
    story.begin()
    story.watch(US)
    await story.covers(9)
    for number in range(30):
        story.source.mine(Pay(f"p{number}", US))
        await story.covers(story.source.height)
    if restarts:
        marks = [mark for mark in story.of(Watermark) if mark.height > 36]
        story.begin(start_at=None, checkpoint=Checkpoint(watermarks=marks))
        story.watch(US)
    story.source.fork(30, *([Pay(f"q{number}", US)] for number in range(31)))
    story.source.second_node_agrees = True
    story.source.reads.clear()
    await story.covers(40)
    standing, covered = applied(story.steps)
    assert covered == (40, story.source.tip.hash)
    assert set(standing) == {
        transfer_id(CHAIN, tx_id(f"q{number}"), "value") for number in range(31)
    }
    assert min(story.source.reads) == 10, "what stands is not read again"


@pytest.mark.parametrize("depth", range(1, 31))
async def test_a_branch_may_part_at_any_block_also_at_the_one_below_the_oldest_held(depth: int):
    story = Story(limit=3)
    story.source.mine(blocks=9)
    story.begin()
    story.watch(US)
    await story.covers(9)
    for number in range(30):
        story.source.mine(Pay(f"p{number}", US))
        await story.covers(story.source.height)
    story.source.fork(depth, *([Pay(f"q{number}", US)] for number in range(depth + 1)))
    story.source.second_node_agrees = True
    story.source.reads.clear()
    await story.covers(40)
    standing, covered = applied(story.steps)
    assert covered == (40, story.source.tip.hash)
    assert len(standing) == 31
    assert min(story.source.reads) == 40 - depth, "what stands is not read again"


async def test_one_word_of_a_person_is_enough_however_deep_it_goes():
    story = Story(limit=3)
    loop = story.begin()
    await story.covers(0)
    for _ in range(40):
        story.source.mine()
        await story.covers(story.source.height)
    story.source.fork(35, *([] for _ in range(36)))
    said = 0

    def release() -> None:
        nonlocal said
        if loop.status().held is not None and not said:
            said += 1
            loop.request(ReleaseReorganisation(request="r", chain=CHAIN, actor="ann", reason="ok"))

    story.source.on_wait = release
    await story.covers(41)
    assert said == 1
    assert applied(story.steps)[1] == (41, story.source.tip.hash)


async def test_where_nothing_that_was_ever_said_is_left_the_new_branch_is_read_from_there():
    """Not from where the watcher once began, which may be years ago by then."""
    story = Story(limit=3)
    story.source.mine(blocks=20)
    story.begin(start_at=5)
    await story.covers(20)
    marks = [mark for mark in story.of(Watermark) if mark.height >= 12]
    story.steps.clear()  # retention took what was before
    story.steps.append(Step(facts=marks))
    story.begin(start_at=5, checkpoint=Checkpoint(watermarks=marks))
    story.watch(US)
    story.source.fork(18, *([Pay(f"q{number}", US)] for number in range(20)))
    story.source.second_node_agrees = True
    story.source.reads.clear()
    await story.covers(22)
    first = marks[0].from_height
    assert min(story.source.reads) == first
    standing, covered = applied(story.steps)
    assert covered == (22, story.source.tip.hash)
    assert {height for height, _ in standing.values()} == set(range(first, 23))
