"""Where a source stands before a chain: the parts of the conformance suite that its files share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from chains.devnet import Devnet
from chains.http_node import NodeLimits
from chains.port import BlockRead, ChainSource, Header
from chains.registry import open_source
from schemas.facts import TransferSeen
from tests.parts.anvil.node import AnvilNode
from tests.parts.chain_scripts import FINALITY_LAG, AnvilScript, ChainScript, DevnetScript
from tests.parts.listing import catalogue_of, chain_name

NOON = datetime(2100, 1, 1, tzinfo=UTC)


class StoppedClock:
    """Always noon, so that two readings of one block differ in nothing; waits pass when told to."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now(self) -> datetime:
        return NOON

    def monotonic_s(self) -> float:
        return self.passed_s

    async def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


class Stand(NamedTuple):
    """A chain, and the source that looks at it."""

    script: ChainScript
    source: ChainSource
    clock: StoppedClock

    async def header(self, height: int | None = None) -> Header:
        return await self.source.header_at(self.script.height() if height is None else height)

    async def read(self, *ours: str, height: int | None = None) -> BlockRead:
        return await self.source.read_block(await self.header(height), watching(*ours))


def source_of(
    script: ChainScript,
    *,
    chain_id: int | None = None,
    decimals: int = 6,
    urls: Sequence[str] | None = None,
    clock: StoppedClock | None = None,
    limits: NodeLimits | None = None,
) -> ChainSource:
    chain_id = script.chain_id if chain_id is None else chain_id
    return open_source(
        chain_name(chain_id),
        [script.url] if urls is None else urls,
        catalogue=catalogue_of(chain_id, script.token, decimals=decimals),
        clock=clock or StoppedClock(),
        limits=limits,
    )


@contextlib.asynccontextmanager
async def standing(script: ChainScript, **more: Any) -> AsyncIterator[Stand]:
    """A started source; closing it twice does no harm."""
    clock = StoppedClock()
    source = source_of(script, clock=clock, **more)
    await source.start()
    yield Stand(script, source, clock)
    await source.close()
    await source.close()


@contextlib.asynccontextmanager
async def on_devnet(**switches: Any) -> AsyncIterator[DevnetScript]:
    async with Devnet() as devnet:
        script = DevnetScript(devnet, 31_337)
        devnet.node(31_337).set(**switches)
        yield script


@contextlib.asynccontextmanager
async def on_anvil() -> AsyncIterator[AnvilScript]:
    node = AnvilNode(finality_lag=FINALITY_LAG)
    node.start()
    try:
        yield AnvilScript(node)
    finally:
        node.stop()


def watching(*addresses: str) -> frozenset[bytes]:
    return frozenset(bytes.fromhex(address[2:]) for address in addresses)


def told(transfer: TransferSeen) -> tuple[str, str, int]:
    """Give what a test compares: position, receiver, amount."""
    return transfer.transfer.rpartition("/")[2], transfer.to, int(transfer.amount)
