"""A process: named jobs that run until they end, one of them fails, or a signal comes.

Every task has an owner that waits for it; a stop is a cancellation, which every await must survive
(what was being appended is settled by the next start of its writer).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

Job = Callable[[], Coroutine[Any, Any, None]]

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def run_until_stopped(jobs: Mapping[str, Job], *, stop: asyncio.Event | None = None) -> None:
    """Run the jobs side by side. Returns when all have ended or a signal (or `stop`) came.

    The first failure cancels the others and comes out as itself, not in a group, when it is alone.
    A second signal kills the process as if nobody had been listening.
    """
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, _stop_once, loop, stop)
    try:
        await _run(jobs, stop)
    except BaseExceptionGroup as errors:
        failures = leaves(errors)
        if len(failures) > 1:
            raise
        raise failures[0] from failures[0].__cause__
    finally:
        _listen_no_more(loop)


async def _run(jobs: Mapping[str, Job], stop: asyncio.Event) -> None:
    unfinished = set(jobs)

    def ended(task: asyncio.Task[None]) -> None:
        unfinished.discard(task.get_name())
        if not unfinished:
            stop.set()

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(job(), name=name) for name, job in jobs.items()]
        for task in running:
            task.add_done_callback(ended)
        if running:
            await stop.wait()
        for task in running:
            task.cancel()


def _stop_once(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    stop.set()
    _listen_no_more(loop)


def _listen_no_more(loop: asyncio.AbstractEventLoop) -> None:
    for number in SIGNALS:
        loop.remove_signal_handler(number)


def leaves(error: BaseException) -> list[BaseException]:
    """Give the errors of a group, however deep they lie; an error outside a group is its own."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]
