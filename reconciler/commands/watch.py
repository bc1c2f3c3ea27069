"""`reconciler watch`: follows one chain, or asks the watcher of one to read blocks again."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from reconciler.commands.common import (
    DEFAULT_CONFIG,
    DONE,
    BadArgument,
    ConfigFile,
    HealthPort,
    configured_chain,
    put,
    say,
)
from reconciler.commands.process import begin, serve
from reconciler.commands.progress import catching_up
from reconciler.config import Settings, load_settings
from reconciler.kernel.clock import SystemClock
from reconciler.observability.stopping import Job
from reconciler.watch.again import ask_again
from reconciler.wiring import Parts, open_database, open_parts, open_stream, watch_job_of
from schemas.caip import ChainName


async def watch(
    chain: Annotated[str, Parameter(help="The chain, as CAIP-2: eip155:1.")],
    /,
    *,
    again: Annotated[
        tuple[int, int] | None,
        Parameter(help="FROM TO: ask the running watcher to read these blocks again, and return."),
    ] = None,
    reason: Annotated[str, Parameter(help="Why they are read again.")] = "asked by a person",
    config: ConfigFile = DEFAULT_CONFIG,
    port: HealthPort = None,
) -> int:
    """Follow one chain and publish what it pays us, until stopped.

    One watcher of a chain lives: a second one takes over and the first one ends with 3. It goes on
    where the log ends; an empty log needs start_at in the settings.
    """
    settings = load_settings(config)
    name = configured_chain(chain, settings.file.chains)
    if again is not None:
        return await _ask_again(settings, name, again, reason)
    begin(settings)
    async with open_parts(settings, clock=SystemClock()) as parts:
        await serve(parts, watch_jobs(parts, [name]), port=port)
    return DONE


def watch_jobs(parts: Parts, chains: list[ChainName]) -> dict[str, Job]:
    """Make the jobs that follow chains, with their checks, and a progress bar for a person."""
    jobs: dict[str, Job] = {}
    statuses = {}
    for chain in chains:
        jobs[f"watch {chain}"], statuses[chain] = watch_job_of(parts, chain)
    jobs["progress"] = lambda: catching_up(statuses, parts.clock)
    return jobs


async def _ask_again(
    settings: Settings, chain: ChainName, heights: tuple[int, int], reason: str
) -> int:
    first, last = heights
    if not 0 <= first <= last:
        raise BadArgument(f"--again: expected FROM at most TO, found {first} {last}")
    async with open_database(settings) as engine, open_stream(settings, engine) as stream:
        request = await ask_again(
            stream, chain, from_height=first, to_height=last, reason=reason, clock=SystemClock()
        )
    put(request.request)
    say(f"asked for {last - first + 1} blocks of {chain}; the running watcher reads them")
    return DONE
