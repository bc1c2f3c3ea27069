"""Attacks do not differ by database, but for what is written into one: those ask for both by name."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.parts.world import World
from tests.parts.worlds import open_world


@pytest.fixture
def world(quick_world: World) -> World:
    return quick_world


@pytest.fixture
async def each_database(database: str) -> AsyncIterator[World]:
    made = await open_world(database)
    yield made
    await made.close()
