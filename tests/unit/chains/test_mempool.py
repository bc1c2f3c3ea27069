"""What waits to be mined: announced once, again now and then, and gone only where something proves it."""

from __future__ import annotations

import time
from collections.abc import Iterator, KeysView
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from chains.errors import NodeUnavailable
from chains.line import Taken
from chains.pace import FollowSettings
from chains.port import Unmined
from chains.unmined import UnminedTransfers
from schemas.facts import AddressCovered, FoundBy, TransferDropped, TransferSeen, Watermark
from schemas.values import transfer_id
from tests.parts.follow_story import Story
from tests.parts.scripted_source import CHAIN, Pay, ScriptedSource, StoppedClock, tx_id

US = 7
OTHER = 9
STRANGER = 8


async def waiting(*pays: Pay, **settings: float) -> Story:
    """A story on a chain with a mempool, which is covered and watches two of our addresses."""
    story = Story(settings=FollowSettings(**settings))
    story.source.mempool = []
    story.begin()
    await story.covers(0)
    story.watch(US, OTHER)
    await story.until(AddressCovered)
    story.source.mempool.extend(pays)
    return story


def names(facts: list) -> list[str]:
    return [fact.transfer for fact in facts]


def id_of(name: str) -> str:
    return transfer_id(CHAIN, tx_id(name), "value")


async def pass_s(story: Story, seconds: float) -> None:
    """Take steps until so much time has passed."""
    until = story.clock.monotonic_s() + seconds
    while story.clock.monotonic_s() < until:
        await story.step()


async def test_a_payment_is_seen_before_it_is_mined_and_said_once():
    story = await waiting()
    story.source.mempool.append(Pay("a", US, 5))
    (seen,) = await story.until(TransferSeen)
    assert (seen.block, seen.amount, seen.found_by) == (None, 5, FoundBy.MEMPOOL)
    await pass_s(story, 500)
    assert names(story.of(TransferSeen)) == [id_of("a")]


async def test_what_still_waits_is_said_again_with_its_first_sight():
    story = await waiting(Pay("a", US))
    await pass_s(story, 1_900)
    seen = story.of(TransferSeen)
    assert names(seen) == [id_of("a")] * 4
    assert len({fact.first_seen_at for fact in seen}) == 1


async def test_strangers_payments_are_no_news():
    story = await waiting(Pay("a", STRANGER))
    await pass_s(story, 60)
    assert story.of(TransferSeen) == []


async def test_an_address_that_is_watched_later_finds_what_waits():
    story = await waiting(Pay("a", STRANGER))
    story.watch(STRANGER)
    assert names(await story.until(TransferSeen)) == [id_of("a")]


async def test_a_replacement_to_somebody_else_drops_it_before_anything_is_mined():
    story = await waiting(Pay("a", US, nonce="coin"))
    await story.until(TransferSeen)
    story.source.mempool[:] = [Pay("b", STRANGER, nonce="coin")]
    (gone,) = await story.until(TransferDropped)
    assert (gone.transfer, gone.replaced_by) == (id_of("a"), tx_id("b"))


async def test_a_replacement_that_is_mined_unseen_drops_it():
    story = await waiting(Pay("a", US, nonce="coin"))
    await story.until(TransferSeen)
    story.source.mempool.clear()
    story.source.mine(Pay("b", STRANGER, nonce="coin"))
    (gone,) = await story.until(TransferDropped)
    assert (gone.transfer, gone.replaced_by) == (id_of("a"), tx_id("b"))


@pytest.mark.parametrize("mined", [False, True])
async def test_a_replacement_that_pays_the_same_address_inherits_first_sight(mined: bool):
    story = await waiting(Pay("a", US, 5, nonce="coin"))
    (first,) = await story.until(TransferSeen)
    await pass_s(story, 100)
    twin = Pay("b", US, 5, nonce="coin")
    story.source.mempool[:] = [] if mined else [twin]
    if mined:
        story.source.mine(twin)
    await story.until(TransferDropped)
    (again,) = [fact for fact in story.of(TransferSeen) if fact.transfer == id_of("b")]
    assert again.first_seen_at == first.first_seen_at
    dropped, seen = story.of(TransferDropped)[0], again
    facts = story.facts
    assert mined or facts.index(dropped) < facts.index(seen), (
        "one payment counts once at any moment"
    )


async def test_a_replacement_that_pays_another_of_ours_inherits_nothing():
    story = await waiting(Pay("a", US, nonce="coin"))
    (first,) = await story.until(TransferSeen)
    await pass_s(story, 100)
    story.source.mempool[:] = [Pay("b", OTHER, nonce="coin")]
    await story.until(TransferDropped)
    assert story.of(TransferSeen)[-1].first_seen_at > first.first_seen_at


async def test_that_it_is_missing_decides_nothing():
    story = await waiting(Pay("a", US))
    await story.until(TransferSeen)
    story.source.mempool.clear()
    await pass_s(story, 4_000)
    assert story.of(TransferDropped) == []
    story.source.mempool.append(Pay("a", US))
    await pass_s(story, 10)
    assert names(story.of(TransferSeen)) == [id_of("a")] * 2


async def test_one_that_comes_back_after_its_replacement_is_seen_again():
    story = await waiting(Pay("a", US, nonce="coin"))
    (first,) = await story.until(TransferSeen)
    story.source.mempool[:] = [Pay("b", US, nonce="coin")]
    await story.until(TransferDropped)
    story.source.mempool[:] = [Pay("a", US, nonce="coin")]
    (gone,) = await story.until(TransferDropped)
    assert gone.transfer == id_of("b")
    again = story.of(TransferSeen)[-1]
    assert (again.transfer, again.first_seen_at) == (id_of("a"), first.first_seen_at)


async def test_mined_it_stands_in_its_block_and_waits_no_longer():
    story = await waiting(Pay("a", US))
    await story.until(TransferSeen)
    story.source.mempool.clear()
    story.source.mine(Pay("a", US))
    (seen,) = await story.until(TransferSeen)
    assert seen.block is not None
    await pass_s(story, 2_000)
    assert len(story.of(TransferSeen)) == 2
    assert story.of(TransferDropped) == []


async def test_what_a_reorganisation_puts_back_into_the_mempool_waits_again():
    story = await waiting()
    story.source.mine(Pay("a", US))
    await story.until(TransferSeen)
    story.source.fork(1, [], [])
    story.source.mempool.append(Pay("a", US))
    await story.covers(2)
    await pass_s(story, 5)
    assert story.of(TransferSeen)[-1].block is None


async def test_a_mempool_that_cannot_be_read_holds_up_no_block():
    story = await waiting()
    story.source.mempool_failures.extend([NodeUnavailable("no answer")] * 3)
    story.source.mine(Pay("a", US))
    (seen,) = await story.until(TransferSeen)
    assert seen.block is not None
    story.source.mempool.append(Pay("b", US))
    assert names(await story.until(TransferSeen)) == [id_of("b")]


async def test_a_chain_without_a_mempool_is_not_asked_and_its_log_is_not_read():
    story = Story()
    story.begin()
    await story.covers(0)
    await pass_s(story, 100)
    assert story.source.looks == 0
    assert story.log.asked == 0


async def restarted(story: Story) -> None:
    """Another process takes over; what it knows stands in the log."""
    story.restart()
    story.watch(US, OTHER)


@pytest.mark.parametrize("mined", [False, True])
async def test_what_was_replaced_while_no_watcher_ran_is_dropped_by_the_next_one(mined: bool):
    story = await waiting(Pay("a", US, nonce="coin"))
    await story.until(TransferSeen)
    rival = Pay("b", STRANGER, nonce="coin")
    story.source.mempool[:] = [] if mined else [rival]
    if mined:
        story.source.mine(rival)
    await restarted(story)
    (gone,) = await story.until(TransferDropped)
    assert (gone.transfer, gone.replaced_by) == (id_of("a"), tx_id("b"))


@pytest.mark.parametrize("mined", [False, True])
async def test_first_sight_is_inherited_by_a_replacement_over_a_restart(mined: bool):
    story = await waiting(Pay("a", US, 5, nonce="coin"))
    (first,) = await story.until(TransferSeen)
    await pass_s(story, 100)
    twin = Pay("b", US, 5, nonce="coin")
    story.source.mempool[:] = [] if mined else [twin]
    if mined:
        story.source.mine(twin)
    await restarted(story)
    await story.until(TransferDropped)
    (again,) = [fact for fact in story.of(TransferSeen) if fact.transfer == id_of("b")]
    assert again.first_seen_at == first.first_seen_at


async def test_what_still_waits_after_a_restart_is_said_again_with_its_first_sight():
    story = await waiting(Pay("a", US, 5))
    (first,) = await story.until(TransferSeen)
    await pass_s(story, 100)
    await restarted(story)
    (again,) = await story.until(TransferSeen)
    assert again == first


async def test_what_was_mined_or_dropped_before_a_restart_waits_no_longer():
    story = await waiting(Pay("a", US, nonce="one"), Pay("b", US, nonce="two"))
    await story.until(TransferSeen)
    story.source.mempool[:] = [Pay("c", STRANGER, nonce="two")]
    story.source.mine(Pay("a", US, nonce="one"))
    await story.until(TransferDropped)
    await story.covers(story.source.height)
    before = len(story.facts)
    await restarted(story)
    await pass_s(story, 100)
    later = story.facts[before:]
    assert [fact for fact in later if isinstance(fact, TransferSeen | TransferDropped)] == []


async def test_a_flood_is_said_in_parts_and_no_more_than_is_kept():
    story = await waiting(
        *(Pay(f"p{number}", US) for number in range(50)),
        mempool_facts_a_step=7,
        mempool_transfers_max=30,
    )
    await pass_s(story, 60)
    said = [[f for f in step.facts if isinstance(f, TransferSeen)] for step in story.steps]
    assert max(map(len, said)) == 7
    assert len({fact.transfer for some in said for fact in some}) == 30


async def test_blocks_without_facts_are_said_before_the_one_that_drops_a_transfer():
    """A fact needs a block of its own: coverage below it must not wait for what the block says."""
    story = await waiting(Pay("a", US, nonce="coin"), empty_watermark_s=30.0)
    await story.until(TransferSeen)
    story.source.mempool.clear()
    story.source.mine(blocks=3)
    story.source.mine(Pay("b", STRANGER, nonce="coin"))
    await story.until(TransferDropped)
    marks = [(mark.from_height, mark.height) for mark in story.of(Watermark)]
    assert [mark for mark in marks if mark[1] > 0] == [(1, 3), (4, 4)]


async def test_final_blocks_that_are_read_in_one_go_take_off_what_they_mine():
    story = await waiting(Pay("a", US))
    await story.until(TransferSeen)
    story.source.mempool.clear()
    story.source.mine(Pay("a", US))
    story.source.mine(blocks=9)
    story.source.finalized = story.source.height
    await story.covers(story.source.height)
    assert story.source.ranges
    story.source.mempool.append(Pay("a", US))
    await pass_s(story, 5)
    assert [seen.block is None for seen in story.of(TransferSeen)] == [True, False, True]


async def test_what_was_away_and_came_back_is_known_for_as_long_as_any_other():
    story = await waiting(Pay("a", US, nonce="coin"))
    await story.until(TransferSeen)
    story.source.mempool.clear()
    await pass_s(story, 1_500)
    story.source.mempool.append(Pay("a", US, nonce="coin"))
    await pass_s(story, 10)
    story.source.mempool.clear()
    await pass_s(story, 1_500)
    story.source.mine(Pay("b", STRANGER, nonce="coin"))
    assert names(await story.until(TransferDropped)) == [id_of("a")]


async def test_it_is_looked_at_as_often_as_the_settings_say():
    story = await waiting(mempool_s=0.25, wait_s=1.0)
    before = story.source.looks
    await pass_s(story, 60)
    assert 200 <= story.source.looks - before <= 260


def taken(source: ScriptedSource, *, spent: dict[str, str]) -> Taken:
    header = source.mine()
    return Taken(
        from_height=header.height, parent_hash=header.parent_hash, header=header, spent=spent
    )


def known(source: ScriptedSource, pay: Pay) -> UnminedTransfers:
    unmined = UnminedTransfers(again_s=600, transfers_max=10)
    found = Unmined(transfers=[source._seen(pay, None, FoundBy.MEMPOOL)])
    assert len(unmined.compare(found, 0.0, facts_max=10)) == 1
    return unmined


def test_a_transaction_replaces_itself_nowhere() -> None:
    """A node may name the payer of an outpoint and leave out what it pays; a block may, too."""
    source, pay = ScriptedSource(StoppedClock()), Pay("a", US)
    source.mempool = []
    own = {pay.outpoint: tx_id("a")}
    assert known(source, pay).compare(Unmined(spent=own), 1.0, facts_max=10) == []
    unmined = known(source, pay)
    assert unmined.settle(taken(source, spent=own)) == []
    assert (len(unmined), len(unmined.outpoints)) == (0, 0)


def test_what_a_block_spends_is_not_listed_while_nothing_waits() -> None:
    class Costly(dict[str, str]):
        def keys(self) -> KeysView[str]:
            raise AssertionError("thousands of outpoints were made for nothing")

    source = ScriptedSource(StoppedClock())
    unmined = UnminedTransfers(again_s=600, transfers_max=10)
    block = taken(source, spent=Costly())
    assert unmined.settle(block) == []
    assert not unmined.contested_by(block)


async def test_a_flood_of_small_payments_does_not_keep_blocks_waiting():
    flood = [Pay(f"dust{number}", US) for number in range(200)]
    story = await waiting(*flood, mempool_facts_a_step=10)
    await story.until(TransferSeen)
    header = story.source.mine(Pay("mined", OTHER))
    await story.covers(header.height, steps_max=4)
    await pass_s(story, 20)
    assert len(story.of(TransferSeen)) == len(flood) + 1


@contextmanager
def time_limit_s(seconds: float) -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def of_many(inputs: int, outputs: int, *, tx: str = "many") -> list[TransferSeen]:
    """One transaction that spends and pays us often."""
    source = ScriptedSource(StoppedClock())
    source.mempool = []
    one = source._seen(Pay(tx, US), None, FoundBy.MEMPOOL)
    spends = tuple(f"{tx_id('coin')}:{number}" for number in range(inputs))
    return [
        replace(one, transfer=transfer_id(CHAIN, tx_id(tx), f"out:{number}"), spends=spends)
        for number in range(outputs)
    ]


class Counted(dict[str, str]):
    """What the mempool spends, and how often it was asked."""

    asked = 0

    def get(self, *key: str) -> str | None:
        self.asked += 1
        return super().get(*key)


def test_a_transaction_of_many_inputs_and_outputs_costs_as_many_steps_as_it_has():
    """Once for all of its transfers: a thousand by a thousand took the watcher's only thread for minutes."""
    unmined = UnminedTransfers(again_s=600, transfers_max=10_000)
    many = of_many(300, 300)
    with time_limit_s(2.0):
        for look in range(20):
            unmined.compare(Unmined(transfers=many), float(look), facts_max=1_000)
    assert (len(unmined), len(unmined.outpoints)) == (300, 300)
    nothing = Counted()
    assert unmined.compare(Unmined(spent=nothing), 30.0, facts_max=1_000) == []
    assert nothing.asked == 300
    spent = {f"{tx_id('coin')}:299": tx_id("thief")}
    gone = unmined.compare(Unmined(spent=spent), 31.0, facts_max=1_000)
    assert {fact.transfer for fact in gone} == {seen.transfer for seen in many}
    assert (len(unmined), len(unmined.outpoints)) == (0, 0)


def test_what_a_block_makes_impossible_is_all_of_a_transaction():
    unmined = UnminedTransfers(again_s=600, transfers_max=10_000)
    many = of_many(3, 4)
    unmined.compare(Unmined(transfers=many), 0.0, facts_max=1_000)
    source = ScriptedSource(StoppedClock())
    block = taken(source, spent={f"{tx_id('coin')}:1": tx_id("thief")})
    assert [fact.transfer for fact in unmined.settle(block)] == [seen.transfer for seen in many]
    assert (len(unmined), len(unmined.outpoints)) == (0, 0)
