"""Cancellations that were lost on their way. Knows no chain."""

from __future__ import annotations

import asyncio


def heed_cancellation() -> None:
    """End a task that was asked to end and goes on: the first line of every loop without an end.

    A cancellation is one exception, and another one may take its place: a clean-up that fails, the
    answer of a group of tasks of which one failed meanwhile, a library that takes it for its own
    time-out. A loop that begins anew after errors would then go on for ever, and whoever waits for
    its task with it.

    **Raises**: `asyncio.CancelledError`.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
