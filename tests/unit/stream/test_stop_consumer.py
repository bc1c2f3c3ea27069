"""Kafka's client is stopped whole, whatever it lets out while it stops."""

from __future__ import annotations

import asyncio

import pytest

from reconciler.stream.kafka_client import stop_consumer


class Client:
    def __init__(self) -> None:
        self.closed = False

    async def close(self) -> None:
        self.closed = True


class Fetcher:
    """Has two requests under way, one of which waits for another try."""

    def __init__(self) -> None:
        self._fetch_task = asyncio.create_task(asyncio.sleep(60))
        self._pending_tasks = {asyncio.create_task(asyncio.sleep(60)) for _ in range(2)}

    async def close(self) -> None:
        self._fetch_task.cancel()
        for task in self._pending_tasks:
            task.cancel()
            await task


class Consumer:
    """Stops as aiokafka does."""

    def __init__(self, fetcher: Fetcher | None = None, error: Exception | None = None) -> None:
        self._client, self._fetcher, self._error = Client(), fetcher, error
        self._coordinator, self._closed = None, False

    async def stop(self) -> None:
        self._closed = True
        if self._error is not None:
            raise self._error
        if self._fetcher is not None:
            await self._fetcher.close()
        await self._client.close()


async def test_cancellation_of_its_own_requests_is_not_ours():
    fetcher = Fetcher()
    consumer = Consumer(fetcher)
    async with asyncio.TaskGroup() as tasks:
        stopping = tasks.create_task(stop_consumer(consumer))
    assert not stopping.cancelled()
    assert consumer._client.closed
    assert all(task.done() for task in (fetcher._fetch_task, *fetcher._pending_tasks))


async def test_cancellation_of_who_stops_it_stays_ours():
    consumer = Consumer()
    consumer.stop = lambda: asyncio.sleep(60)
    stopping = asyncio.create_task(stop_consumer(consumer))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping


async def test_error_of_a_stop_comes_out():
    consumer = Consumer(error=OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await stop_consumer(consumer)
    assert consumer._client.closed, "and leaves nothing open"


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_who_is_cancelled_while_stopping_a_client_leaves_nothing_open(turns):
    fetcher = Fetcher()
    consumer = Consumer(fetcher)
    fetcher.close = lambda: asyncio.sleep(60)
    stopping = asyncio.create_task(stop_consumer(consumer))
    for _ in range(turns + 1):
        await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert consumer._closed
    assert consumer._client.closed
    assert all(task.done() for task in (fetcher._fetch_task, *fetcher._pending_tasks))
