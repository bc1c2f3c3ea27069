"""Several questions at once, owned by whoever asks. Knows no chain.

Our errors are values while the others still run, so that one failure neither cancels an answer that
was paid for nor comes out as a group of exceptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from chains.errors import ChainError

T = TypeVar("T")


async def first_good(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make all calls at once; give results up to the first failure, which is raised if it is first."""
    if len(calls) == 1:
        return [await calls[0]()]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_caught(call)) for call in calls]
    found: list[T] = []
    for task in tasks:
        result = task.result()
        if isinstance(result, ChainError):
            if not found:
                raise result
            break
        found.append(result)
    return found


async def at_once(calls: Sequence[Callable[[], Awaitable[T]]], *, most: int) -> list[T]:
    """Make all calls, so many at once, and give all results; the first failure is raised."""
    found: list[T] = []
    while len(found) < len(calls):
        found += await first_good(calls[len(found) : len(found) + most])
    return found


async def _caught(call: Callable[[], Awaitable[T]]) -> T | ChainError:
    try:
        return await call()
    except ChainError as error:
        return error
