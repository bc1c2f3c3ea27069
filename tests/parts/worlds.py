"""Worlds for tests that are told on both databases: one empty world a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.storage import tables
from reconciler.storage.engine import make_engine
from tests.parts.world import World

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session")
def postgres_tables(request: pytest.FixtureRequest) -> Iterator[str]:
    """One database with our tables for the whole run; `emptied` makes it new for a test."""
    server = request.getfixturevalue("postgres_server")
    url = server.new_database()
    # Asked for inside a test's own loop, which cannot run another.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _create(url)).result()
    yield url
    server.drop_database(url)


async def _create(url: str) -> None:
    engine = make_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(tables.metadata.create_all)
    await engine.dispose()


async def emptied(url: str) -> AsyncEngine:
    engine = make_engine(url)
    names = ", ".join(f'"{name}"' for name in tables.metadata.tables)
    async with engine.begin() as connection:
        await connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
        await connection.execute(text("ALTER SEQUENCE applied_seq RESTART"))
    return engine


@pytest.fixture(params=BOTH)
def database(request: pytest.FixtureRequest) -> str:
    """A database's URL: a file of the test's own, or the run's PostgreSQL."""
    fixture = "sqlite_url" if request.param == "sqlite" else "postgres_tables"
    return str(request.getfixturevalue(fixture))


async def open_world(database: str, **changes: object) -> World:
    if database.startswith("sqlite"):
        return await World.open(database, **changes)
    return World(await emptied(database), **changes)


@pytest.fixture
async def quick_world() -> AsyncIterator[World]:
    """An empty world in memory, for tables whose rows do not differ by database."""
    made = await World.open()
    yield made
    await made.close()


@pytest.fixture(params=BOTH)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """An empty world on either database; SQLite's is in memory."""
    if request.param == "sqlite":
        made = await World.open()
    else:
        made = await open_world(request.getfixturevalue("postgres_tables"))
    yield made
    await made.close()
