"""The append-only journal: one entry per fact, decision and status, chained by hashes.

Entries chain per order, else per address or lane. The bytes that were hashed are the bytes stored.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from reconciler.storage.rows import JournalRow
from reconciler.storage.types import instant_text
from schemas.values import encode_hook

#: Says what the hash is over, so that no other bytes of ours can be taken for an entry.
_DOMAIN: Final = b"crypto-payment-reconciler/journal/1\x00"

_encoder = msgspec.json.Encoder(enc_hook=encode_hook, order="deterministic")


class Chained(Protocol):
    """A row that heads a chain of entries."""

    journal_hash: bytes


def entry_hash(
    previous_hash: bytes,
    body: bytes,
    *,
    chain_key: str,
    kind: str,
    seq: int,
    recorded_at: datetime,
) -> bytes:
    """Hash an entry: what came before it in its chain, all that its row says, and its bytes.

    No part before the body holds a zero byte, so that no two entries are hashed from the same bytes.
    """
    head = "\x00".join((chain_key, kind, str(seq), instant_text(recorded_at), ""))
    return hashlib.sha256(_DOMAIN + previous_hash + head.encode() + body).digest()


class JournalWriter:
    """Collects the entries of one unit of work and moves the heads of their chains."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []

    def add(
        self,
        *,
        seq: int,
        head: Chained,
        chain_key: str,
        kind: str,
        recorded_at: datetime,
        body: Any,
    ) -> None:
        """Append an entry behind the head of its chain."""
        data = _encoder.encode(body)
        digest = entry_hash(
            head.journal_hash,
            data,
            chain_key=chain_key,
            kind=kind,
            seq=seq,
            recorded_at=recorded_at,
        )
        self.rows.append(
            JournalRow(
                seq=seq,
                chain_key=chain_key,
                kind=kind,
                recorded_at=recorded_at,
                body=data,
                previous_hash=head.journal_hash,
                hash=digest,
            )
        )
        head.journal_hash = digest

    def take(self) -> list[JournalRow]:
        """Give what was collected and begin anew."""
        taken, self.rows = self.rows, []
        return taken
