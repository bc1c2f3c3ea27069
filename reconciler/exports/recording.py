"""The messages of a run as `reconciler replay` takes them: JSON lines, in the order of application.

Reads the journal, the lanes' logs and what could not be applied. What changed nothing is not there: it
would change nothing again.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from reconciler.services.replay import outgoing_line
from reconciler.storage import recording
from reconciler.storage.pages import pages
from reconciler.storage.recording import (
    Applied,
    JournalledMessage,
    LaneMessage,
    Told,
    UnreadMessage,
    applied_messages,
)
from reconciler.storage.unit_of_work import Work
from reconciler.stream.topics import PAYMENT_EVENTS, PAYMENT_EXCEPTIONS
from schemas.codec import Line
from schemas.facts import BlockRetracted, Watermark
from schemas.values import Message

_TOLD: Final = (PAYMENT_EVENTS, PAYMENT_EXCEPTIONS)
_NULL: Final = Raw(b"null")
_TYPES: Final = {
    "watermark": Watermark.__name__,
    "gap": Watermark.__name__,
    "retraction": BlockRetracted.__name__,
}
_encoder: Final = msgspec.json.Encoder()


class _Body(Message, frozen=True):
    """A message as the journal keeps it."""

    topic: str
    partition: int
    key: str
    type: str
    time: datetime
    value: Raw


_decode_body: Final = msgspec.json.Decoder(_Body).decode
_decode_headers: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode

count_applied = recording.count_applied


async def applied_lines(work: Work) -> AsyncIterator[Line]:
    """Give everything that was applied, as lines."""
    async for message in applied_messages(work):
        yield line_of(message)


async def told_lines(work: Work) -> AsyncIterator[Line]:
    """Give every payment event and exception that was told, as lines."""
    async for page in pages(work, Told, "outbox", "id"):
        for row in page:
            if row.topic in _TOLD:
                yield outgoing_line(row)


async def count_told(work: Work) -> int:
    """Count what `told_lines` reads, for a progress bar."""
    return await recording.count_told(work, _TOLD)


def line_of(message: Applied) -> Line:
    """Write one message as it came. Its value is the bytes of then, or says them in base64."""
    if isinstance(message, JournalledMessage):
        body = _decode_body(message.body)
        return _with_value(
            Line(
                topic=body.topic,
                key=body.key,
                type=body.type,
                time=body.time,
                value=_NULL,
                partition=body.partition,
            ),
            bytes(body.value),
        )
    if isinstance(message, LaneMessage):
        return _lane_line(message)
    return _unread_line(message)


def write_line(line: Line) -> str:
    """Write a line, without its end."""
    return _encoder.encode(line).decode()


def _lane_line(message: LaneMessage) -> Line:
    topic, _, partition = message.lane.rpartition("/")
    told = message.inbox_until if message.kind != "retraction" else UNSET
    return _with_value(
        Line(
            topic=topic,
            key=message.key,
            type=_TYPES[message.kind],
            time=message.recorded_at,
            value=_NULL,
            inbox_until=told,
            partition=int(partition),
        ),
        message.value,
    )


def _unread_line(message: UnreadMessage) -> Line:
    """Keep the offset, by which its exception is named, and headers that could not be read."""
    topic, _, partition = message.lane.rpartition("/")
    headers = None
    if not message.type:
        headers = tuple((name, _base64(value)) for name, value in _decode_headers(message.headers))
    line = Line(
        topic=topic,
        key=message.key.decode(errors="replace"),
        type=message.type,
        time=message.recorded_at,
        value=_NULL,
        partition=int(partition),
        offset=message.offset,
        headers_base64=headers,
    )
    return _with_value(line, message.value)


def _with_value(line: Line, value: bytes) -> Line:
    """Put the bytes in as they are where a line can hold them, else as base64."""
    if _fits_a_line(value):
        return msgspec.structs.replace(line, value=Raw(value))
    return msgspec.structs.replace(line, value_base64=_base64(value))


def _fits_a_line(value: bytes) -> bool:
    """Tell whether bytes are JSON on one line, exactly as the reader of a line gives them back."""
    if b"\n" in value or b"\r" in value or value != value.strip():
        return False
    try:
        value.decode()
        msgspec.json.decode(value, type=Raw)
        msgspec.json.decode(value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
