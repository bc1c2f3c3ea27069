"""`reconciler audit …`: whether what we remember is still what we wrote."""

from __future__ import annotations

from cyclopts import App

from reconciler.audit.journal import verify_journal
from reconciler.commands.common import DEFAULT_CONFIG, DONE, NOT_WELL, ConfigFile, put, say
from reconciler.commands.progress import progress
from reconciler.config import load_settings
from reconciler.storage.pages import count_rows, snapshot
from reconciler.wiring import open_engine

app = App(name="audit", help="Look a second time at what was decided.")


@app.command
async def verify(*, config: ConfigFile = DEFAULT_CONFIG) -> int:
    """Hash every entry of the journal again and follow every chain to its head.

    Names each entry that was changed, removed, inserted or reordered, and exits with 1 for any.
    """
    settings = load_settings(config)
    async with open_engine(settings) as engine, snapshot(engine) as work:
        with progress("entries", await count_rows(work, "journal")) as advance:
            found = await verify_journal(work, advance)
    for fault in found.faults:
        put(fault)
    unsaid = found.faults_total - len(found.faults)
    if unsaid:
        put(f"and {unsaid} more")
    say(f"{found.entries} entries in {found.chains} chains, {found.faults_total} faults")
    return NOT_WELL if found.faults_total else DONE
