"""The composition root: from settings to the parts that a process is made of.

The only place that knows which implementation stands behind a promise. Opens and closes; decides
nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from chains.catalog import CatalogueError
from chains.observe import Observer
from chains.port import ChainSource
from chains.registry import open_source
from chains.rpc import NodeLimits
from reconciler.config import Settings
from reconciler.kernel.clock import Clock
from reconciler.kernel.refusals import Refusal
from reconciler.storage.engine import make_engine
from reconciler.stream.promise import Stream
from reconciler.stream.sql import SqlStream
from schemas.caip import ChainName


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """Open the database. Nothing is asked of it yet."""
    engine = make_engine(settings.file.database.url.reveal())
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def open_stream(settings: Settings, engine: AsyncEngine) -> AsyncIterator[Stream]:
    """Open the log that the settings name, started. **Raises**: `StreamUnavailable`."""
    stream = _stream(settings, engine)
    try:
        await stream.start()
        yield stream
    finally:
        await stream.close()


def source_of(
    settings: Settings,
    chain: ChainName,
    *,
    clock: Clock,
    observer: Observer,
    urls: Sequence[str] | None = None,
) -> ChainSource:
    """Make the source of a chain, over all its nodes or some of them. Not started.

    **Raises**: `Refusal` for a chain that no code reads, or a catalogue that would count twice.
    """
    table = settings.file.chains[chain]
    all_urls = [url.reveal() for url in (*table.rpc, *table.ws)]
    limits = NodeLimits(
        timeout_s=table.request_timeout.total_seconds(),
        connect_timeout_s=table.connect_timeout.total_seconds(),
        answer_bytes_max=table.answer_bytes_max,
        requests_max=table.requests_at_once,
        batch_max=table.batch_max,
    )
    try:
        return open_source(
            chain,
            all_urls if urls is None else urls,
            catalogue=settings.catalogue,
            clock=clock,
            observer=observer,
            limits=limits,
            poll_interval_s=table.poll_interval.total_seconds() if table.poll_interval else None,
        )
    except CatalogueError as error:
        raise Refusal(f'chains."{chain}": {error}') from None


def _stream(settings: Settings, engine: AsyncEngine) -> Stream:
    table = settings.file.stream
    if table.kind == "kafka":
        message = "stream.kind: kafka is not built into this version"
        raise Refusal(message)
    return SqlStream(
        engine,
        clean_interval_s=table.clean_every.total_seconds(),
        lease_s=table.session.total_seconds(),
    )
