"""Seal the journal: close it up to now, sign, and tell the outside."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Final

from reconciler.storage import seals
from reconciler.storage.seal_file import append_seals, last_published
from reconciler.storage.seals import SealingKey, SealRow
from reconciler.storage.unit_of_work import Store, Work

#: Seals of one call at most; the next call goes on.
SEALS_MAX: Final = 100
#: Seals that are published at once; each may hold thousands of entries.
PUBLISH_MAX: Final = 20


async def seal_journal(
    store: Store,
    *,
    key: SealingKey | None,
    now: datetime,
    entries_max: int = seals.ENTRIES_MAX,
) -> int:
    """Seal every entry that is committed; gives the number of seals that were made.

    One transaction finds how far the journal is complete, each seal is one of its own. Two that seal at
    once go one after the other, and the second finds nothing new. The cost is that of new entries.
    """
    upto_id = await store.run(seals.horizon, name="seal_horizon")

    async def use_case(work: Work) -> SealRow | None:
        return await seals.add_seal(work, upto_id=upto_id, key=key, now=now, limit=entries_max)

    for made in range(SEALS_MAX):
        if await store.run(use_case, name="seal_journal") is None:
            return made
    return SEALS_MAX


async def publish_seals(store: Store, path: Path) -> int:
    """Append the seals that a file does not have yet; gives how many there were.

    A crash between sealing and publishing only delays: the file's own end says what is missing.

    **Raises**: `SealFileError` when the file cannot be written, or ends otherwise than the database.
    """
    count = 0
    number = await asyncio.to_thread(last_published, path)
    while True:

        async def query(work: Work, after: int = number) -> list[SealRow]:
            return list(await seals.seals_after(work, after, limit=PUBLISH_MAX))

        found = await store.read(query)
        if not found:
            return count
        await asyncio.to_thread(append_seals, path, found)
        count += len(found)
        number = found[-1].number
