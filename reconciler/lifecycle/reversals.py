"""Who took away what had confirmed an order, the chain or a person, and the words for it."""

from __future__ import annotations

from typing import Final

from reconciler.lifecycle.facts import OrderFacts
from reconciler.model.status import ReversedBy, Status
from schemas.values import TransferName

#: What the shop is told, by who is behind a reversal.
REASONS: Final[dict[ReversedBy, str]] = {
    "chain": "what confirmed the order is no longer on the chain",
    "person": "a person's decision took away what confirmed the order; the chain took nothing back",
    "both": "a person's decision and the chain took away what confirmed the order",
}
#: What operations are told beside the exception's own sentence.
NOTES: Final[dict[ReversedBy, str]] = {
    "chain": "The chain took it back.",
    "person": "A person's decision took it away; the chain took nothing back.",
    "both": "A person's decision took a part of it away, and the chain another.",
}


def reversed_by(facts: OrderFacts, previous: Status) -> ReversedBy:
    """Say who is behind the reversal of a confirmed order.

    What a person gave elsewhere is named in `decisions`. What else is missing, or is not final any
    more, the chain took. Where it took nothing, a word that had made the money enough was taken back.
    """
    if not is_lost_to_chain(facts, previous):
        return "person"
    return "both" if set(facts.decisions.taken) & set(previous.confirmed_by) else "chain"


def is_lost_to_chain(facts: OrderFacts, previous: Status) -> bool:
    """Tell whether the chain took back any of what confirmed the order."""
    final = {t.transfer for t in facts.transfers if t.is_final}
    return bool(set(previous.confirmed_by) - final - _given_elsewhere(facts))


def _given_elsewhere(facts: OrderFacts) -> set[TransferName]:
    """Give what a person took as a whole; of what was split, the rest is still the order's."""
    return set(facts.decisions.taken) - {t.transfer for t in facts.transfers}
