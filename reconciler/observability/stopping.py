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
        alone = _alone(errors)
        if alone is None:
            raise
        raise alone from alone.__cause__
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


def _alone(errors: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Give the one error of a group, however deep it lies; None when there are several."""
    if len(errors.exceptions) != 1:
        return None
    inner = errors.exceptions[0]
    return _alone(inner) if isinstance(inner, BaseExceptionGroup) else inner
