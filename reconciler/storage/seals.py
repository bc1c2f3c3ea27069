"""Seals: from time to time the journal is closed up to an entry, signed, and told to the outside.

Reads the journal, writes `seals`. A seal names every entry since the seal before it by its id and by the
beginning of its hash, hashes all of them whole, names the head of every chain that moved, and names the
seal before: who holds the last seal can tell whether any entry before it was changed, removed, added or
put elsewhere. Its cost is that of the new entries.

Ids are not the order of commits on PostgreSQL: an entry may be committed after one with a higher id. So
whoever writes entries holds an advisory lock shared from his first entry until his commit, and a seal
takes it exclusively for the moment in which it reads the highest id: everything up to there is committed
or will never be, and whatever comes draws a higher id. Writers wait for no longer than the transactions
that were just being committed. (A lock on the table would do the same and get in the way of vacuum.)
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct
from sqlalchemy import func, select

from reconciler.storage import tables
from reconciler.storage.bulk import insert
from reconciler.storage.reads import columns_of, fetch
from reconciler.storage.rows import NO_HASH
from reconciler.storage.unit_of_work import Work
from schemas.values import Message

#: Entries of one seal at most; more are sealed in several.
ENTRIES_MAX: Final = 10_000
#: Bytes of an entry's hash that a seal names. Enough to say which entry differs; that nothing does is
#: what the whole hash over all of them says.
MARK_BYTES: Final = 8
KEY_BYTES: Final = 32

_DOMAIN: Final = b"crypto-payment-reconciler/seal/1\x00"
_encoder: Final = msgspec.json.Encoder(order="deterministic")


class SealRow(Struct):
    """A seal as it is stored: the bytes that were hashed, and the signature over their hash."""

    number: int
    body: bytes
    hash: bytes
    signature: bytes
    sealed_at: datetime


class Head(Message, frozen=True):
    """The last entry of a chain that moved since the seal before."""

    chain: str
    id: int
    hash: str


class SealBody(Message, frozen=True):
    """What a seal says. Hashes in hexadecimal.

    `spans` are the ids of the entries, as first and last of consecutive ones; `marks` the beginnings of
    their hashes, one behind the other; `digest` the SHA-256 of all hashes whole.
    """

    number: int
    previous: str
    sealed_at: datetime
    last_id: int
    spans: tuple[tuple[int, int], ...]
    marks: str
    digest: str
    heads: tuple[Head, ...]

    @property
    def entries(self) -> int:
        """Count what it covers."""
        return sum(last - first + 1 for first, last in self.spans)


class SealingKey:
    """Signs seals (Ed25519). Made of a seed of 32 bytes in hexadecimal."""

    def __init__(self, seed_hex: str) -> None:
        seed = bytes.fromhex(seed_hex)
        if len(seed) != KEY_BYTES:
            message = f"expected {KEY_BYTES} bytes in hexadecimal, found {len(seed)}"
            raise ValueError(message)
        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    def sign(self, seal_hash: bytes) -> bytes:
        """Sign a seal's hash."""
        return self._key.sign(_DOMAIN + seal_hash)

    @property
    def public_hex(self) -> str:
        """Give the key by which others verify."""
        return self._key.public_key().public_bytes_raw().hex()


class JournalMark(Struct):
    """What a seal takes of an entry."""

    id: int
    chain_key: str
    hash: bytes


def seal_hash(body: bytes) -> bytes:
    """Hash a seal's bytes."""
    return hashlib.sha256(_DOMAIN + body).digest()


def is_signed_by(row: SealRow, public_hex: str) -> bool:
    """Tell whether a seal's signature is that of a key."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_hex))
        key.verify(row.signature, _DOMAIN + row.hash)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_body(body: bytes) -> SealBody:
    """Read a seal's bytes. **Raises**: `msgspec.DecodeError`."""
    return msgspec.json.decode(body, type=SealBody)


async def horizon(work: Work) -> int:
    """Give the highest id up to which the journal is complete. Takes the lock until the commit."""
    await work.lock_journal(exclusive=True)
    found = await work.connection.execute(select(func.max(tables.journal.c.id)))
    return int(found.scalar_one_or_none() or 0)


async def last_seal(work: Work) -> SealRow | None:
    """Read the newest seal."""
    table = tables.seals
    statement = select(*columns_of(table, SealRow)).order_by(table.c.number.desc()).limit(1)
    found = await fetch(work, SealRow, statement)
    return found[0] if found else None


async def seals_after(work: Work, number: int, *, limit: int) -> Sequence[SealRow]:
    """Read seals behind a number, oldest first."""
    table = tables.seals
    statement = (
        select(*columns_of(table, SealRow))
        .where(table.c.number > number)
        .order_by(table.c.number)
        .limit(limit)
    )
    return await fetch(work, SealRow, statement)


async def has_seal(work: Work, number: int, hash_hex: str) -> bool:
    """Tell whether the database has a seal, and has it as it was made."""
    table = tables.seals
    found = await work.connection.execute(select(table.c.hash).where(table.c.number == number))
    return any(bytes(row[0]).hex() == hash_hex for row in found)


async def all_seals(work: Work) -> AsyncIterator[SealRow]:
    """Give every seal, oldest first."""
    number = 0
    while found := await seals_after(work, number, limit=20):
        for row in found:
            yield row
        number = found[-1].number


async def add_seal(
    work: Work, *, upto_id: int, key: SealingKey | None, now: datetime, limit: int = ENTRIES_MAX
) -> SealRow | None:
    """Seal the next entries up to an id; None when there are none.

    Without a key the seal is hashed and not signed: whoever can write the database could make another.
    """
    await work.lock_names(["seals"])
    before = await last_seal(work)
    after_id = read_body(before.body).last_id if before else 0
    entries = await _marks(work, after_id, upto_id, limit)
    if not entries:
        return None
    body = _body(entries, before, now)
    data = _encoder.encode(body)
    digest = seal_hash(data)
    row = SealRow(
        number=body.number,
        body=data,
        hash=digest,
        signature=key.sign(digest) if key else b"",
        sealed_at=now,
    )
    await insert(work.connection, tables.seals, [row])
    return row


async def _marks(work: Work, after_id: int, upto_id: int, limit: int) -> Sequence[JournalMark]:
    table = tables.journal
    statement = (
        select(*columns_of(table, JournalMark))
        .where(table.c.id > after_id, table.c.id <= upto_id)
        .order_by(table.c.id)
        .limit(limit)
    )
    return await fetch(work, JournalMark, statement)


def _body(entries: Sequence[JournalMark], before: SealRow | None, now: datetime) -> SealBody:
    heads = {entry.chain_key: entry for entry in entries}
    return SealBody(
        number=before.number + 1 if before else 1,
        previous=(before.hash if before else NO_HASH).hex(),
        sealed_at=now,
        last_id=entries[-1].id,
        spans=spans_of([entry.id for entry in entries]),
        marks="".join(entry.hash[:MARK_BYTES].hex() for entry in entries),
        digest=hashlib.sha256(b"".join(entry.hash for entry in entries)).hexdigest(),
        heads=tuple(
            Head(chain=chain, id=entry.id, hash=entry.hash.hex())
            for chain, entry in sorted(heads.items())
        ),
    )


def spans_of(ids: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Write rising ids as spans: a sequence leaves holes only where a transaction was rolled back."""
    spans: list[tuple[int, int]] = []
    for each in ids:
        if spans and spans[-1][1] + 1 == each:
            spans[-1] = (spans[-1][0], each)
        else:
            spans.append((each, each))
    return tuple(spans)
