"""The revisions make the tables that the program reads and writes, on both databases."""

from __future__ import annotations

import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.storage import schema_version
from reconciler.storage.engine import make_engine
from reconciler.storage.schema_version import (
    SchemaDiffers,
    check_schema,
    current_revision,
    downgrade,
    head_revision,
    migrate,
)
from reconciler.storage.stream_tables import stream_metadata
from reconciler.storage.tables import metadata

#: All that PostgreSQL says of its tables: columns, constraints, indexes with their conditions.
DESCRIBE_POSTGRESQL = """
SELECT 'column', table_name, column_name, concat_ws(' ', udt_name, numeric_precision,
       numeric_scale, is_nullable, column_default, character_maximum_length)
  FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'sequence', sequencename, data_type::text, concat(increment_by, ' ', cache_size)
  FROM pg_sequences WHERE schemaname = 'public'
"""
DESCRIBE_SQLITE = "SELECT type, tbl_name, name, sql FROM sqlite_master"


def differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(
        connection, opts={"compare_type": True, "compare_server_default": True}
    )
    return list(compare_metadata(context, [metadata, stream_metadata]))


async def description(engine: AsyncEngine) -> set[tuple[str, ...]]:
    """Describe every table and index, without Alembic's own table.

    White space and the order of a table's constraints say nothing.
    """
    query = DESCRIBE_SQLITE if engine.dialect.name == "sqlite" else DESCRIBE_POSTGRESQL
    async with engine.connect() as connection:
        rows = await connection.execute(text(query))
        found = {tuple(map(_in_order, row)) for row in rows}
    return {row for row in found if row[1] != "alembic_version"}


def _in_order(part: object) -> str:
    words = (word.strip(",") for word in str(part).split())
    return " ".join(sorted(word for word in words if word != ")"))


async def create_directly(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.run_sync(stream_metadata.create_all)


async def drop_directly(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(stream_metadata.drop_all)
        await connection.run_sync(metadata.drop_all)


async def test_migrated_database_has_exactly_the_tables_of_the_program(engine) -> None:
    await migrate(engine)
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_migrated_and_created_databases_are_described_alike(engine) -> None:
    await create_directly(engine)
    created = await description(engine)
    await drop_directly(engine)
    await migrate(engine)
    assert await description(engine) == created


async def test_migrating_twice_changes_nothing(engine) -> None:
    first = await migrate(engine)
    assert (first.before, first.after) == (None, head_revision())
    described = await description(engine)
    second = await migrate(engine)
    assert (second.before, second.after) == (head_revision(), head_revision())
    assert await description(engine) == described


async def test_downgrade_leaves_nothing_behind_and_upgrade_works_again(engine) -> None:
    await migrate(engine)
    await downgrade(engine)
    assert await description(engine) == set()
    await migrate(engine)
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_two_that_migrate_at_once_go_one_after_the_other(database_url: str) -> None:
    engines = [make_engine(database_url) for _ in range(2)]
    done = await asyncio.gather(*(migrate(engine) for engine in engines))
    assert sorted(str(each.before) for each in done) == [head_revision(), "None"]
    for engine in engines:
        await engine.dispose()


async def test_failed_migration_leaves_the_database_as_it_was(engine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE theirs (id integer)"))
        # The very last thing that the first revision makes cannot be made.
        await connection.execute(text("CREATE INDEX ix_stream_messages_tombstones ON theirs (id)"))
    before = await description(engine)
    with pytest.raises(DBAPIError, match="ix_stream_messages_tombstones"):
        await migrate(engine)
    assert await description(engine) == before
    assert await current_revision(engine) is None


async def test_start_without_migration_is_refused_and_says_what_to_do(engine) -> None:
    with pytest.raises(SchemaDiffers, match="run `reconciler migrate`"):
        await check_schema(engine)
    await migrate(engine)
    await check_schema(engine)


async def test_database_of_a_newer_program_is_refused_by_start_and_by_migrate(engine) -> None:
    await migrate(engine)
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaDiffers, match="9999, which this program does not know"):
        await check_schema(engine)
    with pytest.raises(SchemaDiffers, match="9999"):
        await migrate(engine)


async def test_foreign_tables_of_the_same_name_are_refused_and_left_alone(engine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE orders (id integer)"))
    with pytest.raises(SchemaDiffers, match="already has orders"):
        await migrate(engine)
    async with engine.connect() as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert names == ["orders"]


async def test_migration_does_not_queue_for_long_behind_a_lock(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_version, "LOCK_TIMEOUT_S", 1)
    engine = make_engine(postgres_url)
    await migrate(engine)
    async with engine.begin() as holder:
        await holder.execute(text("LOCK TABLE orders IN ACCESS SHARE MODE"))
        with pytest.raises(DBAPIError, match="lock timeout"):
            await downgrade(engine)
    assert await current_revision(engine) == head_revision()
    await engine.dispose()
