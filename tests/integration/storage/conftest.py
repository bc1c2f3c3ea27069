"""Both databases, empty."""

from __future__ import annotations

import pytest

from reconciler.storage.engine import make_engine


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, on each of the two."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    return request.getfixturevalue(name)


@pytest.fixture
async def engine(database_url: str):
    made = make_engine(database_url)
    yield made
    await made.dispose()
