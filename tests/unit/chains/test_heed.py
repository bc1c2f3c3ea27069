import asyncio

import pytest

from chains.heed import heed_cancellation


async def ended(task):
    """Tell whether a task ends soon."""
    await asyncio.wait([task], timeout=1)
    return task.cancelled()


async def failing_clean_up(beginnings):
    """Begin anew after every error, as every loop of ours does."""
    while True:
        heed_cancellation()
        beginnings.append(1)
        try:
            try:
                await asyncio.sleep(3_600)
            finally:
                raise ConnectionError("nobody answers to a goodbye")
        except ConnectionError:
            await asyncio.sleep(0)


async def failing_beside(beginnings):
    """Ask in a group of which one fails while it is cancelled."""

    async def fails_when_cancelled():
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            raise ConnectionError("cut off") from None

    while True:
        heed_cancellation()
        beginnings.append(1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails_when_cancelled())
                await asyncio.sleep(3_600)
        except* ConnectionError:
            await asyncio.sleep(0)


@pytest.mark.parametrize("loop", [failing_clean_up, failing_beside])
async def test_a_cancellation_that_was_lost_on_its_way_is_heeded_at_the_next_turn(loop):
    beginnings = []
    task = asyncio.create_task(loop(beginnings))
    await asyncio.sleep(0.01)
    task.cancel()
    assert await ended(task)
    assert beginnings == [1]


async def test_who_is_not_cancelled_goes_on():
    for _ in range(3):
        heed_cancellation()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1)
    heed_cancellation()  # a time-out that was caught is nobody's wish to end us
