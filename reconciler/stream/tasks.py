"""Tasks that belong to an object rather than to a block: stopped together, and waited for."""

from __future__ import annotations

import asyncio
import contextlib


async def stop_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait until they are gone; empties the list."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    tasks.clear()
