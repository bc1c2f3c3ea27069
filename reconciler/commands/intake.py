"""`reconciler intake`: applies facts and commands. Several share the lanes between them."""

from __future__ import annotations

from reconciler.commands.common import DEFAULT_CONFIG, DONE, ConfigFile, HealthPort
from reconciler.commands.process import begin, serve
from reconciler.config import load_settings
from reconciler.kernel.clock import SystemClock
from reconciler.wiring import intake_of, open_parts


async def intake(*, config: ConfigFile = DEFAULT_CONFIG, port: HealthPort = None) -> int:
    """Apply facts and commands to orders, until stopped.

    Start as many as you like: they share the lanes, and a lane has one at a time. SIGTERM stops it
    cleanly; a crash loses nothing and applies nothing twice.
    """
    settings = load_settings(config)
    begin(settings)
    async with open_parts(settings, clock=SystemClock()) as parts:
        await serve(parts, {"intake": intake_of(parts).run}, port=port)
    return DONE
