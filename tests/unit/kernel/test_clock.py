import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from reconciler.kernel import InvariantBroken, ManualClock, SystemClock, check

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_the_system_clock_is_aware_and_never_falls():
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta()
    assert clock.monotonic_s() <= clock.monotonic_s()


def test_a_manual_clock_stands_until_it_is_moved():
    clock = ManualClock(NOON)
    assert clock.now() == NOON
    clock.advance(timedelta(minutes=5))
    assert clock.now() == NOON + timedelta(minutes=5)
    assert clock.monotonic_s() == 300


def test_a_manual_clock_speaks_utc_whatever_zone_it_was_started_in():
    clock = ManualClock(NOON.astimezone(timezone(timedelta(hours=5))))
    assert clock.now() == NOON
    assert clock.now().tzinfo is UTC


async def test_sleepers_wake_in_the_order_of_their_deadlines():
    clock = ManualClock(NOON)
    woken = []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as tasks:
        for seconds in (30, 10, 20):
            tasks.create_task(sleeper(seconds))
        while clock.sleepers < 3:
            await asyncio.sleep(0)
        assert clock.next_deadline() == NOON + timedelta(seconds=10)
        clock.advance(timedelta(seconds=15))
        while clock.sleepers > 2 or woken != [10]:
            await asyncio.sleep(0)
        clock.advance(timedelta(seconds=15))
    assert woken == [10, 20, 30]
    assert clock.next_deadline() is None


async def test_a_cancelled_sleeper_is_no_longer_waited_for():
    clock = ManualClock(NOON)
    task = asyncio.create_task(clock.sleep(10))
    while not clock.sleepers:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleepers == 0
    assert clock.next_deadline() is None
    clock.advance(timedelta(seconds=20))


def test_a_manual_clock_does_not_go_back_and_refuses_naive_starts():
    clock = ManualClock(NOON)
    clock.advance_to(NOON - timedelta(seconds=1))
    assert clock.now() == NOON
    with pytest.raises(InvariantBroken):
        clock.advance(timedelta(seconds=-1))
    with pytest.raises(InvariantBroken):
        ManualClock(NOON.replace(tzinfo=None))


def test_a_broken_invariant_says_what_it_saw():
    check(condition=True, sentence="never shown")
    with pytest.raises(InvariantBroken, match="two credits for one transfer"):
        check([], "two credits for one transfer")
