"""A service that runs seals its journal by its settings alone, and the audit finds all of it well."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sqlalchemy import update

from reconciler.cli import run
from reconciler.commands.decide import Person, hold, release
from reconciler.storage import tables
from reconciler.storage.seal_file import published_seals
from reconciler.storage.seals import SealingKey
from reconciler.wiring import intake_of, relay_of
from tests.parts.service import running, service, write_settings
from tests.parts.settings import CHAIN, SETTINGS

SEED = "5ea1" * 16


def sealing_settings(folder: Path) -> Path:
    text = SETTINGS.replace("[keys]", f'[keys]\nsealing = "{SEED}"')
    journal = '[journal]\nseal_every = "50ms"\nseals = "seals.jsonl"\n'
    return write_settings(folder, text=text, more=journal)


def count_published(file: Path) -> int:
    return len(list(published_seals(file))) if file.exists() else 0


async def sealed_upto(file: Path, number: int) -> None:
    async with asyncio.timeout(30):
        while count_published(file) < number:
            await asyncio.sleep(0.02)


def verified(path: Path) -> int:
    return run(["audit", "verify", "--config", str(path)])


async def test_what_a_running_service_sealed_is_verified_by_the_command(tmp_path, capsys):
    path, file = sealing_settings(tmp_path), tmp_path / "seals.jsonl"
    person = Person(actor="Ana", reason="the node lies", config=path)
    async with service(path) as parts:
        async with running(intake_of(parts).run, relay_of(parts, 0).run):
            assert await hold(CHAIN, person=person) == 0
            await sealed_upto(file, 1)
            assert await asyncio.to_thread(verified, path) == 0, "also while it runs"
            assert await release(CHAIN, person=person) == 0
            await sealed_upto(file, 2)
        capsys.readouterr()
        assert await asyncio.to_thread(verified, path) == 0
        said = capsys.readouterr().err
        assert f"2 seals, 2 of them published; signed by {SealingKey(SEED).public_hex}" in said
        assert "unsealed" not in said
        async with parts.store.engine.begin() as connection:
            await connection.execute(
                update(tables.journal).where(tables.journal.c.id == 1).values(body=b"{}")
            )
        assert await asyncio.to_thread(verified, path) == 1
