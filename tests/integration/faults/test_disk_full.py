"""A disk without room: nothing is half written, the service waits, and goes on when there is room."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.intake.lane import LaneWorker
from reconciler.storage.engine import DatabaseError, make_engine
from tests.parts.applying import LIFE, SPECS, Applying, at_work, until
from tests.parts.need import missing
from tests.parts.ports import HOST
from tests.parts.postgres import OWNER, PostgresServer

SMALL_BYTES = 24 * 2**20
#: What SQLite says, and what PostgreSQL passes on of the operating system.
FULL = ("database or disk is full", "No space left on device")


class Disk:
    """Where the tables are, and how to take its room away and give it back."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    async def fill(self) -> None:
        raise NotImplementedError

    async def free(self) -> None:
        raise NotImplementedError


class SqliteDisk(Disk):
    """SQLite answers "database or disk is full" to both; the number of pages is set a connection."""

    def __init__(self, url: str) -> None:
        super().__init__(make_engine(url))
        self._pages_max = 2**30
        event.listen(self.engine.sync_engine, "checkout", self._limit)

    def _limit(self, connection: Any, *_: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA max_page_count = {self._pages_max}")
        cursor.close()

    async def fill(self) -> None:
        # Never fewer than there are: not one page more.
        self._pages_max = 1

    async def free(self) -> None:
        self._pages_max = 2**30


class PostgresDisk(Disk):
    """A database in a tablespace on a small file system, beside something large."""

    async def fill(self) -> None:
        async with self.engine.connect() as connection:
            quick = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await quick.execute(text("CREATE UNLOGGED TABLE large (words text)"))
            await quick.execute(text("ALTER TABLE large ALTER words SET STORAGE PLAIN"))
            for rows in (1_000, 100, 10, 1):
                with contextlib.suppress(DatabaseError):
                    while True:
                        await quick.execute(
                            text(
                                "INSERT INTO large SELECT repeat('x', 7000) "
                                f"FROM generate_series(1, {rows})"
                            )
                        )

    async def free(self) -> None:
        async with self.engine.begin() as connection:
            await connection.execute(text("DROP TABLE large"))


@pytest.fixture
def small_folder() -> Iterator[Path]:
    """A folder that is a file system of its own, and a small one."""
    folder = Path(tempfile.mkdtemp(prefix="reconciler-small-"))
    mount = shutil.which("mount")
    made = os.geteuid() == 0 and mount is not None
    if made:
        command = [mount, "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(folder)]
        made = subprocess.run(command, check=False, capture_output=True).returncode == 0
    if not made:
        folder.rmdir()
        missing("a small file system", "mounting one needs root and CAP_SYS_ADMIN")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
    folder.rmdir()


@pytest.fixture
def small_space(postgres_server: PostgresServer, small_folder: Path) -> Iterator[PostgresDisk]:
    """A database whose tables lie there; its log of changes lies with the server."""
    place = small_folder / "space"
    place.mkdir()
    if postgres_server._user is not None:
        shutil.chown(small_folder, postgres_server._user)
        shutil.chown(place, postgres_server._user)
    name = f"small_{small_folder.name.rpartition('-')[2].lower()}"
    for statement in (
        f"CREATE TABLESPACE {name} LOCATION '{place}'",
        f"CREATE DATABASE {name} TABLESPACE {name}",
    ):
        administer(postgres_server, statement)
    yield PostgresDisk(make_engine(postgres_server.url(name)))
    administer(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")
    administer(postgres_server, f"DROP TABLESPACE {name}")


def administer(server: PostgresServer, statement: str) -> None:
    server._run("psql", "-h", HOST, "-p", server.port, "-U", OWNER, "-c", statement, "postgres")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def disk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Disk]:
    if request.param == "sqlite":
        made: Disk = SqliteDisk(f"sqlite+aiosqlite:///{tmp_path}/small.db")
        yield made
        await made.engine.dispose()
    else:
        made = request.getfixturevalue("small_space")
        yield made
        await made.engine.dispose()


async def test_disk_is_full_and_every_order_is_told_once_when_there_is_room_again(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[str] = []
    back_off = LaneWorker._back_off

    async def noted(worker: LaneWorker, error: Exception) -> None:
        if any(words in str(error) for words in FULL):
            failures.append(worker.lane_name)
        await back_off(worker, error)

    monkeypatch.setattr(LaneWorker, "_back_off", noted)
    service = Applying(disk.engine)
    await service.create_tables()
    await service.stream.create_topics(SPECS)
    numbers = range(1, 101)
    async with at_work(service.intake(), service.relay()):
        await service.place(1)
        await until(lambda: service.is_placed(1))
        await disk.fill()
        failures.clear()
        await service.place(*numbers[1:])

        async def is_full() -> bool:
            return len(failures) >= 3

        await until(is_full)
        assert not await service.is_placed(numbers[-1])
        await disk.free()
        await until(lambda: service.is_placed(*numbers))
        await service.pay(*numbers)
        await until(lambda: service.tells(*numbers))
    assert await service.told() == {f"o-{number}": LIFE for number in numbers}
