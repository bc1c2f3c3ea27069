"""Tasks that belong to an object rather than to a block: stopped together, and waited for."""

from __future__ import annotations

import asyncio


async def stop_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait until they are gone; empties the list."""
    for task in tasks:
        task.cancel()
    try:
        results = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        tasks.clear()
    for result in results:
        if isinstance(result, Exception):
            raise result
