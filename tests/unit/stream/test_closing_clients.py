"""Every client that was opened is closed, whatever fails on the way."""

from __future__ import annotations

import asyncio

import pytest

from reconciler.stream.kafka_client import Cluster
from reconciler.stream.kafka_group import KafkaGroup
from reconciler.stream.kafka_reader import LaneTails
from reconciler.stream.promise import Lane, StreamUnavailable

CLUSTER = Cluster(bootstrap="127.0.0.1:1")
LANES = [Lane("orders", number) for number in range(3)]


class Part:
    """Something that is closed, and may fail at it or take for ever."""

    def __init__(self, error: Exception | None = None, *, for_ever: bool = False) -> None:
        self.closed, self._error, self._for_ever = False, error, for_ever
        self._coordinator = self._fetcher = None
        self._client = self

    async def stop(self) -> None:
        if self._for_ever:
            await asyncio.Event().wait()
        await self.close()

    async def close(self) -> None:
        self.closed = True
        if self._error is not None:
            raise self._error

    async def close_all(self) -> None:
        await self.close()


def group_of(consumer: Part, tails: Part) -> KafkaGroup:
    made = KafkaGroup(
        CLUSTER,
        name="intake",
        topics=["orders"],
        session_s=1,
        find_specs=None,
        bounds=None,
        tails=tails,
        fetch=None,
    )
    made._consumer = consumer
    return made


async def test_a_group_that_cannot_leave_closes_its_lanes_all_the_same():
    tails = Part()
    with pytest.raises(StreamUnavailable):
        await group_of(Part(OSError("gone")), tails).close()
    assert tails.closed


async def test_a_group_that_is_stopped_while_it_leaves_closes_its_lanes_all_the_same():
    consumer, tails = Part(for_ever=True), Part()
    leaving = asyncio.create_task(group_of(consumer, tails).close())
    for _ in range(3):
        await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert consumer.closed
    assert tails.closed


async def test_one_lane_that_fails_to_close_keeps_no_other_open():
    tails = LaneTails(CLUSTER)
    parts = [Part(), Part(OSError("gone")), Part()]
    tails._tails = dict(zip(LANES, parts, strict=True))
    await tails.close_all()
    assert all(part.closed for part in parts)


async def test_who_reads_after_the_end_opens_no_client_that_nobody_would_close():
    tails = LaneTails(CLUSTER)
    await tails.close_all()
    with pytest.raises(StreamUnavailable, match="was closed"):
        await tails.fetch(LANES[0], 0, 1, 0.0)
    assert tails.lanes() == []
