"""A start is refused while open orders use what the settings no longer name, and where addresses could be
handed out a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reconciler.services.context import ServiceContext
from reconciler.storage import reads
from reconciler.storage.seal_file import last_line
from reconciler.storage.seals import has_seal
from reconciler.storage.unit_of_work import Store


async def missing_settings(store: Store, context: ServiceContext) -> Sequence[str]:
    """Say, one sentence each, which chains and routes of open orders the settings do not name."""
    found = []
    for route, chain, count in await store.read(reads.open_routes):
        if chain not in context.lanes:
            found.append(f"{count} open orders are on chain {chain}, which has no [chains] entry")
        if route not in context.routes:
            found.append(f"{count} open orders use route {route!r}, which has no [[routes]] entry")
    return found


async def is_older_than_seals(store: Store, path: Path) -> bool:
    """Tell whether a file of seals ends with one that the database does not have.

    Every seal of the file was committed first: the database was then put back to a backup, or is
    another one. **Raises**: `SealFileError`.
    """
    last = last_line(path)
    if last is None:
        return False
    return not await store.read(lambda work: has_seal(work, last.number, last.hash))
