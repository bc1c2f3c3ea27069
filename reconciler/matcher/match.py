"""The rules. A name, a symbol, a sender or a calldata decides nothing; a claim only ranks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.codes import ExceptionKind, MatchRule
from schemas.events import Suggestion
from schemas.values import OrderReference

SUGGESTIONS_MAX: Final = 5


class Share(Struct, frozen=True):
    """A part of a transfer for an order. **Units**: base units."""

    order: OrderReference
    amount: BaseUnits


class Reservation(Struct, frozen=True, kw_only=True):
    """A live amount on a shared address, since its order was placed (minus the chain's slack)."""

    order: OrderReference
    asset: AssetName
    chain: ChainName
    amount: BaseUnits
    since: datetime


class Candidate(Struct, frozen=True, kw_only=True):
    """An order that may explain a transfer, found by a claim."""

    order: OrderReference
    why: Literal["claimed_transaction", "named_sender"]


class MatchQuestion(Struct, frozen=True, kw_only=True):
    """One transfer and all that may bear on it.

    `owner` is the order of an own address. `decided` are shares that a person gave it to;
    `rejected` an order from which a person took it.
    """

    asset: AssetName
    chain: ChainName
    amount: BaseUnits
    first_time: datetime
    dust: int
    known_asset: bool
    owner: OrderReference | None
    owner_asset: AssetName | None
    owner_chain: ChainName | None
    reservations: Sequence[Reservation]
    candidates: Sequence[Candidate] = ()
    decided: Sequence[Share] = ()
    rejected: OrderReference | None = None


class Match(Struct, frozen=True, kw_only=True):
    """Whose it is and why. Without `shares` it is an open exception of kind `exception`.

    `exception` may stand beside shares: money in the wrong asset belongs to the address's order and
    still needs a person.
    """

    rule: MatchRule
    shares: tuple[Share, ...]
    reason: str
    exception: ExceptionKind | None = None
    suggestions: tuple[Suggestion, ...] = ()


def match_transfer(question: MatchQuestion) -> Match:
    """Find the order that a transfer pays. The same question gives the same answer."""
    if question.decided:
        return Match(
            rule=MatchRule.DECISION, shares=tuple(question.decided), reason="a person decided"
        )
    if question.owner is not None and question.owner != question.rejected:
        return _by_address(question, question.owner)
    if question.owner is None:
        reserved = _reserved(question)
        if len(reserved) == 1 and reserved[0].order != question.rejected:
            return Match(
                rule=MatchRule.RESERVED_AMOUNT,
                shares=(Share(reserved[0].order, question.amount),),
                reason=f"exactly {question.amount} is reserved for this order",
            )
    return _unmatched(question)


def _by_address(question: MatchQuestion, owner: OrderReference) -> Match:
    """An own address decides, whatever came on it; wrong money still needs a person."""
    exception = None
    reason = "the address belongs to this order alone"
    if question.chain != question.owner_chain:
        exception = ExceptionKind.WRONG_NETWORK
        reason = f"the order's address, on {question.chain} instead of {question.owner_chain}"
    elif question.asset != question.owner_asset:
        exception = ExceptionKind.WRONG_ASSET
        reason = f"the order's address, in {question.asset} instead of {question.owner_asset}"
    return Match(
        rule=MatchRule.ADDRESS,
        shares=(Share(owner, question.amount),),
        reason=reason,
        exception=exception,
    )


def _reserved(question: MatchQuestion) -> list[Reservation]:
    """Give the live reservations of exactly this asset, chain and amount that are old enough."""
    return [
        reservation
        for reservation in question.reservations
        if reservation.asset == question.asset
        and reservation.chain == question.chain
        and reservation.amount == question.amount
        and reservation.since <= question.first_time
    ]


def _unmatched(question: MatchQuestion) -> Match:
    suggestions = _suggestions(question)
    claimants = {c.order for c in question.candidates if c.why == "claimed_transaction"}
    kind, reason = ExceptionKind.UNMATCHED, "no rule leaves exactly one order"
    if question.rejected is not None:
        reason = "a person took it from its order"
    elif len(claimants) > 1:
        kind, reason = ExceptionKind.AMBIGUOUS, "several customers name this transaction"
    elif question.amount < question.dust:
        kind, reason = ExceptionKind.DUST, "below the asset's dust"
    elif _is_foreign(question):
        kind, reason = ExceptionKind.WRONG_ASSET, "no order on this address takes this asset here"
    return Match(
        rule=MatchRule.NONE,
        shares=(),
        reason=reason,
        exception=kind,
        suggestions=suggestions,
    )


def _is_foreign(question: MatchQuestion) -> bool:
    """Tell whether every order of a shared address takes another asset or chain."""
    if not question.reservations:
        return False
    return all(
        (r.asset, r.chain) != (question.asset, question.chain) for r in question.reservations
    )


def _suggestions(question: MatchQuestion) -> tuple[Suggestion, ...]:
    """Rank: a claimed transaction, a named sender, then the nearest reserved amounts."""
    words = {
        "claimed_transaction": "its customer names this transaction",
        "named_sender": "its customer named this sender",
    }
    ranked: dict[OrderReference, str] = {}
    for why in ("claimed_transaction", "named_sender"):
        for candidate in sorted(question.candidates, key=lambda c: c.order):
            if candidate.why == why:
                ranked.setdefault(candidate.order, words[why])
    near = sorted(
        (r for r in question.reservations if r.asset == question.asset),
        key=lambda r: (abs(r.amount - question.amount), r.order),
    )
    for reservation in near[:SUGGESTIONS_MAX]:
        difference = question.amount - reservation.amount
        ranked.setdefault(
            reservation.order,
            f"waits for {reservation.amount}; this is {abs(difference)} "
            f"{'more' if difference > 0 else 'less'}"
            if difference
            else "waits for this amount, but the transfer is older than the order",
        )
    return tuple(
        Suggestion(order=order, reason=reason)
        for order, reason in list(ranked.items())[:SUGGESTIONS_MAX]
    )


def reservation_since(placed_at: datetime, clock_slack_s: int) -> datetime:
    """Give the earliest block time that may pay an order on a shared address."""
    return placed_at - timedelta(seconds=clock_slack_s)
