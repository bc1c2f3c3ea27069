"""`reconciler migrate`: make the tables and the topics that this program needs. Twice is once."""

from __future__ import annotations

from reconciler.commands.common import DEFAULT_CONFIG, DONE, NOT_WELL, ConfigFile, put, say
from reconciler.config import load_settings
from reconciler.storage.asking import DatabaseUnreachable, ask_database
from reconciler.storage.schema_version import Migrated, migrate
from reconciler.wiring import open_engine, open_stream


async def migrate_all(*, config: ConfigFile = DEFAULT_CONFIG) -> int:
    """Bring the database to this program's revision and make the topics that are missing.

    Changes no topic that is there: one that is set up otherwise is named, and the exit code is 1. Stop
    what runs on the database first when the revision changes.
    """
    settings = load_settings(config)
    async with open_engine(settings) as engine:
        try:
            await ask_database(engine)
        except DatabaseUnreachable as error:
            say(f"reconciler: database.url: {error}")
            return NOT_WELL
        put(_said(await migrate(engine)))
        async with open_stream(settings, engine) as stream:
            specs = settings.topic_specs()
            made = await stream.create_topics(specs)
            put(f"topics: made {', '.join(made)}" if made else "topics: all are there")
            differences = await stream.compare_topics(specs)
    for sentence in differences:
        say(f"topics: {sentence}")
    return NOT_WELL if differences else DONE


def _said(done: Migrated) -> str:
    if done.before == done.after:
        return f"database: at revision {done.after} already"
    if done.before is None:
        return f"database: made at revision {done.after}"
    return f"database: from revision {done.before} to {done.after}"
