"""Which revision of our tables a database has, and the way to the one that this program needs.

Reads and writes tables by the revisions in `reconciler.storage.migrations`; never touches a row of them.
Every process but `reconciler migrate` only looks, and refuses a database of another revision: old code
on new tables, or the other way round, would write what the other cannot read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from msgspec import Struct
from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.kernel.refusals import Refusal
from reconciler.storage.asking import unreachable_in_words

MIGRATIONS: Final = Path(__file__).parent / "migrations"
#: A migration waits this long for a table and then gives up: whoever waits behind it waits as well.
LOCK_TIMEOUT_S: Final = 5
#: Two that migrate at once go one after the other.
_LOCK_KEY: Final = 0x7265636F6E63696C  # "reconcil"


class SchemaDiffers(Refusal):
    """The database has tables of another revision than this program, or none, or not only ours."""


class Migrated(Struct, frozen=True):
    """From which revision to which. Equal ones: there was nothing to do."""

    before: str | None
    after: str | None


def head_revision() -> str:
    """Give the revision that this program reads and writes."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        message = f"no revision in {MIGRATIONS}"
        raise SchemaDiffers(message)
    return head


async def migrate(engine: AsyncEngine, *, revision: str = "head") -> Migrated:
    """Bring the tables to this program's revision, in one transaction. Twice is once.

    **Raises**: `SchemaDiffers` when the database is of a newer program, or has tables of ours that no
    revision made.
    """
    async with engine.begin() as connection:
        return await connection.run_sync(_migrate, revision)


async def downgrade(engine: AsyncEngine, *, revision: str = "base") -> Migrated:
    """Take revisions back, with all that their tables hold. For tests of migrations."""
    async with engine.begin() as connection:
        return await connection.run_sync(_downgrade, revision)


async def current_revision(engine: AsyncEngine) -> str | None:
    """Tell a database's revision; None when it was never migrated.

    **Raises**: `DatabaseUnreachable`.
    """
    with unreachable_in_words(engine):
        async with engine.connect() as connection:
            quiet = await connection.execution_options(begin_mode="DEFERRED")
            return await quiet.run_sync(_current)


async def check_schema(engine: AsyncEngine) -> None:
    """Go on only with tables of this program's revision.

    **Raises**: `SchemaDiffers`, `DatabaseUnreachable`.
    """
    found, wanted = await current_revision(engine), head_revision()
    if found == wanted:
        return
    if found is None:
        message = "the database has no tables of ours: run `reconciler migrate`"
        raise SchemaDiffers(message)
    if not _is_known(found):
        raise SchemaDiffers(_newer(found, wanted))
    message = (
        f"expected tables of revision {wanted}, found {found}: stop what runs on the database, "
        "then run `reconciler migrate`"
    )
    raise SchemaDiffers(message)


def _newer(found: str, wanted: str) -> str:
    return (
        f"expected tables of revision {wanted}, found {found}, which this program does not know: "
        "a newer one has migrated the database"
    )


def _config(connection: Connection | None = None) -> Config:
    """Make Alembic's configuration without a file: the revisions travel with the package."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _is_known(revision: str) -> bool:
    script = ScriptDirectory.from_config(_config())
    return revision in {each.revision for each in script.walk_revisions()}


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _guard(connection: Connection) -> None:
    """Let one migrate at a time, and let nobody queue for long behind a lock that it waits for."""
    if connection.dialect.name != "postgresql":
        return
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'"))


def _migrate(connection: Connection, revision: str) -> Migrated:
    _guard(connection)
    before = _current(connection)
    if before is None:
        _refuse_strangers(connection)
    elif not _is_known(before):
        raise SchemaDiffers(_newer(before, head_revision()))
    command.upgrade(_config(connection), revision)
    return Migrated(before, _current(connection))


def _downgrade(connection: Connection, revision: str) -> Migrated:
    _guard(connection)
    before = _current(connection)
    command.downgrade(_config(connection), revision)
    return Migrated(before, _current(connection))


def _refuse_strangers(connection: Connection) -> None:
    """Refuse a database that has a table of ours, though no revision made it."""
    from reconciler.storage.stream_tables import stream_metadata
    from reconciler.storage.tables import metadata

    ours = {*metadata.tables, *stream_metadata.tables}
    there = sorted(ours & set(inspect(connection).get_table_names()))
    if there:
        message = (
            f"the database was never migrated and already has {', '.join(there[:3])}: "
            "give the service a database of its own"
        )
        raise SchemaDiffers(message)
