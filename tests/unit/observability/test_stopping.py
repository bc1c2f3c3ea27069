import asyncio
import os
import signal

import pytest

from reconciler.observability.stopping import run_until_stopped


class Jobs:
    def __init__(self):
        self.running = 0
        self.stopped = []
        self.all_started = asyncio.Event()

    async def forever(self):
        self.running += 1
        if self.running == 2:
            self.all_started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.append("cleanly")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_all_jobs_cleanly(number):
    jobs = Jobs()

    async def terminate():
        await jobs.all_started.wait()
        os.kill(os.getpid(), number)

    await run_until_stopped({"one": jobs.forever, "other": jobs.forever, "killer": terminate})
    assert jobs.stopped == ["cleanly", "cleanly"]


async def test_the_process_ends_when_all_its_jobs_have_ended():
    done = []

    async def short():
        done.append(1)

    await run_until_stopped({"one": short, "other": short})
    assert len(done) == 2
    await run_until_stopped({})


async def test_the_first_failure_stops_the_others_and_comes_out_as_itself():
    jobs = Jobs()

    async def fails():
        while not jobs.running:
            await asyncio.sleep(0)
        raise ConnectionError("broker gone")

    with pytest.raises(ConnectionError, match="broker gone"):
        await run_until_stopped({"one": jobs.forever, "fails": fails})
    assert jobs.stopped == ["cleanly"]


async def test_two_failures_come_out_together():
    async def fails():
        raise ConnectionError("gone")

    with pytest.raises(ExceptionGroup) as group:
        await run_until_stopped({"one": fails, "other": fails})
    assert len(group.value.exceptions) == 2


async def test_a_failure_inside_a_jobs_own_group_comes_out_as_itself():
    async def fails():
        raise ConnectionError("gone")

    async def job():
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    with pytest.raises(ConnectionError):
        await run_until_stopped({"job": job})


async def test_a_stop_from_inside_works_like_a_signal():
    jobs, stop = Jobs(), asyncio.Event()

    async def stops():
        await jobs.all_started.wait()
        stop.set()

    await run_until_stopped({"a": jobs.forever, "b": jobs.forever, "c": stops}, stop=stop)
    assert jobs.stopped == ["cleanly", "cleanly"]
