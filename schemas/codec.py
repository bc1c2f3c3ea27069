"""Between typed messages and bytes: one table of kinds, one encoder, one decoder a kind."""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

from schemas import commands, events, facts, requests
from schemas.values import Count, Instant, Message, decode_hook, encode_hook

M = TypeVar("M", bound=Message)

#: Written as `ce_type`; the name of the struct for what comes in …
FACT_KINDS: Final[dict[str, type[Message]]] = {
    kind.__name__: kind
    for kind in (
        facts.TransferSeen,
        facts.TransferDropped,
        facts.BlockRetracted,
        facts.Watermark,
        facts.AddressCovered,
        facts.TransactionLookedUp,
        facts.BalanceSeen,
    )
}
COMMAND_KINDS: Final[dict[str, type[Message]]] = {
    kind.__name__: kind
    for kind in (
        commands.PlaceOrder,
        commands.ClaimPaid,
        commands.CancelOrder,
        commands.AmendOrder,
        commands.Decide,
    )
}
REQUEST_KINDS: Final[dict[str, type[Message]]] = {
    kind.__name__: kind
    for kind in (
        requests.WatchAddress,
        requests.LookUpTransaction,
        requests.ReadAgain,
        requests.SeeBalance,
        requests.ReleaseReorganisation,
    )
}
#: … and `payment.<kind>` for what goes out.
EVENT_KINDS: Final[dict[str, type[Message]]] = {
    f"payment.{kind.value}": events.PaymentEvent for kind in events.EventKind
}
EXCEPTION_KINDS: Final[dict[str, type[Message]]] = {"PaymentException": events.PaymentException}

ALL_KINDS: Final[dict[str, type[Message]]] = {
    **FACT_KINDS,
    **COMMAND_KINDS,
    **REQUEST_KINDS,
    **EVENT_KINDS,
    **EXCEPTION_KINDS,
}

_encoder = msgspec.json.Encoder(enc_hook=encode_hook, order="deterministic")
_decoders: dict[type[Message], msgspec.json.Decoder[Message]] = {
    kind: msgspec.json.Decoder(kind, dec_hook=decode_hook) for kind in set(ALL_KINDS.values())
}


class UnreadableMessage(ValueError):
    """The bytes are not what their kind promises; the text says where and why."""


class UnknownKind(ValueError):
    """No message has this type. A stream of ours stops at one; a shop's command is refused."""


def encode(message: Message) -> bytes:
    """Write a message; equal messages give equal bytes, as long as their instants are in UTC."""
    return _encoder.encode(message)


#: No message of ours nests deeper; a shop's lines may, a little.
NESTING_MAX: Final = 200
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def _is_too_deep(value: bytes) -> bool:
    """Tell whether JSON nests deeper than we read, whatever a library does to Python's own limit."""
    if value.count(b"[") + value.count(b"{") <= NESTING_MAX:
        return False
    depth = 0
    for found in _BRACKETS.finditer(value):
        token = found[0]
        if token in {b"[", b"{"}:
            depth += 1
            if depth > NESTING_MAX:
                return True
        elif token in {b"]", b"}"}:
            depth -= 1
    return False


def decode_as(kind: type[M], value: bytes) -> M:
    """Read a message of a kind that the caller knows. **Raises**: `UnreadableMessage`."""
    if _is_too_deep(value):
        message = f"JSON is nested deeper than {NESTING_MAX}"
        raise UnreadableMessage(message)
    try:
        found = _decoders[kind].decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnreadableMessage(str(error).replace(", got ", ", found ")) from error
    if not isinstance(found, kind):
        message = f"expected {kind.__name__}, found {type(found).__name__}"
        raise UnreadableMessage(message)
    return found


def decode(type_name: str, value: bytes, kinds: dict[str, type[Message]]) -> Message:
    """Read a message by its `ce_type`, of the kinds that the topic may carry.

    **Raises**: `UnknownKind`, `UnreadableMessage`.
    """
    kind = kinds.get(type_name)
    if kind is None:
        message = f"expected one of {', '.join(sorted(kinds))}, found {type_name[:80]!r}"
        raise UnknownKind(message)
    return decode_as(kind, value)


def kind_name(message: Message) -> str:
    """Give the `ce_type` under which a message travels."""
    if isinstance(message, events.PaymentEvent):
        return f"payment.{message.kind.value}"
    return type(message).__name__


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message as a line of a `replay` file.

    `inbox_until` on a watermark's line: up to when `orders` had been applied, null when it never was;
    without it the file's own order says it. `partition` is the lane that it came from; without one the
    key says it, and what speaks for a whole chain is taken for every lane. `offset` names a message
    that could not be read. `value_base64` stands in for a value that is no JSON on one line,
    `headers_base64` for headers that could not be read.
    """

    topic: str
    key: str
    type: str
    time: Instant
    value: msgspec.Raw
    inbox_until: Instant | msgspec.UnsetType | None = msgspec.UNSET
    partition: Count | None = None
    offset: Count | None = None
    value_base64: str | None = None
    headers_base64: tuple[tuple[str, str], ...] | None = None
