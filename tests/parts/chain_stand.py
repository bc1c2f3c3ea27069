"""Where a source stands before a chain: the parts of the conformance suite that its files share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from chains.catalog import Catalogue
from chains.devnet import Devnet
from chains.http_node import NodeLimits
from chains.port import BlockRead, ChainSource, Header
from chains.registry import open_source
from schemas.caip import ChainName
from schemas.facts import TransactionLookedUp, TransferSeen
from tests.parts.anvil.node import AnvilNode
from tests.parts.btcd.node import Btcd
from tests.parts.chain_scripts import FINALITY_LAG, AnvilScript, ChainScript, DevnetScript
from tests.parts.esplora import esplora_of
from tests.parts.litecoind.node import Litecoind
from tests.parts.utxo_devnet import DevnetUtxoScript
from tests.parts.utxo_script import UtxoScript

NOON = datetime(2100, 1, 1, tzinfo=UTC)


class StoppedClock:
    """Always noon, so that two readings of one block differ in nothing; waits pass when told to."""

    def __init__(self) -> None:
        self.passed_s, self.moment = 0.0, NOON

    def now(self) -> datetime:
        return self.moment

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
        return await self.source.read_block(await self.header(height), self.watching(*ours))

    async def look_up(self, tx: str, *ours: str) -> TransactionLookedUp:
        return await self.source.look_up(tx, self.watching(*ours))

    def watching(self, *addresses: str) -> frozenset[bytes]:
        return frozenset(self.script.raw_of(address) for address in addresses)


def source_of(
    script: ChainScript,
    *,
    chain: ChainName | None = None,
    catalogue: Catalogue | None = None,
    urls: Sequence[str] | None = None,
    clock: StoppedClock | None = None,
    limits: NodeLimits | None = None,
) -> ChainSource:
    chain = script.chain if chain is None else chain
    return open_source(
        chain,
        [script.url] if urls is None else urls,
        catalogue=catalogue or script.catalogue_of(chain),
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


@contextlib.asynccontextmanager
async def on_litecoind() -> AsyncIterator[UtxoScript]:
    with Litecoind() as node:
        yield UtxoScript(node)


@contextlib.asynccontextmanager
async def on_btcd() -> AsyncIterator[UtxoScript]:
    with Btcd() as node:
        yield UtxoScript(node)


@contextlib.asynccontextmanager
async def on_esplora() -> AsyncIterator[UtxoScript]:
    """A server that speaks Esplora, in front of a litecoind: the only way in."""
    with Litecoind("-txindex") as node:
        async with esplora_of(node) as esplora:
            script = UtxoScript(node)
            script.url = esplora.url
            yield script


@contextlib.asynccontextmanager
async def on_scripted_utxo(network: str, **switches: Any) -> AsyncIterator[DevnetUtxoScript]:
    async with Devnet() as devnet:
        script = DevnetUtxoScript(devnet, network)
        script.node.set(**switches)
        yield script


On = Callable[[], AbstractAsyncContextManager[Any]]

#: Every way of reading has its row: all receipts at once or single ones, either dialect of traces.
EVM_STANDS: dict[str, On] = {
    "devnet": on_devnet,
    "devnet-without-block-receipts": lambda: on_devnet(block_receipts=False),
    "devnet-with-flat-traces": lambda: on_devnet(call_tracer=False),
    "devnet-in-other-letter-case": lambda: on_devnet(
        upper_case_topics=True, checksummed_addresses=True
    ),
    "anvil": on_anvil,
}
UTXO_STANDS: dict[str, On] = {"litecoind": on_litecoind, "btcd": on_btcd}
#: The scripted chain beside real nodes, in the manners of each.
SCRIPTED_UTXO_STANDS: dict[str, On] = {
    "scripted-bitcoin": lambda: on_scripted_utxo("bitcoin-regtest"),
    "scripted-bitcoin-28": lambda: on_scripted_utxo(
        "bitcoin-regtest", speaks="bitcoind_28", tx_index=True
    ),
    "scripted-btcd": lambda: on_scripted_utxo(
        "bitcoin-regtest", speaks="btcd", takes_batches=False
    ),
    "scripted-litecoin": lambda: on_scripted_utxo("litecoin-regtest"),
    "scripted-dogecoin": lambda: on_scripted_utxo("dogecoin-regtest"),
}
STANDS = EVM_STANDS | UTXO_STANDS | {"esplora": on_esplora} | SCRIPTED_UTXO_STANDS
_REAL = {"anvil": "anvil", "litecoind": "litecoind", "btcd": "btcd", "esplora": "litecoind"}


def rows(stands: dict[str, On]) -> list[Any]:
    """Give the rows of a fixture, each with the mark of the real part that it needs."""
    return [
        pytest.param(
            on, id=name, marks=[getattr(pytest.mark, _REAL[name])] if name in _REAL else []
        )
        for name, on in stands.items()
    ]


@contextlib.asynccontextmanager
async def standing_on(on: On) -> AsyncIterator[Stand]:
    """A started source before a chain of its own that has mined a block."""
    async with on() as script:
        script.mine()
        async with standing(script) as stand:
            yield stand


def watching(*addresses: str) -> frozenset[bytes]:
    return frozenset(bytes.fromhex(address[2:]) for address in addresses)


def told(transfer: TransferSeen) -> tuple[str, str, int]:
    """Give what a test compares: position, receiver, amount."""
    return transfer.transfer.rpartition("/")[2], transfer.to, int(transfer.amount)
