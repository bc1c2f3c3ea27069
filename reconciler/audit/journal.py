"""Is the journal as it was written? Every entry is hashed again, every chain followed to its head, and
every seal compared with what it covers, in one walk in the order of ids.

Within its chain an entry that was changed, removed, inserted or put elsewhere shows by the hashes: each
covers the entry before it, and the last one stands in the row that the chain is about. Who rewrites a
chain to its end, and its head as well, is found by the seals, which say of each entry what it was. What
is younger than the last seal is chained only, and that is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct, field

from reconciler.storage.journal import entry_hash
from reconciler.storage.pages import pages
from reconciler.storage.rows import NO_HASH, AddressRow, LaneRow, OrderRow
from reconciler.storage.seals import (
    MARK_BYTES,
    SealBody,
    SealRow,
    all_seals,
    is_signed_by,
    read_body,
    seal_hash,
)
from reconciler.storage.unit_of_work import Work

FAULTS_MAX: Final = 100


class Entry(Struct):
    """A journal entry as it is stored."""

    id: int
    seq: int
    chain_key: str
    kind: str
    recorded_at: datetime
    body: bytes
    previous_hash: bytes
    hash: bytes


class Verified(Struct):
    """What was found. `faults` are sentences, at most `FAULTS_MAX` of them, the first one first.

    `unsealed` counts the entries behind the last seal, `unsigned` the seals that nobody signed.
    """

    entries: int = 0
    chains: int = 0
    seals: int = 0
    unsealed: int = 0
    unsigned: int = 0
    faults: list[str] = field(default_factory=list)
    faults_total: int = 0

    def blame(self, sentence: str) -> None:
        """Note a fault."""
        self.faults_total += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(sentence)


async def verify_journal(
    work: Work, tell: Callable[[int], None], *, public_hex: str | None = None
) -> Verified:
    """Walk the journal and its seals, then compare the heads of chains.

    `public_hex` is the key by which seals must be signed. `tell` hears after each page how many entries
    it had.
    """
    verdict = Verified()
    heads: dict[str, bytes] = {}
    seals = _Seals(all_seals(work), verdict, public_hex)
    async for page in pages(work, Entry, "journal", "id"):
        for entry in page:
            _follow(entry, heads, verdict)
            await seals.see(entry)
        verdict.entries += len(page)
        tell(len(page))
    await seals.end()
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


class _Seals:
    """Follows the seals beside the entries that they cover."""

    def __init__(
        self, rows: AsyncIterator[SealRow], verdict: Verified, public_hex: str | None
    ) -> None:
        self._rows = rows
        self._verdict = verdict
        self._public_hex = public_hex
        self._before: SealRow | None = None
        self._open: _OpenSeal | None = None
        self._are_over = False

    async def see(self, entry: Entry) -> None:
        """Hold an entry against the seal that covers it."""
        while not self._are_over:
            if self._open is None:
                await self._next()
            elif entry.id > self._open.body.last_id:
                self._close()
            else:
                self._open.see(entry, self._verdict)
                return
        self._verdict.unsealed += 1

    async def end(self) -> None:
        """Hold what is left of the seals against what is not there."""
        while not self._are_over:
            if self._open is not None:
                self._close()
            await self._next()

    def _close(self) -> None:
        if self._open is not None:
            self._open.close(self._verdict)
        self._open = None

    async def _next(self) -> None:
        """Open the next seal that can be read; it must follow the one before it."""
        async for row in self._rows:
            self._verdict.seals += 1
            body = self._read(row)
            self._before = row
            if body is not None:
                self._open = _OpenSeal(body)
                return
        self._are_over = True

    def _read(self, row: SealRow) -> SealBody | None:
        name, blame = f"seal {row.number}", self._verdict.blame
        if seal_hash(row.body) != row.hash:
            blame(f"{name} was changed")
        try:
            body = read_body(row.body)
        except msgspec.DecodeError as error:
            blame(f"{name} cannot be read: {error}")
            return None
        expected = self._before.number + 1 if self._before else 1
        if row.number != expected or body.number != row.number:
            blame(f"seal {expected} is missing, found {row.number} that calls itself {body.number}")
        elif body.previous != (self._before.hash if self._before else NO_HASH).hex():
            blame(f"{name} does not follow the one before it")
        self._judge_signature(row)
        return body

    def _judge_signature(self, row: SealRow) -> None:
        if not row.signature:
            self._verdict.unsigned += 1
            if self._public_hex is not None:
                self._verdict.blame(f"seal {row.number} is not signed")
        elif self._public_hex is not None and not is_signed_by(row, self._public_hex):
            self._verdict.blame(f"seal {row.number} is not signed by {self._public_hex[:16]}…")


class _OpenSeal:
    """One seal and how much of what it covers was seen."""

    def __init__(self, body: SealBody) -> None:
        self.body = body
        self._ids = [n for first, last in body.spans for n in range(first, last + 1)]
        self._seen = 0
        self._is_whole = True
        self._digest = hashlib.sha256()

    def see(self, entry: Entry, verdict: Verified) -> None:
        """Hold an entry against the place that it should have."""
        name = f"seal {self.body.number}"
        self._skip_missing(entry.id, verdict)
        if self._seen >= len(self._ids) or self._ids[self._seen] != entry.id:
            self._fault(verdict, f"entry {entry.id} of {entry.chain_key} was added after {name}")
            return
        if entry.hash[:MARK_BYTES].hex() != self._mark(self._seen):
            self._fault(verdict, f"entry {entry.id} of {entry.chain_key} is not what {name} saw")
        self._digest.update(entry.hash)
        self._seen += 1

    def close(self, verdict: Verified) -> None:
        """Say what of the seal was never seen."""
        self._skip_missing(self.body.last_id + 1, verdict)
        if self._is_whole and self._digest.hexdigest() != self.body.digest:
            verdict.blame(f"seal {self.body.number} saw other entries than these")

    def _skip_missing(self, before_id: int, verdict: Verified) -> None:
        while self._seen < len(self._ids) and self._ids[self._seen] < before_id:
            missing = self._ids[self._seen]
            heads = {head.id: head.chain for head in self.body.heads}
            of = f" of {heads[missing]}" if missing in heads else ""
            self._fault(verdict, f"entry {missing}{of} is missing since seal {self.body.number}")
            self._seen += 1

    def _mark(self, place: int) -> str:
        width = 2 * MARK_BYTES
        return self.body.marks[place * width : (place + 1) * width]

    def _fault(self, verdict: Verified, sentence: str) -> None:
        self._is_whole = False
        verdict.blame(sentence)


async def _compare_heads(work: Work, heads: dict[str, bytes], verdict: Verified) -> None:
    """Compare each chain's last hash with the one that its subject's row keeps."""
    kept_names = set()
    async for name, kept in _kept_heads(work):
        kept_names.add(name)
        if heads.get(name, NO_HASH) != kept:
            verdict.blame(f"the last entries of {name} are missing or were changed")
    for name in sorted(heads.keys() - kept_names):
        if not name.startswith("decision/"):
            verdict.blame(f"{name} has entries and is not there any more")


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
