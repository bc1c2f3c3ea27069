"""Small values that several messages share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, NewType

from msgspec import Meta, Raw, Struct

from schemas.amounts import BaseUnits, parse_base_units
from schemas.caip import END

TransferName = NewType("TransferName", str)
OrderReference = NewType("OrderReference", str)

#: An aware instant; RFC 3339 on the wire.
Instant = Annotated[datetime, Meta(tz=True)]
Height = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
#: **Units**: characters. What we write ourselves is cut to these (`cut`), what comes in is refused.
SHORT_TEXT_MAX: Final = 256
LONG_TEXT_MAX: Final = 2_000
ShortText = Annotated[str, Meta(max_length=SHORT_TEXT_MAX)]
LongText = Annotated[str, Meta(max_length=LONG_TEXT_MAX)]
#: A shop's own name for an order. Printable, so that it can stand in a log, a URL and a statement.
Reference = Annotated[
    OrderReference, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:@+~-]+" + END)
]
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+" + END)]
DecimalText = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,77})(\.[0-9]{1,77})?" + END)]

#: `<chain>/<tx id>/<position>`, position as DESIGN section 5 lists them. No longer than a short text,
#: for it stands where one does: as the subject of an exception.
#: One spelling a position: another one would be a second identity of the same money.
_NUMBER: Final = "(0|[1-9][0-9]*)"
_CHAIN: Final = r"[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}"
_POSITION: Final = rf"((out|log|bal):{_NUMBER}|value|call:{_NUMBER}(\.{_NUMBER})*)"
TransferId = Annotated[
    TransferName,
    Meta(max_length=SHORT_TEXT_MAX, pattern=rf"^{_CHAIN}/[^/ ]{{1,128}}/{_POSITION}" + END),
]

NO_LINES: Final = Raw(b"[]")


class Message(Struct, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    """What every message is: frozen, by keyword, and deaf to fields that it does not know."""


class BlockRef(Message, frozen=True):
    """One block. `time` is what the chain wrote in it, not when we saw it."""

    height: Height
    hash: ShortText
    time: Instant


class ParentRef(Message, frozen=True):
    """The block that coverage falls back to when its child is retracted."""

    height: Height
    hash: ShortText


class FiatTerms(Message, frozen=True):
    """What the order costs in the shop's own money, with the rate that the shop fixed.

    Kept as evidence for finance; nothing is ever decided by it.
    """

    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}" + END)]
    amount: DecimalText
    rate: DecimalText
    rate_source: ShortText
    rate_at: Instant


def transfer_id(chain: str, tx: str, position: str) -> TransferName:
    """Compute a transfer's identity from facts of the chain alone, so that a replay makes the same."""
    return TransferName(f"{chain}/{tx}/{position}")


def split_transfer_id(name: str) -> tuple[str, str, str]:
    """Give (chain, tx, position) of a transfer id."""
    chain, tx, position = name.split("/")
    return chain, tx, position


def cut(text: str, characters_max: int) -> str:
    """Cut a text to what its field promises, and show that it was cut."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def utc(moment: datetime) -> datetime:
    """Turn an aware instant to UTC. **Raises**: ValueError for a naive one."""
    if moment.tzinfo is None:
        message = f"expected an aware instant, found {moment!r}"
        raise ValueError(message)
    return moment.astimezone(UTC)


def encode_hook(value: Any) -> Any:
    """Tell msgspec how our own types look on the wire."""
    if isinstance(value, BaseUnits):
        return str(int(value))
    message = f"no wire form for {type(value).__name__}"
    raise NotImplementedError(message)


def decode_hook(kind: type, value: Any) -> Any:
    """Tell msgspec how to read our own types. It adds to a ValueError where the value stood."""
    if kind is BaseUnits:
        if not isinstance(value, str):
            message = f"expected digits in a string, found {type(value).__name__}"
            raise ValueError(message)
        return parse_base_units(value)
    message = f"no reader for {kind.__name__}"
    raise NotImplementedError(message)
