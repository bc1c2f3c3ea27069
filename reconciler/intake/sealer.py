"""Seals the journal from time to time. Every intake may: they wait for each other, and one finds work."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from chains.heed import heed_cancellation
from reconciler.kernel.clock import Clock
from reconciler.observability import metrics
from reconciler.observability.logs import logger
from reconciler.observability.metrics import Meters
from reconciler.services.seal_journal import publish_seals, seal_journal
from reconciler.storage.engine import DatabaseError
from reconciler.storage.seal_file import SealFileError
from reconciler.storage.seals import SealingKey
from reconciler.storage.unit_of_work import GaveUpError, Store

SEAL_EVERY: Final = timedelta(minutes=1)

log = logger("intake")


class SealingTerms(Struct, frozen=True, kw_only=True):
    """How the journal is sealed. Without a key seals are not signed, without a file not published."""

    every: timedelta = SEAL_EVERY
    key: SealingKey | None = None
    file: Path | None = None


class Sealer:
    """Runs until it is cancelled."""

    def __init__(self, terms: SealingTerms, *, store: Store, clock: Clock, meters: Meters) -> None:
        self._terms = terms
        self._store = store
        self._clock = clock
        self._meters = meters

    async def run(self) -> None:
        """Seal and publish, again and again. What fails is tried again the next time."""
        if self._terms.key is None:
            log.warning("seals_unsigned", why="keys.sealing is not set")
        if self._terms.file is None:
            log.warning("seals_unpublished", why="journal.seals is not set")
        while True:
            heed_cancellation()
            await self._clock.sleep(self._terms.every.total_seconds())
            try:
                await self.seal()
            except (GaveUpError, DatabaseError, ConnectionError, SealFileError) as error:
                log.warning("seal_waits", error=f"{type(error).__name__}: {str(error)[:300]}")

    async def seal(self) -> int:
        """Seal what is new and publish what is not out yet; gives the number of new seals."""
        terms, now = self._terms, self._clock.now()
        made = await seal_journal(self._store, key=terms.key, now=now)
        if terms.file is not None:
            await publish_seals(self._store, terms.file)
        self._meters.add(metrics.JOURNAL_SEALS, made)
        self._meters.set(metrics.JOURNAL_SEALED_TIMESTAMP, now.timestamp())
        if made:
            log.info("sealed", seals=made)
        return made
