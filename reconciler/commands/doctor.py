"""`reconciler doctor`: is everything there that the service needs? Looks and asks; changes nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from rich.console import Console

from chains.errors import ChainError
from chains.extended_keys import Derivation
from chains.observe import nobody
from chains.port import Head
from chains.registry import derive_address, path_of
from reconciler.commands.common import DEFAULT_CONFIG, DONE, NOT_WELL, ConfigFile, words
from reconciler.config import Settings, load_settings
from reconciler.kernel.clock import Clock, SystemClock
from reconciler.kernel.spans import format_span
from reconciler.model.policy import Route
from reconciler.storage import reads
from reconciler.storage.asking import DatabaseUnreachable, ask_database
from reconciler.storage.engine import DatabaseError
from reconciler.storage.schema_version import SchemaDiffers, check_schema, head_revision
from reconciler.storage.unit_of_work import GaveUpError, Store
from reconciler.stream.promise import StreamError
from reconciler.wiring import open_engine, open_stream, source_of
from schemas.caip import ChainName

#: A part that takes longer to say anything is not well, whatever it would have said.
TIMEOUT_S: Final = 20.0
#: Claims are judged by the log's clock and blocks by the chain's; ours only has to be near.
CLOCK_DIFFERENCE_MAX: Final = timedelta(seconds=5)
#: As many as a person compares.
FIRST_ADDRESSES: Final = 3
#: So many unused addresses a wallet looks ahead. Source: BIP 44, address gap limit.
GAP_LIMIT: Final = 20


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    part: str
    well: bool
    sentence: str


async def doctor(*, config: ConfigFile = DEFAULT_CONFIG) -> int:
    """Check settings, database, log, nodes, chain ids and clock, and say each in one line.

    Of routes that derive addresses it shows the first ones, to compare with the wallet.

    Changes nothing. Exits with 1 when something is not well, with 2 when the settings are refused.
    """
    settings = load_settings(config)
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
    well = True
    async for finding in examine(settings, SystemClock()):
        mark = "[green]well[/]    " if finding.well else "[red]not well[/]"
        console.print(mark, f"{finding.part}:", end=" ")
        console.print(finding.sentence, markup=False)
        well = well and finding.well
    return DONE if well else NOT_WELL


async def examine(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Look at one part after the other."""
    routes = ", ".join(settings.routes())
    yield Finding("settings", well=True, sentence=f"routes {routes}")
    database = await _database(settings, clock)
    yield database
    tables = await _tables(settings)
    yield tables
    if tables.well or settings.file.stream.kind != "sql":
        async for finding in _log(settings):
            yield finding
    for route in settings.routes().values():
        if route.derivation is not None:
            yield _first_addresses(route, route.derivation)
            if tables.well:
                yield await _gap(settings, route, route.derivation)
    for chain in settings.chains():
        async for finding in _nodes(settings, chain, clock):
            yield finding


async def _database(settings: Settings, clock: Clock) -> Finding:
    try:
        async with asyncio.timeout(TIMEOUT_S), open_engine(settings) as engine:
            said = await ask_database(engine)
    except (DatabaseUnreachable, TimeoutError) as error:
        return Finding("database", well=False, sentence=_words(error))
    difference = abs(said.time - clock.now())
    if difference > CLOCK_DIFFERENCE_MAX:
        seconds = f"{difference.total_seconds():.0f} s"
        return Finding("clock", well=False, sentence=f"{seconds} away from that of {said.kind}")
    return Finding("database", well=True, sentence=f"{said.kind} answers, and its clock is ours")


async def _tables(settings: Settings) -> Finding:
    try:
        async with asyncio.timeout(TIMEOUT_S), open_engine(settings) as engine:
            await check_schema(engine)
    except (DatabaseUnreachable, SchemaDiffers, TimeoutError) as error:
        return Finding("tables", well=False, sentence=_words(error))
    return Finding("tables", well=True, sentence=f"revision {head_revision()}")


async def _log(settings: Settings) -> AsyncIterator[Finding]:
    kind = settings.file.stream.kind
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            open_engine(settings) as engine,
            open_stream(settings, engine) as stream,
        ):
            differences = await stream.compare_topics(settings.topic_specs())
    except (StreamError, OSError, TimeoutError) as error:
        yield Finding("log", well=False, sentence=f"{kind}: {_words(error)}")
        return
    for difference in differences:
        yield Finding("log", well=False, sentence=f"{difference}; see reconciler migrate")
    if not differences:
        yield Finding("log", well=True, sentence=f"{kind}: all topics are as the settings say")


def _first_addresses(route: Route, derivation: Derivation) -> Finding:
    """Show what the wallet has to show as well, or it would look for the money elsewhere."""
    shown = (
        f"0/{index} {derive_address(derivation, index).display}" for index in range(FIRST_ADDRESSES)
    )
    sentence = (
        f"compare with the wallet's first addresses: {', '.join(shown)}; wallets have them below "
        f"{path_of(derivation)}"
    )
    return Finding(f"route {route.name}", well=True, sentence=sentence)


async def _gap(settings: Settings, route: Route, derivation: Derivation) -> Finding:
    """Say how far the wallet would have to look, which none does by itself beyond its gap limit."""
    key, part = derivation.key.name, f"route {route.name}"
    try:
        async with asyncio.timeout(TIMEOUT_S), open_engine(settings) as engine:
            store = Store(engine)
            following = await store.read(lambda work: reads.next_index(work, key))
            paid = await store.read(lambda work: reads.highest_paid_index(work, key))
    except (DatabaseError, GaveUpError, OSError, TimeoutError) as error:
        return Finding(part, well=False, sentence=_words(error))
    if not following:
        return Finding(part, well=True, sentence="no address of its key was handed out yet")
    gap = following - 1 - (-1 if paid is None else paid)
    so_far = "none was paid" if paid is None else f"the highest that was paid is 0/{paid}"
    sentence = f"the last address of its key is 0/{following - 1}, {so_far}"
    if gap > GAP_LIMIT:
        sentence = (
            f"note: {sentence}: {gap} unpaid ones in a row, and wallets look {GAP_LIMIT} ahead (BIP 44). "
            "Raise the wallet's gap limit, or it will not show what is paid there next"
        )
    return Finding(part, well=True, sentence=sentence)


async def _nodes(settings: Settings, chain: ChainName, clock: Clock) -> AsyncIterator[Finding]:
    """Ask each node by itself: together, a good one would hide the others."""
    for url in settings.file.chains[chain].rpc:
        part = f"{chain} {urlsplit(url.reveal()).hostname}"
        source = source_of(settings, chain, clock=clock, observer=nobody, urls=[url.reveal()])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await source.start()
                head = await source.head()
        except (ChainError, OSError, TimeoutError) as error:
            yield Finding(part, well=False, sentence=_words(error))
        else:
            yield _head(settings, chain, part, head, clock)
            for blind in source.blind_spots():
                yield Finding(part, well=True, sentence=f"note: {blind}")
        finally:
            await source.close()


def _head(settings: Settings, chain: ChainName, part: str, head: Head, clock: Clock) -> Finding:
    age = clock.now() - head.header.time
    place = f"head {head.header.height}"
    if settings.catalogue.chain(chain).finalized:
        place += f", finalized {head.finalized_height}"
    limit = settings.head_age_max(chain)
    if age > limit:
        old = format_span(timedelta(seconds=int(age.total_seconds())))
        return Finding(
            part, well=False, sentence=f"{place}, {old} old; {format_span(limit)} allowed"
        )
    if (-age).total_seconds() > settings.block_ahead_max(chain):
        ahead = f"{-age.total_seconds():.0f} s"
        return Finding(part, well=False, sentence=f"{place}, {ahead} ahead of our clock")
    return Finding(part, well=True, sentence=place)


def _words(error: Exception) -> str:
    return (
        f"no answer within {TIMEOUT_S:.0f} s" if isinstance(error, TimeoutError) else words(error)
    )
