"""CloudEvents 1.0, Kafka protocol binding, binary mode: the value is the data, the rest are headers.

**Source**: cloudevents/spec, `kafka-protocol-binding.md`, section 3.2 (read 2026-07-23).
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from schemas.values import utc

SPEC_VERSION = "1.0"
SOURCE = "urn:crypto-payment-reconciler"
CONTENT_TYPE = "application/json"

#: Longer than any that we give; Python refuses to read numbers of thousands of digits.
_SEQUENCE = re.compile(r"[0-9]{1,18}", re.ASCII)

Headers = tuple[tuple[str, bytes], ...]


class Envelope(Struct, frozen=True, kw_only=True):
    """The context attributes of one message. Equal (source, id) means the same event again."""

    id: str
    type: str
    time: datetime
    subject: str | None = None
    sequence: int | None = None


class EnvelopeError(ValueError):
    """The headers are not those of a CloudEvent in binary mode."""


def to_headers(envelope: Envelope) -> Headers:
    """Write the context attributes as Kafka headers."""
    fields = {
        "content-type": CONTENT_TYPE,
        "ce_specversion": SPEC_VERSION,
        "ce_source": SOURCE,
        "ce_id": envelope.id,
        "ce_type": envelope.type,
        "ce_time": format_instant(envelope.time),
    }
    if envelope.subject is not None:
        fields["ce_subject"] = envelope.subject
    if envelope.sequence is not None:
        fields["ce_sequence"] = str(envelope.sequence)
    return tuple((name, text.encode()) for name, text in fields.items())


def from_headers(headers: Headers, *, default_time: datetime) -> Envelope:
    """Read the context attributes.

    A shop's client may leave out all but `ce_type`; an id is then of no use to us (commands carry
    an idempotency key) and the time is that of the record.

    **Raises**: `EnvelopeError` when `ce_type` is missing or a header is not UTF-8.
    """
    try:
        found = {name.lower(): value.decode() for name, value in headers if value is not None}
    except UnicodeDecodeError as error:
        message = f"a header is not UTF-8: {error}"
        raise EnvelopeError(message) from error
    if "ce_type" not in found:
        message = "the header ce_type is missing"
        raise EnvelopeError(message)
    sequence = found.get("ce_sequence", "")
    return Envelope(
        id=found.get("ce_id", ""),
        type=found["ce_type"],
        time=_instant(found.get("ce_time"), default_time),
        subject=found.get("ce_subject"),
        sequence=int(sequence) if _SEQUENCE.fullmatch(sequence) else None,
    )


def derived_id(*parts: str) -> str:
    """Compute an event's id from facts, so that a replay makes the same and is dropped."""
    text = "\x1f".join(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@lru_cache(maxsize=1_024)  # the messages of a batch share a few instants
def format_instant(moment: datetime) -> str:
    """Write an instant as RFC 3339 in UTC with a Z."""
    return utc(moment).isoformat().replace("+00:00", "Z")


def _instant(text: str | None, default: datetime) -> datetime:
    """Read an RFC 3339 time; a bad one says nothing, and the record's own time stands."""
    if text is None:
        return default
    try:
        return utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):  # also one without a zone, and one before the year 1
        return default
