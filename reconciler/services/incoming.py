"""A record of a lane, read: what the services apply. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Raw, Struct

from reconciler.stream.promise import Record
from schemas.codec import UnknownKind, UnreadableMessage, decode
from schemas.envelope import Envelope, EnvelopeError, Headers, from_headers
from schemas.values import Message


class LaneStoppedError(Exception):
    """A lane carries a kind of fact that this version does not know: an upgrade must come first."""


class Incoming(Struct, frozen=True, kw_only=True):
    """One record. Without `message` it could not be read, and `why` says so in words."""

    topic: str
    partition: int
    offset: int
    key: bytes
    type: str
    headers: Headers
    value: bytes
    recorded_at: datetime
    message: Message | None
    why: str = ""
    unknown_type: bool = False

    @property
    def key_text(self) -> str:
        """The key as text; what is not UTF-8 or cannot be kept as text is shown as such."""
        return self.key.decode(errors="replace").replace("\x00", "\ufffd")


def read_record(record: Record, kinds: dict[str, type[Message]]) -> Incoming:
    """Read a record of a topic that carries these kinds. Never raises: what is wrong is in `why`."""
    message: Message | None = None
    why, type_name, unknown = "", "", False
    try:
        envelope: Envelope = from_headers(record.headers, default_time=record.time)
        type_name = envelope.type
        message = decode(type_name, record.value or b"", kinds)
        if b"\\u0000" in (record.value or b"") and _holds_nul(message):
            message, why = None, "a text holds a NUL character, which no database keeps"
    except EnvelopeError as error:
        why = str(error)
    except UnknownKind as error:
        why, unknown = str(error), True
    except UnreadableMessage as error:
        why = str(error)
    return Incoming(
        topic=record.lane.topic,
        partition=record.lane.partition,
        offset=record.offset,
        key=record.key,
        type=type_name.replace("\x00", "\ufffd"),
        headers=record.headers,
        value=record.value or b"",
        recorded_at=record.time,
        message=message,
        why=why,
        unknown_type=unknown,
    )


def _holds_nul(value: object) -> bool:
    """Tell whether a text anywhere in a message holds U+0000; carried lines are not looked into."""
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, tuple | list):
        return any(_holds_nul(part) for part in value)
    if isinstance(value, Struct):
        return any(_holds_nul(getattr(value, field)) for field in value.__struct_fields__)
    return False


def journal_body(item: Incoming) -> dict[str, object]:
    """Write a record as the journal keeps it: enough to apply it again, byte for byte."""
    return {
        "topic": item.topic,
        "partition": item.partition,
        "offset": item.offset,
        "key": item.key_text,
        "type": item.type,
        "time": item.recorded_at,
        "value": Raw(item.value),
    }


def read_journal_value(body: bytes) -> dict[str, Raw]:
    """Read a journal entry's fields without touching its values."""
    return msgspec.json.decode(body, type=dict[str, Raw])
