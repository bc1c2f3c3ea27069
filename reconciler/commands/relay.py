"""`reconciler relay`: sends what the services wrote into the outbox."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from reconciler.commands.common import (
    DEFAULT_CONFIG,
    DONE,
    BadArgument,
    ConfigFile,
    HealthPort,
)
from reconciler.commands.process import begin, serve
from reconciler.config import load_settings
from reconciler.kernel.clock import SystemClock
from reconciler.wiring import open_parts, relay_of


async def relay(
    *,
    shard: Annotated[
        int | None,
        Parameter(help="Send this shard of the outbox only, counted from 0; without it all."),
    ] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    port: HealthPort = None,
) -> int:
    """Send payment events and exceptions, addresses to watch and requests, until stopped.

    One relay has a shard at a time: a second one takes it over and the first one ends with 3.
    """
    settings = load_settings(config)
    shards = range(settings.file.relay.shards)
    if shard is not None and shard not in shards:
        raise BadArgument(f"--shard: expected 0 to {len(shards) - 1}, found {shard}")
    begin(settings)
    async with open_parts(settings, clock=SystemClock()) as parts:
        relays = [relay_of(parts, number) for number in shards if shard in {None, number}]
        for one in relays:
            parts.health.register(one.name, one.verdict)
        await serve(parts, {one.name: one.run for one in relays}, port=port)
    return DONE
