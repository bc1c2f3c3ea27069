import asyncio
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from reconciler.kernel import ManualClock
from reconciler.observability import health, metrics
from reconciler.observability.health import HeadAge, Health, HealthServer, Movement, Verdict
from reconciler.observability.metrics import Meters

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
async def served():
    checks, meters = Health(), Meters()
    server = HealthServer(checks, meters, host="127.0.0.1", port=0)
    await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        yield session, checks, meters
    await server.close()
    await server.close()


async def ask(session, path):
    async with session.get(path) as answer:
        return answer.status, await answer.json()


async def test_a_process_without_checks_is_healthy_and_ready(served):
    session, _, _ = served
    assert await ask(session, "/healthz") == (200, {"healthy": True})
    assert await ask(session, "/readyz") == (200, {"ready": True, "checks": {}})


async def test_one_red_check_makes_the_process_unready_and_says_why(served):
    session, checks, _ = served
    checks.register("database", lambda: Verdict(ok=True, why="answers"))
    checks.register("head", lambda: Verdict(ok=False, why="head is 7m old, of 5m"))
    status, body = await ask(session, "/readyz")
    assert status == 503
    assert body["ready"] is False
    assert body["checks"]["head"] == {"ok": False, "why": "head is 7m old, of 5m"}
    assert body["checks"]["database"]["ok"] is True
    assert (await ask(session, "/healthz"))[0] == 200
    checks.forget("head")
    assert (await ask(session, "/readyz"))[0] == 200


async def test_a_check_that_fails_or_hangs_is_red(served, monkeypatch):
    monkeypatch.setattr(health, "CHECK_TIMEOUT_S", 0.01)
    session, checks, _ = served

    async def hangs():
        await asyncio.Event().wait()

    def fails():
        raise OSError("connection refused")

    checks.register("hangs", hangs)
    checks.register("fails", fails)
    status, body = await ask(session, "/readyz")
    assert status == 503
    assert "no answer" in body["checks"]["hangs"]["why"]
    assert body["checks"]["fails"]["why"] == "OSError: connection refused"


async def test_metrics_are_exposed_as_prometheus_reads_them(served):
    session, _, meters = served
    meters.set(metrics.CHAIN_HEAD_HEIGHT, 7, chain="eip155:1")
    async with session.get("/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert 'reconciler_chain_head_height{chain="eip155:1"} 7.0' in await answer.text()


def test_a_head_is_red_when_it_is_older_than_it_may_be():
    clock = ManualClock(NOON)
    head = HeadAge(clock, age_max=timedelta(minutes=5))
    assert head() == Verdict(ok=False, why="no block was covered yet")
    head.covered(NOON)
    clock.advance(timedelta(minutes=5))
    assert head() == Verdict(ok=True, why="head is 5m old, of 5m")
    clock.advance(timedelta(seconds=1))
    assert head() == Verdict(ok=False, why="head is 301s old, of 5m")


def test_a_head_from_a_clock_that_runs_ahead_is_young():
    head = HeadAge(ManualClock(NOON), age_max=timedelta(minutes=5))
    head.covered(NOON + timedelta(seconds=12))
    assert head().ok


def test_a_lane_is_red_only_when_it_lags_and_stands():
    clock = ManualClock(NOON)
    lane = Movement(clock, stuck_after=timedelta(seconds=60))
    steps = [
        # seconds later, position, lag, still fine?
        (0, 10, 5, True),
        (61, 10, 5, False),
        (1, 11, 4, True),
        (61, 15, 0, True),
        (600, 15, 0, True),
        (1, 15, 3, True),
        (59, 15, 3, True),
        (61, 15, 3, False),
    ]
    for later, position, lag, fine in steps:
        clock.advance(timedelta(seconds=later))
        lane.at(position, lag=lag)
        assert lane().ok is fine, (later, position, lag)
