"""Are the events that were told those that the journal says? Reads the journal's status entries and the
outbox; every event stands in both, once, and byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
from msgspec import Struct

from reconciler.audit.journal import Verified
from reconciler.services.announce import event_id
from reconciler.storage.pages import outbox_by_event, pages
from reconciler.storage.unit_of_work import Work
from reconciler.stream.topics import PAYMENT_EVENTS
from schemas.values import Message


class StatusEntry(Struct):
    """A journal entry of any kind, as far as events need it."""

    id: int
    kind: str
    body: bytes


class _Status(Message, frozen=True):
    """What a status entry says of its events: kinds, hashes, and the last one's sequence."""

    order: str
    sequence: int
    events: tuple[str, ...]
    sent: tuple[str, ...]


class _Promised(Struct, frozen=True):
    """One event that the journal says was told."""

    entry_id: int
    order: str
    sequence: int
    kind: str
    digest: str

    @property
    def event_id(self) -> str:
        """The id under which it stands in the outbox."""
        return event_id(self.order, self.sequence)


class OutboxEvent(Struct):
    """A message of the outbox, as far as it is compared."""

    id: int
    topic: str
    key: bytes
    type: str
    event_id: str
    value: bytes | None


async def verify_events(work: Work, tell: Callable[[int], None], verdict: Verified) -> int:
    """Compare every event, both ways; gives how many the journal promises."""
    last: dict[str, int] = {}
    count = 0
    async for promised, entries in _promised(work):
        await _compare(work, promised, last, verdict)
        count += len(promised)
        tell(entries)
    await _find_strangers(work, last, verdict)
    return count


async def _promised(work: Work) -> AsyncIterator[tuple[Sequence[_Promised], int]]:
    async for page in pages(work, StatusEntry, "journal", "id"):
        found = [each for entry in page if entry.kind == "status" for each in _events_of(entry)]
        yield found, len(page)


def _events_of(entry: StatusEntry) -> Sequence[_Promised]:
    try:
        status = msgspec.json.decode(entry.body, type=_Status)
    except msgspec.DecodeError:
        return ()  # an entry that was changed so far is named by its hash
    first = status.sequence - len(status.events) + 1
    return [
        _Promised(entry.id, status.order, first + number, kind, digest)
        for number, (kind, digest) in enumerate(zip(status.events, status.sent, strict=False))
    ]


async def _compare(
    work: Work, promised: Sequence[_Promised], last: dict[str, int], verdict: Verified
) -> None:
    names = [each.event_id for each in promised]
    found = await outbox_by_event(work, OutboxEvent, PAYMENT_EVENTS, names)
    told = {row.event_id: row for row in found}
    for each in promised:
        name = f"event {each.sequence} of {each.order}"
        if each.sequence != last.get(each.order, 0) + 1:
            verdict.blame(f"{name} (entry {each.entry_id}) does not follow the one before it")
        last[each.order] = each.sequence
        row = told.get(each.event_id)
        if row is None:
            verdict.blame(f"{name} (entry {each.entry_id}) was never told")
        elif row.type != f"payment.{each.kind}" or row.key != each.order.encode():
            verdict.blame(f"{name} was told as {row.type} to {row.key.decode(errors='replace')}")
        elif hashlib.sha256(row.value or b"").hexdigest() != each.digest:
            verdict.blame(f"{name} was told otherwise than entry {each.entry_id} says")


async def _find_strangers(work: Work, last: dict[str, int], verdict: Verified) -> None:
    """Name events that no entry promises."""
    async for page in pages(work, OutboxEvent, "outbox", "id"):
        for row in page:
            if row.topic != PAYMENT_EVENTS:
                continue
            order = row.key.decode(errors="replace")
            sequence = _sequence_of(row)
            known = 0 < sequence <= last.get(order, 0)
            if not known or row.event_id != event_id(order, sequence):
                verdict.blame(f"event {sequence} of {order} was told and no entry says so")


def _sequence_of(row: OutboxEvent) -> int:
    try:
        return msgspec.json.decode(row.value or b"", type=_Sequence).sequence
    except msgspec.DecodeError:
        return 0


class _Sequence(Message, frozen=True):
    sequence: int
