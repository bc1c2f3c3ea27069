import asyncio
import contextlib
from datetime import timedelta

import pytest

from chains.errors import NoCheckpoint, WrongChain
from reconciler.kernel import ManualClock
from reconciler.observability import metrics
from reconciler.observability.metrics import Meters
from reconciler.stream.promise import (
    Lane,
    OutcomeUnknown,
    Outgoing,
    StreamUnavailable,
    TopicsDiffer,
    read_all,
)
from reconciler.stream.topics import (
    requests_topic,
    topic_specs,
    transfers_topic,
    watchlist_topic,
)
from reconciler.watch.again import ask_again
from reconciler.watch.watcher import AnotherWatcher, Watcher, WatchTerms
from schemas.codec import FACT_KINDS, decode, encode, kind_name
from schemas.envelope import Envelope, from_headers, to_headers
from schemas.facts import LookedUpState, TransactionLookedUp
from schemas.requests import LookUpTransaction, ReadAgain, ReleaseReorganisation, WatchAddress
from tests.parts.memory_stream import MemoryLog, MemoryStream, MemoryWriter, resized
from tests.parts.scripted_loop import (
    CHAIN,
    NOON,
    ScriptedLoop,
    address_number,
    retracted,
    seen,
    watermark,
)

TOPIC = transfers_topic(CHAIN)
HOUR = timedelta(hours=1)


class World:
    """One chain's topics, and as many watchers as a test starts."""

    def __init__(self, lanes=1):
        self.clock = ManualClock(NOON)
        self.log = MemoryLog(self.clock)
        self.specs = topic_specs({CHAIN: lanes}, ["eip155"])
        self.log.create(self.specs)
        self.stream = MemoryStream(self.log)
        self.lanes = lanes
        self.loops = []
        self.meters = Meters()

    def watcher(self):
        def follow(checkpoint, log_id, memory):
            self.memory = memory
            self.loops.append(ScriptedLoop(checkpoint, log_id))
            return self.loops[-1]

        return Watcher(
            WatchTerms(
                chain=CHAIN,
                lanes=self.lanes,
                reorganisation_limit=64,
                requests_again=HOUR,
                head_age_max=timedelta(minutes=5),
                specs=tuple(self.specs),
            ),
            stream=MemoryStream(self.log),
            follow=follow,
            make_log_id=lambda: f"log-{len(self.loops) + 1}",
            clock=self.clock,
            meters=self.meters,
        )

    async def until(self, condition):
        """Let time pass until something is true."""
        for _ in range(2_000):
            if condition():
                return
            await asyncio.sleep(0)
            if self.clock.sleepers:
                self.clock.advance(timedelta(milliseconds=100))
        pytest.fail("never became true")

    @contextlib.asynccontextmanager
    async def running(self, watcher=None):
        watcher = watcher or self.watcher()
        count = len(self.loops)
        task = asyncio.create_task(watcher.run())
        await self.until(lambda: task.done() or len(self.loops) > count)
        if task.done():
            task.result()
        try:
            yield self.loops[-1]
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def facts(self, lane=0):
        return [
            decode(from_headers(r.headers, default_time=NOON).type, r.value, FACT_KINDS)
            for r in await read_all(self.stream, Lane(TOPIC, lane))
        ]

    def published(self, lane=0):
        return len(self.log.records[Lane(TOPIC, lane)])

    async def send(self, topic, key, *messages):
        writer = self.stream.writer(f"test/{topic}")
        await writer.start()
        await writer.append(
            [
                Outgoing(
                    lane=Lane(topic, 0),
                    key=key.encode(),
                    value=encode(message) if message is not None else None,
                    headers=to_headers(
                        Envelope(id="x", type=kind_name(message) if message else "-", time=NOON)
                    ),
                )
                for message in messages
            ]
        )

    async def watch_address(self, number):
        address, topic = address_number(number), watchlist_topic("eip155")
        await self.send(topic, address, WatchAddress(family="eip155", address=address, since=NOON))


@pytest.fixture
def world():
    return World()


async def test_a_step_is_published_whole_before_the_next_is_taken(world):
    async with world.running() as loop:
        loop.give(seen(1, address_number(1), 5), watermark(5))
        loop.give(watermark(6))
        await world.until(lambda: world.published() == 3)
    assert await world.facts() == [seen(1, address_number(1), 5), watermark(5), watermark(6)]


async def test_with_three_lanes_every_lane_ends_with_the_same_watermark():
    world = World(lanes=3)
    async with world.running() as loop:
        loop.give(*(seen(n, address_number(n), 5) for n in range(12)), watermark(5))
        await world.until(lambda: world.published(2))
    lanes = [await world.facts(lane) for lane in range(3)]
    assert [lane[-1] for lane in lanes] == [watermark(5)] * 3
    assert sorted(f.transfer for lane in lanes for f in lane[:-1]) == sorted(
        seen(n, address_number(n), 5).transfer for n in range(12)
    )


async def test_an_empty_topic_gets_a_log_id_and_no_checkpoint(world):
    async with world.running() as loop:
        assert loop.checkpoint is None
        assert loop.log_id == "log-1"


async def test_the_next_watcher_goes_on_from_the_log_alone(world):
    async with world.running() as loop:
        loop.give(watermark(5))
        loop.give(watermark(6))
        loop.give(retracted(6), watermark(6, branch="b"))
        await world.until(lambda: world.published() == 4)
    async with world.running() as loop:
        assert list(loop.checkpoint.watermarks) == [watermark(5), watermark(6, branch="b")]
        assert loop.log_id == "log-1"


async def test_a_second_watcher_ends_the_first_which_publishes_nothing_more(world):
    first = asyncio.create_task(world.watcher().run())
    await world.until(lambda: len(world.loops) == 1)
    async with world.running() as second:
        world.loops[0].give(seen(1, address_number(1), 5), watermark(5))
        await world.until(first.done)
        with pytest.raises(AnotherWatcher, match=CHAIN):
            await first
        assert world.published() == 0
        second.give(watermark(5))
        await world.until(lambda: world.published() == 1)
    assert len(world.loops) == 2, "the fenced watcher tried again"


async def test_an_old_watcher_that_slept_through_a_time_out_does_not_come_back(world):
    watcher = world.watcher()
    old = asyncio.create_task(watcher.run())
    await world.until(lambda: len(world.loops) == 1)
    world.loops[0].give(watermark(5))
    await world.until(lambda: world.published() == 1)
    async with world.running() as young:
        world.clock.advance(timedelta(seconds=1))
        young.give(watermark(6))
        await world.until(lambda: world.published() == 2)
        world.clock.advance(timedelta(minutes=1))
        world.log.reachable = False
        world.loops[0].give(watermark(6, branch="b"))
        await world.until(lambda: watcher.status() is None)
        world.log.reachable = True
        await world.until(old.done)
        with pytest.raises(AnotherWatcher, match=CHAIN):
            await old
        young.give(watermark(7))
        await world.until(lambda: world.published() == 3)


@pytest.mark.parametrize("lands", [False, True])
async def test_after_an_unknown_outcome_the_log_says_where_to_go_on(world, lands):
    async with world.running() as loop:
        loop.give(watermark(5))
        await world.until(lambda: world.published() == 1)
        world.log.fail_next_append(OutcomeUnknown("connection broke"), lands=lands)
        loop.give(watermark(6))
        await world.until(lambda: len(world.loops) == 2)
        again = world.loops[1]
        assert again.checkpoint.last.height == (6 if lands else 5)
        again.give(watermark(7))
        await world.until(lambda: world.published() == (3 if lands else 2))
    assert [f.height for f in await world.facts()] == ([5, 6, 7] if lands else [5, 7])


async def test_a_log_that_takes_nothing_is_asked_again_with_the_same_step(world):
    async with world.running() as loop:
        for _ in range(3):
            world.log.fail_next_append(StreamUnavailable("no broker"))
        loop.give(watermark(5))
        loop.give(watermark(6))
        await world.until(lambda: world.published() == 2)
        assert len(world.loops) == 1
    assert [f.height for f in await world.facts()] == [5, 6]
    assert world.meters.value(metrics.WATCH_LOG_FAILURES, chain=CHAIN) == 3


async def test_a_log_that_stays_away_ends_the_life_and_the_next_one_reads_the_block_again(world):
    async with world.running() as loop:
        loop.give(watermark(5))
        await world.until(lambda: world.published() == 1)
        for _ in range(5):
            world.log.fail_next_append(StreamUnavailable("no broker"))
        loop.give(watermark(6))
        await world.until(lambda: len(world.loops) == 2)
        assert world.loops[1].checkpoint.last.height == 5


async def test_a_start_waits_for_a_log_that_is_away(world):
    world.log.reachable = False
    task = asyncio.create_task(world.watcher().run())
    await world.until(lambda: world.meters.value(metrics.WATCH_LOG_FAILURES, chain=CHAIN) >= 3)
    world.log.reachable = True
    await world.until(lambda: world.loops)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_addresses_are_known_before_the_first_block_is_read(world):
    for number in range(5):
        await world.watch_address(number)
    await world.send(watchlist_topic("eip155"), address_number(9), None)
    async with world.running() as loop:
        loop.give(watermark(5))
        await world.until(lambda: world.published() == 1)
        assert loop.entries_at_first_step == 5
        assert loop.upto == 6
        assert [entry.offset for entry in loop.entries] == [0, 1, 2, 3, 4]
        assert loop.entries[0].raw == bytes.fromhex(address_number(0)[2:])
        assert loop.entries[0].since == NOON


async def test_an_address_that_comes_later_is_told_to_the_running_loop(world):
    async with world.running() as loop:
        await world.watch_address(1)
        await world.until(lambda: loop.entries)
        assert (loop.entries[0].display, loop.upto) == (address_number(1), 1)


async def test_a_line_that_cannot_be_read_costs_no_other_address_its_watch(world):
    await world.watch_address(1)
    await world.send(
        watchlist_topic("eip155"), "0xBAD", WatchAddress(family="eip155", address="x", since=NOON)
    )
    await world.send(watchlist_topic("eip155"), address_number(3), watermark(1))
    await world.watch_address(2)
    async with world.running() as loop:
        assert [entry.display for entry in loop.entries] == [address_number(1), address_number(2)]
        assert loop.upto == 4
    topic = watchlist_topic("eip155")
    assert world.meters.value(metrics.WATCH_UNREADABLE, chain=CHAIN, topic=topic) == 2


def look_up(name, chain=CHAIN):
    return LookUpTransaction(request=name, chain=chain, tx="0x1")


async def ask(world, *requests):
    for request in requests:
        await world.send(requests_topic(CHAIN), request.request, request)


async def test_requests_reach_the_loop_and_those_of_another_chain_do_not(world):
    async with world.running() as loop:
        wanted = [
            look_up("one"),
            ReadAgain(request="two", chain=CHAIN, from_height=1, to_height=2, reason="gap"),
            ReleaseReorganisation(request="three", chain=CHAIN, actor="Ana", reason="seen"),
        ]
        await ask(world, look_up("zero", chain="eip155:1"), *wanted)
        await world.until(lambda: len(loop.requests) == 3)
        assert sorted(loop.requests, key=lambda r: r.request) == sorted(
            wanted, key=lambda r: r.request
        )


async def test_a_restart_asks_again_what_was_not_answered(world):
    await ask(world, look_up("long ago"))
    world.clock.advance(2 * HOUR)
    await ask(world, look_up("answered"), look_up("open"))
    async with world.running() as loop:
        assert len(loop.requests) in {0, 3}, "with no watermark nothing is too old"
        mark = watermark(5)
        loop.give(
            TransactionLookedUp(
                request="answered", chain=CHAIN, tx="0x1", state=LookedUpState.INCLUDED
            )
        )
        # Read two hours after the first request was asked: that one was answered or is given up.
        loop.give(type(mark)(**{**as_dict(mark), "read_at": NOON + 2 * HOUR}))
        await world.until(lambda: world.published() == 2)
    async with world.running() as loop:
        await world.until(lambda: loop.requests)
        assert [request.request for request in loop.requests] == ["open"]


async def answer(world, loop, name, *, mark):
    """The loop answers a look-up; then it covers a block, read two hours after noon."""
    before = world.published()
    state = LookedUpState.FAILED
    loop.give(TransactionLookedUp(request=name, chain=CHAIN, tx="0x1", state=state))
    loop.give(type(mark)(**{**as_dict(mark), "read_at": NOON + 2 * HOUR}))
    await world.until(lambda: world.published() == before + 2)


async def test_a_restart_goes_on_with_a_queue_that_is_longer_than_the_span_of_asking_again(world):
    await ask(world, *(look_up(f"{number}") for number in range(5)))
    async with world.running() as loop:
        await world.until(lambda: len(loop.requests) == 5)
        await answer(world, loop, "2", mark=watermark(5))
    async with world.running() as loop:
        await world.until(lambda: len(loop.requests) == 2)
        assert [request.request for request in loop.requests] == ["3", "4"]


async def test_what_the_loop_has_no_room_for_waits_in_the_log(world, monkeypatch):
    monkeypatch.setattr("reconciler.watch.look_ups.OPEN_MAX", 3)
    release = ReleaseReorganisation(request="now", chain=CHAIN, actor="Ana", reason="seen")
    async with world.running() as loop:
        await ask(world, *(look_up(f"{number}") for number in range(7)), release)
        await world.until(lambda: len(loop.look_ups) == 3 and release in loop.requests)
        for _ in range(20):
            world.clock.advance(timedelta(seconds=1))
            await asyncio.sleep(0)
        assert loop.look_ups == ["0", "1", "2"]
        loop.look_ups_answered = 1
        await world.until(lambda: len(loop.look_ups) == 4)
        loop.look_ups_answered = 4
        await world.until(lambda: len(loop.look_ups) == 7)
        assert loop.look_ups == list("0123456")


def as_dict(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


async def test_a_release_given_to_an_earlier_run_does_not_count_for_this_one(world):
    await ask(
        world,
        ReleaseReorganisation(request="old", chain=CHAIN, actor="Ana", reason="seen"),
        look_up("open"),
    )
    world.clock.advance(timedelta(seconds=1))
    async with world.running() as loop:
        await world.until(lambda: loop.requests)
        assert [request.request for request in loop.requests] == ["open"]


async def test_an_unreadable_request_is_passed_over_with_an_alarm(world):
    await world.send(requests_topic(CHAIN), "x", watermark(1))
    await ask(world, look_up("one"))
    async with world.running() as loop:
        await world.until(lambda: loop.requests)
        assert loop.requests == [look_up("one")]
    topic = requests_topic(CHAIN)
    assert world.meters.value(metrics.WATCH_UNREADABLE, chain=CHAIN, topic=topic) == 1


async def test_reading_again_is_asked_of_the_running_watcher(world):
    async with world.running() as loop:
        request = await ask_again(
            world.stream, CHAIN, from_height=3, to_height=9, reason="gap", clock=world.clock
        )
        await world.until(lambda: loop.requests)
        assert loop.requests == [request]
        assert (request.from_height, request.to_height) == (3, 9)
        loop.give(watermark(10))
        await world.until(lambda: world.published() == 1)


async def test_another_number_of_lanes_than_the_topic_has_is_refused(world):
    world.specs = [resized(spec, 3) if spec.name == TOPIC else spec for spec in world.specs]
    with pytest.raises(TopicsDiffer, match=TOPIC):
        await world.watcher().run()


async def test_a_missing_topic_is_named(world):
    world.log.topics.pop(TOPIC)
    with pytest.raises(TopicsDiffer, match=f"{TOPIC} is missing"):
        await world.watcher().run()


@pytest.mark.parametrize("error", [WrongChain("asked eip155:1, found eip155:5"), NoCheckpoint("x")])
async def test_what_is_fatal_comes_out_as_itself(world, error):
    watcher = world.watcher()
    running = asyncio.create_task(watcher.run())
    await world.until(lambda: world.loops)
    world.loops[0].fail(error)
    await world.until(running.done)
    assert running.exception() is error
    assert watcher.status() is None


async def test_meters_and_verdicts_tell_where_the_loop_stands(world):
    watcher = world.watcher()
    assert not watcher.verdict().ok
    await world.watch_address(1)
    async with world.running(watcher) as loop:
        loop.give(seen(1, address_number(1), 5), watermark(5, finalized=3))
        loop.give(retracted(5), watermark(5, branch="b"))
        await world.until(lambda: world.published() == 4)
        covered = metrics.CHAIN_COVERED_HEIGHT
        await world.until(lambda: world.meters.value(covered, chain=CHAIN) == 5)
        assert watcher.verdict().ok
        assert "5 of 7" in watcher.verdict().why
        assert watcher.head_age().ok
        loop.held = "a reorganisation of 200 blocks"
        assert not watcher.verdict().ok
        await world.until(lambda: world.meters.value(metrics.WATCH_HELD, chain=CHAIN) == 1)
    value = world.meters.value
    assert value(metrics.CHAIN_HEAD_HEIGHT, chain=CHAIN) == 7
    assert value(metrics.WATCH_ADDRESSES, chain=CHAIN) == 1
    assert value(metrics.WATCH_RETRACTED, chain=CHAIN) == 1
    assert value(metrics.WATCH_FACTS, chain=CHAIN, kind="Watermark") == 2
    body = world.meters.exposition()[0].decode()
    assert f'reconciler_watch_reorganisation_depth_blocks_sum{{chain="{CHAIN}"}} 1.0' in body


async def test_a_cancelled_watcher_ends_although_its_writer_cannot_be_closed(monkeypatch):
    async def nobody_answers(_):
        raise StreamUnavailable("nobody answers to a goodbye")

    world = World()
    task = asyncio.create_task(world.watcher().run())
    await world.until(lambda: world.loops)
    monkeypatch.setattr(MemoryWriter, "close", nobody_answers)
    task.cancel()
    await world.until(task.done)
    assert task.cancelled()
    assert len(world.loops) == 1
