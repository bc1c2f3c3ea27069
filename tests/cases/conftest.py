"""What the cases share: a way from scripted nodes to events, on either database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.parts.utxo_way import CoinWay, coin_way
from tests.parts.whole_way import Way, whole_way
from tests.parts.world import World


@pytest.fixture
async def way(quick_world: World) -> AsyncIterator[Way]:
    """One chain before one database in memory."""
    async with whole_way(quick_world) as made:
        yield made


#: All receipts of a block at once; logs, and the receipts of hits; a node that traces no calls.
READINGS = {
    "receipts": {},
    "logs": {"block_receipts": False},
    "untraced": {"call_tracer": False, "flat_traces": False},
}


@pytest.fixture(params=READINGS)
async def each_reading(request: pytest.FixtureRequest, quick_world: World) -> AsyncIterator[Way]:
    """One chain, read in every manner there is."""
    async with whole_way(quick_world, start=False) as made:
        made.ethereum.node.set(**READINGS[request.param])
        await made.ethereum.open()
        yield made


@pytest.fixture
async def both_ways(world: World) -> AsyncIterator[Way]:
    """One chain, told on both databases."""
    async with whole_way(world) as made:
        yield made


@pytest.fixture
async def coins(quick_world: World) -> AsyncIterator[CoinWay]:
    """A Bitcoin-like chain before one database in memory."""
    async with coin_way(quick_world) as made:
        yield made


@pytest.fixture
async def both_coins(world: World) -> AsyncIterator[CoinWay]:
    """A Bitcoin-like chain, told on both databases."""
    async with coin_way(world) as made:
        yield made
