"""What every long-running command does around its work: logs, health, a clean stop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import metadata

from reconciler.commands.common import say
from reconciler.config import Settings
from reconciler.kernel.garbage import collect_seldom
from reconciler.kernel.refusals import Refusal
from reconciler.observability import metrics
from reconciler.observability.health import HealthServer, Verdict
from reconciler.observability.logs import set_up_logs
from reconciler.observability.stopping import Job, run_until_stopped
from reconciler.storage.asking import DatabaseUnreachable, ask_database
from reconciler.wiring import Parts


def begin(settings: Settings) -> None:
    """Set logs up as the settings say, and the process for long work."""
    set_up_logs(settings.file.log.level)
    collect_seldom()


async def serve(parts: Parts, jobs: Mapping[str, Job], *, port: int | None) -> None:
    """Run the jobs, answer for them over HTTP, and stop cleanly on SIGTERM or Ctrl-C.

    `port` stands in for `server.port`; 0 answers nowhere.
    """
    version = metadata.version("crypto-payment-reconciler")
    parts.meters.set(metrics.BUILD_INFO, 1, version=version)
    parts.health.register("database", lambda: _database(parts))
    table = parts.settings.file.server
    wanted = table.port if port is None else port
    server = HealthServer(parts.health, parts.meters, host=table.host, port=wanted)
    if wanted:
        await _listen(server, f"{table.host}:{wanted}")
        say(f"health and metrics: http://{table.host}:{server.port}/readyz")
    try:
        await run_until_stopped(jobs)
    finally:
        await server.close()


async def _listen(server: HealthServer, place: str) -> None:
    """Begin to answer. Several processes of one machine need a port each."""
    try:
        await server.start()
    except OSError as error:
        await server.close()
        why = os.strerror(error.errno) if error.errno else str(error)
        raise Refusal(
            f"server: nothing can be answered at {place}: {why}; give another port with --port, or "
            "--port 0 to answer nowhere"
        ) from None


async def _database(parts: Parts) -> Verdict:
    try:
        said = await ask_database(parts.store.engine)
    except DatabaseUnreachable as error:
        return Verdict(ok=False, why=str(error))
    return Verdict(ok=True, why=f"{said.kind} answers")
