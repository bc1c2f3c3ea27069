"""A process that is stopped in the middle of a unit of work does not keep its locks."""

from __future__ import annotations

import asyncio

import pytest

from reconciler.storage import unit_of_work
from reconciler.storage.engine import make_engine
from reconciler.storage.unit_of_work import Store, Work


@pytest.mark.postgres
async def test_locks_of_a_stopped_process_are_free_after_a_while(postgres_url: str, monkeypatch):
    monkeypatch.setattr(unit_of_work, "IDLE_S_MAX", 1)
    stopped, other = Store(make_engine(postgres_url)), Store(make_engine(postgres_url))
    held, awake = asyncio.Event(), asyncio.Event()
    runs: list[str] = []

    async def stops(work: Work) -> None:
        await work.lock_names(["the lock"])
        held.set()
        await awake.wait()
        await work.lock_names(["another"])
        runs.append("stopped")

    async def goes_on(work: Work) -> None:
        await work.lock_names(["the lock"])
        runs.append("other")

    sleeper = asyncio.create_task(stopped.run(stops))
    await held.wait()
    await other.run(goes_on)
    assert runs == ["other"]
    awake.set()
    # It wakes up, finds its connection gone, and does the whole use case again.
    await sleeper
    assert runs == ["other", "stopped"]
    await stopped.close()
    await other.close()
