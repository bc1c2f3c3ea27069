"""A small service for tests of commands: settings, a migrated SQLite database, its log's topics."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from reconciler.config import Settings, load_settings
from reconciler.kernel import SystemClock
from reconciler.storage import schema_version
from reconciler.wiring import Parts, open_engine, open_parts, open_stream
from tests.parts.settings import CATALOGUE, SETTINGS


def write_settings(folder: Path, *, text: str = SETTINGS, more: str = "") -> Path:
    """Write a settings file with its catalogue and a database beside it; `more` stands on top."""
    (folder / "catalogue.toml").write_text(CATALOGUE)
    path = folder / "reconciler.toml"
    url = f"sqlite+aiosqlite:///{folder}/reconciler.db"
    path.write_text(more + text.replace("sqlite+aiosqlite:///reconciler.db", url))
    return path


async def migrate(settings: Settings) -> None:
    """Make tables and topics, as the command does."""
    async with open_engine(settings) as engine:
        await schema_version.migrate(engine)
        async with open_stream(settings, engine) as stream:
            await stream.create_topics(settings.topic_specs())


@contextlib.asynccontextmanager
async def service(path: Path) -> AsyncIterator[Parts]:
    """Open a migrated service."""
    settings = load_settings(path, {})
    await migrate(settings)
    async with open_parts(settings, clock=SystemClock()) as parts:
        yield parts


@contextlib.asynccontextmanager
async def running(*jobs: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run jobs until the block ends; a job that fails fails the test."""
    tasks = [asyncio.create_task(job()) for job in jobs]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
