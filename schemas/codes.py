"""Every code that the service says, each with a sentence for people. One table, one meaning a code."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where an order stands. Decided by `reconciler.lifecycle`."""

    AWAITING_PAYMENT = "awaiting_payment"
    CLAIMED = "claimed"
    DETECTED = "detected"
    PARTIALLY_PAID = "partially_paid"
    CONFIRMED = "confirmed"
    REVERSED = "reversed"
    UNDERPAID = "underpaid"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class AmountState(StrEnum):
    """What came, beside what was due."""

    NONE = "none"
    SHORT = "short"
    EXACT = "exact"
    OVER = "over"


class TransferState(StrEnum):
    """What the chain says of a transfer."""

    SEEN = "seen"
    INCLUDED = "included"
    FINAL = "final"
    RETRACTED = "retracted"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


class MatchRule(StrEnum):
    """Why a transfer belongs to an order."""

    DECISION = "decision"
    ADDRESS = "address"
    RESERVED_AMOUNT = "reserved_amount"
    NONE = "none"


class Attention(StrEnum):
    """What needs a person or explains a wait."""

    AMBIGUOUS = "ambiguous"
    LATE = "late"
    WRONG_ASSET = "wrong_asset"
    WRONG_NETWORK = "wrong_network"
    CLAIMED_UNSEEN = "claimed_unseen"
    HELD = "held"
    RETRACTED = "retracted"
    PENDING_AT_END = "pending_at_end"
    OVERPAID = "overpaid"
    IMPLAUSIBLE_AMOUNT = "implausible_amount"
    PAID_TWICE = "paid_twice"
    PAID_UNFLAGGED = "paid_unflagged"
    NOT_COVERED = "not_covered"
    UNREADABLE_FACT = "unreadable_fact"
    BALANCE_DIFFERS = "balance_differs"
    SIBLING_CONFIRMED = "sibling_confirmed"
    ACCEPTED_SHORT = "accepted_short"
    REVIVED = "revived"


class ExceptionKind(StrEnum):
    """A transfer, claim, order or fact that needs a person."""

    UNMATCHED = "unmatched"
    AMBIGUOUS = "ambiguous"
    WRONG_ASSET = "wrong_asset"
    WRONG_NETWORK = "wrong_network"
    LATE = "late"
    PAID_TWICE = "paid_twice"
    OVERPAID = "overpaid"
    UNDERPAID = "underpaid"
    IMPLAUSIBLE_AMOUNT = "implausible_amount"
    DUST = "dust"
    CLAIMED_UNSEEN = "claimed_unseen"
    CLAIM_ALREADY_USED = "claim_already_used"
    REVERSED = "reversed"
    NOT_WATCHED = "not_watched"
    UNREADABLE_FACT = "unreadable_fact"
    COVERAGE_GAP = "coverage_gap"
    DEEP_REORGANISATION = "deep_reorganisation"
    PENDING_AT_END = "pending_at_end"
    PAID_UNFLAGGED = "paid_unflagged"
    BALANCE_DIFFERS = "balance_differs"


class ClaimEnd(StrEnum):
    """How a claimed transaction id ended."""

    OPEN = "open"
    USED = "used"
    PAYS_NOTHING = "pays_nothing"
    ALREADY_USED = "already_used"
    BEFORE_THE_ORDER = "before_the_order"
    REPLACED = "replaced"
    OTHER_CHAIN = "other_chain"
    SUPERSEDED = "superseded"
    UNSEEN = "unseen"
    JUNK = "junk"


class Rejection(StrEnum):
    """Why a command was refused."""

    UNREADABLE = "unreadable"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_ORDER = "unknown_order"
    UNKNOWN_ROUTE = "unknown_route"
    UNKNOWN_TRANSFER = "unknown_transfer"
    UNKNOWN_DECISION = "unknown_decision"
    UNKNOWN_EXCEPTION = "unknown_exception"
    ROUTE_CLOSED = "route_closed"
    REFERENCE_IN_USE = "reference_in_use"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    AMOUNT_MALFORMED = "amount_malformed"
    AMOUNT_NEGATIVE = "amount_negative"
    AMOUNT_FRACTION = "amount_fraction"
    AMOUNT_EXPONENT = "amount_exponent"
    AMOUNT_ZERO = "amount_zero"
    AMOUNT_BELOW_MINIMUM = "amount_below_minimum"
    AMOUNT_TOO_LARGE = "amount_too_large"
    AMOUNT_MISSING = "amount_missing"
    ADDRESS_MALFORMED = "address_malformed"
    ADDRESS_CHECKSUM = "address_checksum"
    ADDRESS_WRONG_CHAIN = "address_wrong_chain"
    ADDRESS_MISSING = "address_missing"
    ADDRESS_NOT_TAKEN = "address_not_taken"
    ADDRESS_IN_USE = "address_in_use"
    NO_FREE_ADDRESS = "no_free_address"
    NO_FREE_AMOUNT = "no_free_amount"
    TOO_MANY_CLAIMS = "too_many_claims"
    ORDER_ENDED = "order_ended"
    ORDER_CONFIRMED = "order_confirmed"
    MONEY_PENDING = "money_pending"
    DEADLINE_NOT_LATER = "deadline_not_later"
    DEADLINE_TOO_FAR = "deadline_too_far"
    NOTHING_TO_AMEND = "nothing_to_amend"
    LINES_TOO_LARGE = "lines_too_large"
    PARTS_DO_NOT_ADD_UP = "parts_do_not_add_up"
    WRONG_ASSET = "wrong_asset"
    NOT_REVIVABLE = "not_revivable"
    NOTHING_TO_ACCEPT = "nothing_to_accept"
    ACTOR_MISSING = "actor_missing"
    REASON_MISSING = "reason_missing"
    TRANSACTION_MISSING = "transaction_missing"
    ALREADY_UNDONE = "already_undone"
    DECISION_NOT_POSSIBLE = "decision_not_possible"


_TABLE: Final[list[tuple[StrEnum, str]]] = [
    (Phase.AWAITING_PAYMENT, "Nothing has been seen yet."),
    (Phase.CLAIMED, "The customer says they have paid; nothing has been seen yet."),
    (Phase.DETECTED, "A payment is seen and is not final yet."),
    (Phase.PARTIALLY_PAID, "Part of the amount is final; the rest may still be paid."),
    (Phase.CONFIRMED, "The payment is final and sufficient."),
    (Phase.REVERSED, "What confirmed this order was taken away: by the chain, or by a person."),
    (Phase.UNDERPAID, "The time to pay is over and too little came."),
    (Phase.EXPIRED, "The time to pay is over and nothing came."),
    (Phase.CANCELLED, "The order was withdrawn."),
    (AmountState.NONE, "Nothing counted has come."),
    (AmountState.SHORT, "Less than the amount due has come."),
    (AmountState.EXACT, "Exactly the amount due has come."),
    (AmountState.OVER, "More than the amount due has come."),
    (TransferState.SEEN, "In the mempool; it can still be replaced."),
    (TransferState.INCLUDED, "In a block that can still be reorganised away."),
    (TransferState.FINAL, "Deep enough to count."),
    (TransferState.RETRACTED, "Its block left the chain; it may be mined again."),
    (TransferState.DROPPED, "It can no longer be mined."),
    (TransferState.UNKNOWN, "No node has announced it for a while."),
    (MatchRule.DECISION, "A person said that this transfer pays this order."),
    (MatchRule.ADDRESS, "The address belongs to this order alone."),
    (
        MatchRule.RESERVED_AMOUNT,
        "On the shared address this exact amount was reserved for this order.",
    ),
    (MatchRule.NONE, "No rule leaves exactly one order."),
    (Attention.AMBIGUOUS, "Several orders explain a transfer equally well; a person decides."),
    (Attention.LATE, "Money came after the time to pay; it is kept and not counted by itself."),
    (Attention.WRONG_ASSET, "Money came in another asset than the order's."),
    (Attention.WRONG_NETWORK, "Money came to the order's address on another network."),
    (Attention.CLAIMED_UNSEEN, "The customer says they have paid and nothing was seen in time."),
    (Attention.HELD, "The decision waits: the chain cannot be seen, or a hold is set."),
    (
        Attention.RETRACTED,
        "A block with a payment left the chain; we wait for it to be mined again.",
    ),
    (Attention.PENDING_AT_END, "The order ended while a payment was still not final."),
    (Attention.OVERPAID, "More came than was due, above the shop's limit."),
    (Attention.IMPLAUSIBLE_AMOUNT, "A transfer is too large to be believed; it is not counted."),
    (Attention.PAID_TWICE, "Money came for a purchase that another order already paid."),
    (Attention.PAID_UNFLAGGED, "The exact amount came but the customer has not said so."),
    (Attention.NOT_COVERED, "The address was not yet searched back to the time of the order."),
    (Attention.UNREADABLE_FACT, "A fact about this address could not be applied."),
    (Attention.BALANCE_DIFFERS, "The address holds another amount than the transfers explain."),
    (Attention.SIBLING_CONFIRMED, "Another order of the same purchase was paid."),
    (Attention.ACCEPTED_SHORT, "A person accepted what came as enough."),
    (Attention.REVIVED, "A person, or the route's rule, counted late money."),
    (ExceptionKind.UNMATCHED, "Money came to an address of ours and no order explains it."),
    (ExceptionKind.AMBIGUOUS, "Money came that several orders explain equally well."),
    (ExceptionKind.WRONG_ASSET, "Money came in a known asset that the order does not take."),
    (ExceptionKind.WRONG_NETWORK, "Money came to an order's address on another network."),
    (ExceptionKind.LATE, "Money came after the time to pay or after the order's end."),
    (ExceptionKind.PAID_TWICE, "Money came for something that was already paid."),
    (ExceptionKind.OVERPAID, "More came than was due, above the shop's limit."),
    (ExceptionKind.UNDERPAID, "An order ended with money that is too little."),
    (ExceptionKind.IMPLAUSIBLE_AMOUNT, "A transfer is too large to be believed."),
    (ExceptionKind.DUST, "Very small transfers came; they are kept and not counted."),
    (ExceptionKind.CLAIMED_UNSEEN, "A customer says they have paid and nothing was seen."),
    (ExceptionKind.CLAIM_ALREADY_USED, "A customer names a transaction that paid another order."),
    (ExceptionKind.REVERSED, "A payment that had been confirmed was taken away."),
    (ExceptionKind.NOT_WATCHED, "An address has not been searched back for too long."),
    (ExceptionKind.UNREADABLE_FACT, "A fact could not be applied and is kept as it came."),
    (ExceptionKind.COVERAGE_GAP, "Blocks are missing between two watermarks; the chain is held."),
    (ExceptionKind.DEEP_REORGANISATION, "A chain wants to take back more blocks than it may."),
    (ExceptionKind.PENDING_AT_END, "An order ended while a payment was not final."),
    (ExceptionKind.PAID_UNFLAGGED, "An exact amount came that no customer has claimed."),
    (ExceptionKind.BALANCE_DIFFERS, "An address holds another amount than its transfers explain."),
    (ClaimEnd.OPEN, "We are looking for this transaction."),
    (ClaimEnd.USED, "The transaction pays this order."),
    (ClaimEnd.PAYS_NOTHING, "The transaction was found and pays us nothing."),
    (ClaimEnd.ALREADY_USED, "The transaction already paid another order."),
    (ClaimEnd.BEFORE_THE_ORDER, "The transaction is older than the order."),
    (ClaimEnd.REPLACED, "The transaction was replaced by another."),
    (ClaimEnd.OTHER_CHAIN, "The transaction was found on another network."),
    (ClaimEnd.SUPERSEDED, "The customer named another transaction later."),
    (ClaimEnd.UNSEEN, "The transaction was not found in time."),
    (ClaimEnd.JUNK, "This is not a transaction id."),
    (Rejection.UNREADABLE, "The message cannot be read."),
    (Rejection.UNKNOWN_TYPE, "No command has this type."),
    (Rejection.UNKNOWN_ORDER, "No order has this reference."),
    (Rejection.UNKNOWN_ROUTE, "No route has this name."),
    (Rejection.UNKNOWN_TRANSFER, "No transfer has this id."),
    (Rejection.UNKNOWN_DECISION, "No decision has this key."),
    (Rejection.UNKNOWN_EXCEPTION, "No exception has this id."),
    (Rejection.ROUTE_CLOSED, "The route takes no orders."),
    (Rejection.REFERENCE_IN_USE, "Another order has this reference."),
    (Rejection.IDEMPOTENCY_CONFLICT, "This idempotency key was used with other content."),
    (Rejection.AMOUNT_MALFORMED, "The amount is not a number in digits."),
    (Rejection.AMOUNT_NEGATIVE, "The amount is negative."),
    (Rejection.AMOUNT_FRACTION, "The amount is finer than one base unit."),
    (Rejection.AMOUNT_EXPONENT, "The amount is written with an exponent."),
    (Rejection.AMOUNT_ZERO, "The amount is zero."),
    (Rejection.AMOUNT_BELOW_MINIMUM, "The amount is below the asset's minimum."),
    (Rejection.AMOUNT_TOO_LARGE, "The amount is above what the asset can hold."),
    (Rejection.AMOUNT_MISSING, "Give exactly one of amount and amount_decimal."),
    (Rejection.ADDRESS_MALFORMED, "This is not an address."),
    (Rejection.ADDRESS_CHECKSUM, "The address has a wrong checksum."),
    (Rejection.ADDRESS_WRONG_CHAIN, "The address belongs to another chain."),
    (Rejection.ADDRESS_MISSING, "This route needs an address with each order."),
    (Rejection.ADDRESS_NOT_TAKEN, "This route chooses the address itself."),
    (Rejection.ADDRESS_IN_USE, "The address belongs to another order."),
    (Rejection.NO_FREE_ADDRESS, "The route's key has no address left that nobody was given."),
    (Rejection.NO_FREE_AMOUNT, "Every amount near this one is reserved on the shared address."),
    (Rejection.TOO_MANY_CLAIMS, "The order has as many claimed transactions as it may have."),
    (Rejection.ORDER_ENDED, "The order has ended."),
    (Rejection.ORDER_CONFIRMED, "The order is confirmed."),
    (Rejection.MONEY_PENDING, "Money for this order was seen; force the cancellation to go on."),
    (Rejection.DEADLINE_NOT_LATER, "A deadline can only be moved later."),
    (Rejection.DEADLINE_TOO_FAR, "A deadline lies at most a year ahead."),
    (Rejection.NOTHING_TO_AMEND, "The amendment changes nothing."),
    (Rejection.LINES_TOO_LARGE, "The lines are larger than we carry."),
    (Rejection.PARTS_DO_NOT_ADD_UP, "The parts are not equal to the transfer."),
    (Rejection.WRONG_ASSET, "The transfer is in another asset than the order."),
    (Rejection.NOT_REVIVABLE, "The order cannot be revived."),
    (Rejection.NOTHING_TO_ACCEPT, "Nothing final has come that could be accepted."),
    (Rejection.ACTOR_MISSING, "A decision needs the name of who decides."),
    (Rejection.REASON_MISSING, "A decision needs a reason in words that hold years later."),
    (Rejection.TRANSACTION_MISSING, "Name the transaction that sent the money back."),
    (Rejection.ALREADY_UNDONE, "The decision was already taken back."),
    (Rejection.DECISION_NOT_POSSIBLE, "The decision does not fit what it is about."),
]

#: StrEnum members of two tables may be equal as text (`late`), so the table is part of the key.
SENTENCES: Final = {(type(code).__name__, code.value): text for code, text in _TABLE}


def sentence(code: StrEnum) -> str:
    """Say a code in one sentence for people."""
    return SENTENCES[type(code).__name__, code.value]


def sentences(code: StrEnum, detail: str) -> str:
    """Say a code, and in a sentence of its own what was found."""
    if not detail:
        return sentence(code)
    end = "" if detail.endswith((".", "…")) else "."
    return f"{sentence(code)} {detail[0].upper()}{detail[1:]}{end}"
