"""`reconciler audit …`: whether what we remember is still what we wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from chains.errors import Retryable, Unsupported
from reconciler.audit.events import verify_events
from reconciler.audit.journal import Verified, verify_journal
from reconciler.audit.look import SecondLook
from reconciler.audit.published import verify_published
from reconciler.commands.common import (
    DEFAULT_CONFIG,
    DONE,
    NOT_WELL,
    BadArgument,
    ConfigFile,
    HealthPort,
    configured_chain,
    put,
    say,
)
from reconciler.commands.process import begin, serve
from reconciler.commands.progress import progress
from reconciler.config import Settings, load_settings
from reconciler.kernel.clock import SystemClock
from reconciler.kernel.refusals import Refusal
from reconciler.storage.pages import count_rows, snapshot
from reconciler.storage.seals import KEY_BYTES, SealingKey
from reconciler.wiring import open_database, open_parts, second_look_jobs_of, second_look_of
from schemas.caip import ChainName

app = App(name="audit", help="Look a second time at what was decided.")


@app.command
async def verify(
    *,
    public_key: Annotated[
        str | None,
        Parameter(
            help="The key by which seals must be signed, in hexadecimal; without it, that of keys.sealing."
        ),
    ] = None,
    seals: Annotated[
        Path | None, Parameter(help="The published seals; without it, the file of journal.seals.")
    ] = None,
    config: ConfigFile = DEFAULT_CONFIG,
) -> int:
    """Hash every entry of the journal again, follow every chain and seal, compare every event.

    Names each entry that was changed, removed, added or put elsewhere, the first one first, and exits
    with 1 for any. Says how many entries are younger than the last seal: those are chained only, and
    whoever rewrites the database could have taken the last of them away.
    """
    settings = load_settings(config)
    key = _public_key(settings, public_key)
    async with open_database(settings) as engine, snapshot(engine) as work:
        total = await count_rows(work, "journal")
        with progress("entries", 2 * total) as advance:
            found = await verify_journal(work, advance, public_hex=key)
            events = await verify_events(work, advance, found)
        file = seals or settings.seals
        published = None if file is None else await verify_published(work, file, found)
    for fault in found.faults:
        put(fault)
    unsaid = found.faults_total - len(found.faults)
    if unsaid:
        put(f"and {unsaid} more")
    _say_what_was_seen(found, events=events, published=published, key=key)
    return NOT_WELL if found.faults_total else DONE


@app.command
async def look(
    chain: Annotated[
        str | None, Parameter(help="The chain, as CAIP-2; without one, every configured chain.")
    ] = None,
    /,
    *,
    once: Annotated[
        bool, Parameter(help="Look once, say what was found, and exit with 1 for any find.")
    ] = False,
    config: ConfigFile = DEFAULT_CONFIG,
    port: HealthPort = None,
) -> int:
    """Read final blocks a second time and compare balances, beside the watchers, until stopped.

    Asks the nodes of second_rpc, else those of rpc, last first. What it finds it has the running
    watcher read again; a balance that no transfer explains holds the ends of its address's orders.
    One audit of a chain lives: a second one takes over and the first one ends with 3.
    """
    settings = load_settings(config)
    chains = settings.chains() if chain is None else [configured_chain(chain, settings.file.chains)]
    begin(settings)
    async with open_parts(settings, clock=SystemClock()) as parts:
        if not once:
            await serve(parts, second_look_jobs_of(parts, chains), port=port)
            return DONE
        well = True
        for name in chains:
            well = await _look_once(name, second_look_of(parts, name)) and well
    return DONE if well else NOT_WELL


async def _look_once(chain: ChainName, one: SecondLook) -> bool:
    """Do one round with a bar; say what it found. True when nothing was found."""
    try:
        final = await one.final_height()
        with progress(f"{chain} blocks", max(0, final + 1 - one.first_height(final))) as advance:
            found = await one.round(advance)
    except (Retryable, Unsupported) as error:
        raise Refusal(f"{chain}: no node answers the second look: {error}") from None
    finally:
        await one.close()
    for kind in ("missed", "unconfirmed", "unexplained"):
        for name in getattr(found, kind):
            put(f"{chain} {kind} {name}")
    say(
        f"{chain}: {found.blocks} blocks read again, {found.balances_asked} balances asked for; "
        f"{len(found.missed)} transfers missed, {len(found.unconfirmed)} unconfirmed, "
        f"{len(found.unexplained)} balances unexplained"
    )
    return found.is_well


def _public_key(settings: Settings, text: str | None) -> str | None:
    if text is not None:
        try:
            size = len(bytes.fromhex(text))
        except ValueError:
            size = 0
        if size != KEY_BYTES:
            raise BadArgument(f"--public-key: expected {2 * KEY_BYTES} hexadecimal digits")
        return text
    seed = settings.file.keys.sealing
    return None if seed is None else SealingKey(seed.reveal()).public_hex


def _say_what_was_seen(
    found: Verified, *, events: int, published: int | None, key: str | None
) -> None:
    say(f"{found.entries} entries in {found.chains} chains, {events} events")
    signed = f"signed by {key}" if key else "their signatures were not verified, for want of a key"
    outside = "not published" if published is None else f"{published} of them published"
    say(f"{found.seals} seals, {outside}; {signed}")
    if found.unsigned:
        say(f"{found.unsigned} seals are unsigned: who writes the database could have made them")
    if found.unsealed:
        say(
            f"{found.unsealed} entries are younger than the last seal: unsealed, chained only; that "
            "none were taken away behind them, nobody can tell"
        )
    say(f"{found.faults_total} faults")
