"""`reconciler run`: everything in one process, for a shop that has not outgrown one machine."""

from __future__ import annotations

from reconciler.commands.common import DEFAULT_CONFIG, DONE, ConfigFile, HealthPort
from reconciler.commands.process import begin, serve
from reconciler.commands.watch import watch_jobs
from reconciler.config import load_settings
from reconciler.kernel.clock import SystemClock
from reconciler.wiring import apply_and_send_jobs_of, open_parts, second_look_jobs_of


async def run_all(*, config: ConfigFile = DEFAULT_CONFIG, port: HealthPort = None) -> int:
    """Watch every configured chain, apply facts and commands, send events, until stopped.

    The same as one watch a chain, one intake and all relays in processes of their own, and one audit a
    chain where audit.patience says that orders wait for it. A second one
    takes the chains and the outbox over, and the first one ends with 3.
    """
    settings = load_settings(config)
    begin(settings)
    async with open_parts(settings, clock=SystemClock()) as parts:
        jobs = watch_jobs(parts, settings.chains()) | apply_and_send_jobs_of(parts)
        if settings.file.audit.patience:  # somebody has to look, or orders would wait in vain
            jobs |= second_look_jobs_of(parts, settings.chains())
        await serve(parts, jobs, port=port)
    return DONE
