"""Is the journal as it was written? Every entry is hashed again, every chain followed to its head.

A changed, removed, inserted or reordered entry shows: each hash covers the entry before it, and the
last one stands in the row that the chain is about.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Final

from msgspec import Struct

from reconciler.storage.journal import entry_hash
from reconciler.storage.pages import pages
from reconciler.storage.rows import NO_HASH, AddressRow, LaneRow, OrderRow
from reconciler.storage.unit_of_work import Work

FAULTS_MAX: Final = 100


class Entry(Struct, kw_only=True):
    """A journal entry as it is stored."""

    id: int
    seq: int
    chain_key: str
    kind: str
    recorded_at: datetime
    body: bytes
    previous_hash: bytes
    hash: bytes


class Verified(Struct, kw_only=True):
    """What was found. `faults` are sentences, at most `FAULTS_MAX` of them."""

    entries: int = 0
    chains: int = 0
    faults: list[str] = []
    faults_total: int = 0

    def blame(self, sentence: str) -> None:
        """Note a fault."""
        self.faults_total += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(sentence)


async def verify_journal(work: Work, tell: Callable[[int], None]) -> Verified:
    """Follow every chain, then compare the heads. Tells after each page how many entries it had."""
    verdict = Verified()
    heads: dict[str, bytes] = {}
    async for page in pages(work, Entry, "journal", "id"):
        for entry in page:
            _follow(entry, heads, verdict)
        verdict.entries += len(page)
        tell(len(page))
    verdict.chains = len(heads)
    await _compare_heads(work, heads, verdict)
    return verdict


def _follow(entry: Entry, heads: dict[str, bytes], verdict: Verified) -> None:
    before = heads.get(entry.chain_key, NO_HASH)
    if entry.previous_hash != before:
        verdict.blame(f"entry {entry.id} of {entry.chain_key} does not follow the one before it")
    if hash_of(entry) != entry.hash:
        verdict.blame(f"entry {entry.id} of {entry.chain_key} was changed")
    heads[entry.chain_key] = entry.hash


def hash_of(entry: Entry) -> bytes:
    """Hash an entry again."""
    return entry_hash(
        entry.previous_hash,
        entry.body,
        chain_key=entry.chain_key,
        kind=entry.kind,
        seq=entry.seq,
        recorded_at=entry.recorded_at,
    )


async def _compare_heads(work: Work, heads: dict[str, bytes], verdict: Verified) -> None:
    """Compare each chain's last hash with the one that its subject's row keeps."""
    async for name, kept in _kept_heads(work):
        if heads.get(name, NO_HASH) != kept:
            verdict.blame(f"the last entries of {name} are missing or were changed")


async def _kept_heads(work: Work) -> AsyncIterator[tuple[str, bytes]]:
    async for orders in pages(work, OrderRow, "orders", "reference"):
        for order in orders:
            yield f"order/{order.reference}", order.journal_hash
    async for lanes in pages(work, LaneRow, "lanes", "lane"):
        for lane in lanes:
            yield f"lane/{lane.lane}", lane.journal_hash
    async for addresses in pages(work, AddressRow, "addresses", "family", "key"):
        for address in addresses:
            yield f"address/{address.family}/{address.key}", address.journal_hash
