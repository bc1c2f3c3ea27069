"""What we tell the shop and operations. Topics `payment-events` and `payment-exceptions`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Raw

from schemas.amounts import BaseUnits
from schemas.caip import AssetId, ChainId
from schemas.codes import (
    AmountState,
    Attention,
    ClaimEnd,
    ExceptionKind,
    MatchRule,
    Phase,
    TransferState,
)
from schemas.values import (
    BlockRef,
    Count,
    FiatTerms,
    Height,
    Instant,
    LongText,
    Message,
    Reference,
    ShortText,
    TransferId,
)


class EventKind(StrEnum):
    """The last word of a payment event's type, `payment.<kind>`."""

    AWAITING = "awaiting"
    CLAIMED = "claimed"
    DETECTED = "detected"
    WITHDRAWN = "withdrawn"
    PARTIALLY_PAID = "partially_paid"
    CONFIRMED = "confirmed"
    UNDERPAID = "underpaid"
    EXPIRED = "expired"
    LATE = "late"
    ADJUSTED = "adjusted"
    REVERSED = "reversed"
    CANCELLED = "cancelled"


class EventTransfer(Message, frozen=True):
    """One transfer as this order sees it.

    `counted` is the part of `amount` that counts for the order: all of it, a person's share of it,
    or nothing. `depth` counts blocks of the transfer's own chain, the block itself being 1.
    """

    transfer: TransferId
    asset: AssetId
    amount: BaseUnits
    counted: BaseUnits
    state: TransferState
    block: BlockRef | None
    depth: Count
    depth_required: Count | None
    in_time: bool
    rule: MatchRule
    reason: ShortText


class EventClaim(Message, frozen=True):
    """One claim as this order sees it."""

    claimed_at: Instant
    transaction: ShortText | None
    end: ClaimEnd


class CoverageSeen(Message, frozen=True):
    """How far the order's chain was read when this was decided."""

    chain: ChainId
    height: Height | None
    time: Instant | None


class PaymentEvent(Message, frozen=True):
    """What is now true of an order. A consumer acts on the last `phase`, not on a count of events.

    `sequence` starts at 1 and has no gaps. `kind` says what changed, `phase` what holds now.
    `restores` names the sequence of the `confirmed` that this one restores after a `reversed`.
    Amounts are base units of `asset`, which has `decimals` decimals.
    """

    order: Reference
    purchase: ShortText | None
    sequence: Annotated[int, Meta(ge=1)]
    kind: EventKind
    phase: Phase
    amount_state: AmountState
    attention: tuple[Attention, ...]
    route: ShortText
    chain: ChainId
    asset: AssetId
    decimals: Count
    due: BaseUnits
    received_final: BaseUnits
    received_pending: BaseUnits
    missing: BaseUnits
    excess: BaseUnits
    address: ShortText
    payment_uri: LongText
    page_token: ShortText
    deadline: Instant
    open_until: Instant
    transfers: tuple[EventTransfer, ...]
    claims: tuple[EventClaim, ...]
    coverage: CoverageSeen
    restores: int | None
    reason: ShortText
    occurred_at: Instant
    fiat: FiatTerms | None
    lines: Raw


class Suggestion(Message, frozen=True):
    """An order that may explain a transfer, best first, with the reason."""

    order: Reference
    reason: LongText


class PaymentException(Message, frozen=True):
    """Something needs a person. The topic is compacted: the last one of an id is what holds now.

    One per (kind, subject). It closes by itself when its cause is gone.
    """

    exception: ShortText
    kind: ExceptionKind
    subject: ShortText
    open: bool
    revision: Annotated[int, Meta(ge=1)]
    sentence: LongText
    chain: ChainId | None
    asset: AssetId | None
    amount: BaseUnits | None
    transfer: TransferId | None
    order: Reference | None
    suggestions: tuple[Suggestion, ...]
    opened_at: Instant
    closed_at: Instant | None
    closed_by: LongText | None
