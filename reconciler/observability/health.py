"""What a process answers about itself: `/healthz`, `/readyz`, `/metrics`.

*Healthy* means that the loop turns. *Ready* means that every registered check is content: a head is
young enough, a lane with something to read moves, the database and the log answer.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct

from reconciler.kernel.clock import Clock
from reconciler.kernel.spans import format_span
from reconciler.observability.metrics import Meters

#: A check that takes longer says by that alone that something is wrong.
CHECK_TIMEOUT_S: Final = 2.0


class Verdict(Struct, frozen=True):
    """What a check says. `why` is a sentence for people, also when all is well."""

    ok: bool
    why: str = ""


HealthCheck = Callable[[], Verdict | Awaitable[Verdict]]


class Health:
    """The checks of one process."""

    def __init__(self) -> None:
        self._checks: dict[str, HealthCheck] = {}

    def register(self, name: str, health_check: HealthCheck) -> None:
        """Ask this too. A second one of the same name takes the first one's place."""
        self._checks[name] = health_check

    def forget(self, name: str) -> None:
        """No longer ask it: the lane went to another process."""
        self._checks.pop(name, None)

    async def verdicts(self) -> dict[str, Verdict]:
        """Ask all checks at once."""
        async with asyncio.TaskGroup() as group:
            asked = {
                name: group.create_task(_ask(health_check), name=f"health {name}")
                for name, health_check in self._checks.items()
            }
        return {name: task.result() for name, task in asked.items()}


async def _ask(health_check: HealthCheck) -> Verdict:
    """Ask one check; one that fails or hangs is a red one, not an error of the asker."""
    try:
        found = health_check()
        if inspect.isawaitable(found):
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                return await found
    except TimeoutError:
        return Verdict(ok=False, why=f"no answer within {CHECK_TIMEOUT_S:g} s")
    except Exception as error:  # noqa: BLE001 - the outer loop of a foreign check
        return Verdict(ok=False, why=f"{type(error).__name__}: {error}")
    return found


class HeadAge:
    """Red when the newest covered block is older than it may be, or none was ever covered."""

    def __init__(self, clock: Clock, *, age_max: timedelta) -> None:
        self._clock = clock
        self._age_max = age_max
        self._time: datetime | None = None

    def covered(self, time: datetime | None) -> None:
        """Take note of the newest covered block's time."""
        self._time = time

    def __call__(self) -> Verdict:
        """Judge the age."""
        if self._time is None:
            return Verdict(ok=False, why="no block was covered yet")
        age = max(self._clock.now() - self._time, timedelta())
        age -= age % timedelta(seconds=1)
        limit = format_span(self._age_max)
        return Verdict(ok=age <= self._age_max, why=f"head is {format_span(age)} old, of {limit}")


class Movement:
    """Red when a lane has something to read and has not moved for too long."""

    def __init__(self, clock: Clock, *, stuck_after: timedelta) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._position: int | None = None
        self._lag = 0
        self._moved_at_s = clock.monotonic_s()

    def at(self, position: int, *, lag: int) -> None:
        """Take note of a position and of what lies behind it."""
        if position != self._position or not lag:
            self._moved_at_s = self._clock.monotonic_s()
        self._position, self._lag = position, lag

    def __call__(self) -> Verdict:
        """Judge the movement."""
        still_s = self._clock.monotonic_s() - self._moved_at_s
        stuck = self._lag > 0 and still_s > self._stuck_after.total_seconds()
        return Verdict(ok=not stuck, why=f"lag {self._lag}, last moved {still_s:.0f} s ago")


class HealthServer:
    """The HTTP side. `port` 0 takes any free one; `port` then tells which."""

    def __init__(self, health: Health, meters: Meters, *, host: str, port: int) -> None:
        self._health = health
        self._meters = meters
        self._host = host
        self.port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. **Raises**: OSError when the port is taken."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        await web.TCPSite(runner, self._host, self.port).start()
        self.port = runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening. May be called twice."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return _json({"healthy": True}, status=200)

    async def _readyz(self, _request: web.Request) -> web.Response:
        verdicts = await self._health.verdicts()
        ready = all(verdict.ok for verdict in verdicts.values())
        return _json({"ready": ready, "checks": verdicts}, status=200 if ready else 503)

    async def _metrics(self, _request: web.Request) -> web.Response:
        body, content_type = self._meters.exposition()
        return web.Response(body=body, headers={"Content-Type": content_type})


def _json(body: object, *, status: int) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json"
    )
