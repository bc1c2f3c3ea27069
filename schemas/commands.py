"""Order commands: what the shop, its customer and a person tell us. Topic `orders`, keyed by order.

Amounts are plain text here and judged by the service, so that a bad one is refused by name
(`amount_exponent`) and not as unreadable JSON.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Raw, field

from schemas.values import (
    NO_LINES,
    FiatTerms,
    IdempotencyKey,
    Instant,
    LongText,
    Message,
    Reference,
    ShortText,
    TransferId,
)


class PlaceOrder(Message, frozen=True):
    """Open an order on a route. Its terms are frozen here.

    Exactly one of `amount` (base units, digits) and `amount_decimal` (`"25.50"`, the asset's scale).
    `address` only on a route whose deposit mode is `given`. `lines` is carried and never read.
    """

    idempotency_key: IdempotencyKey
    reference: Reference
    route: ShortText
    amount: ShortText | None = None
    amount_decimal: ShortText | None = None
    address: ShortText | None = None
    purchase: ShortText | None = None
    fiat: FiatTerms | None = None
    lines: Raw = field(default_factory=lambda: NO_LINES)


class ClaimPaid(Message, frozen=True):
    """The customer pressed "I've paid". Evidence, never proof: transaction ids are public."""

    idempotency_key: IdempotencyKey
    reference: Reference
    transaction: LongText | None = None
    sender: LongText | None = None


class CancelOrder(Message, frozen=True):
    """The shop withdraws the order. Refused `money_pending` when money was seen, unless forced."""

    idempotency_key: IdempotencyKey
    reference: Reference
    reason: LongText
    force: bool = False


class AmendOrder(Message, frozen=True):
    """New terms for an order that is not confirmed: amount, a later deadline, lines."""

    idempotency_key: IdempotencyKey
    reference: Reference
    amount: ShortText | None = None
    amount_decimal: ShortText | None = None
    deadline: Instant | None = None
    #: Raw JSON cannot be "or nothing" for the decoder: `null` is what stands for nothing.
    lines_json: Raw = field(name="lines", default_factory=lambda: Raw(b"null"))

    @property
    def lines(self) -> Raw | None:
        """The new lines, or None when they stay as they are."""
        return None if bytes(self.lines_json) == b"null" else self.lines_json


class Part(Message, frozen=True):
    """A share of one transfer, in base units, for one order."""

    reference: Reference
    amount: ShortText


class Assign(Message, frozen=True, tag="assign", tag_field="action"):
    """This transfer pays this order."""

    transfer: TransferId
    reference: Reference


class Split(Message, frozen=True, tag="split", tag_field="action"):
    """This transfer pays several orders; the parts add up to it exactly."""

    transfer: TransferId
    parts: Annotated[tuple[Part, ...], Meta(min_length=2, max_length=100)]


class AcceptShort(Message, frozen=True, tag="accept_short", tag_field="action"):
    """What came is enough for this order."""

    reference: Reference


class Revive(Message, frozen=True, tag="revive", tag_field="action"):
    """Count late money for an order that ended expired or underpaid."""

    reference: Reference


class Reject(Message, frozen=True, tag="reject", tag_field="action"):
    """This transfer does not pay the order that it was given to; it stays as an open exception."""

    transfer: TransferId


class Returned(Message, frozen=True, tag="returned", tag_field="action"):
    """The money was sent back, by this transaction."""

    transfer: TransferId
    tx: ShortText


class WriteOff(Message, frozen=True, tag="write_off", tag_field="action"):
    """Nobody will claim this transfer."""

    transfer: TransferId


class Close(Message, frozen=True, tag="close", tag_field="action"):
    """This exception is settled."""

    exception: ShortText


class Undo(Message, frozen=True, tag="undo", tag_field="action"):
    """Take an earlier decision back, by its idempotency key."""

    decision: IdempotencyKey


class Hold(Message, frozen=True, tag="hold", tag_field="action"):
    """Let facts flow, but neither confirm nor expire on this chain, asset or route."""

    subject: ShortText


class Release(Message, frozen=True, tag="release", tag_field="action"):
    """End a hold."""

    subject: ShortText


Action = (
    Assign
    | Split
    | AcceptShort
    | Revive
    | Reject
    | Returned
    | WriteOff
    | Close
    | Undo
    | Hold
    | Release
)


Blank = Literal["actor", "reason", "transaction"]


class Decide(Message, frozen=True):
    """A person's decision, with name and reason. An input like any fact.

    Refused `actor_missing` or `reason_missing` where either holds nothing that can be read, and so is
    `transaction_missing` what was sent back by no transaction.
    """

    idempotency_key: IdempotencyKey
    actor: Annotated[str, Meta(min_length=1, max_length=200)]
    reason: Annotated[str, Meta(min_length=1, max_length=2_000)]
    action: Action

    @property
    def blanks(self) -> Sequence[Blank]:
        """Name what holds nothing that can be read: blanks, control and format characters alone."""
        texts: dict[Blank, str] = {"actor": self.actor, "reason": self.reason}
        if isinstance(self.action, Returned):
            texts["transaction"] = self.action.tx
        return [name for name, text in texts.items() if not _is_readable(text)]


def _is_readable(text: str) -> bool:
    return any(unicodedata.category(letter)[0] not in "CZ" for letter in text)


OrderCommand = PlaceOrder | ClaimPaid | CancelOrder | AmendOrder | Decide
