"""The phase of an order: where it stands by its sums, the time and what people decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from reconciler.lifecycle.counting import (
    Sums,
    end_of_open,
    has_lapsed,
    is_withdrawn,
    still_pending,
)
from reconciler.lifecycle.facts import OrderFacts
from reconciler.lifecycle.reversals import is_lost_to_chain
from reconciler.model.status import Moment, Status
from reconciler.model.transfer import OrderTransfer
from schemas.codes import Attention, MatchRule, Phase


def phase_of(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status | None
) -> tuple[Phase, frozenset[Attention]]:
    """Choose the phase, and say what a verdict waits for."""
    if previous is not None and previous.phase is Phase.CONFIRMED:
        return _phase_of_confirmed(facts, sums, moment, previous)
    if is_withdrawn(facts.decisions, facts.transfers, previous):
        return Phase.CANCELLED, frozenset()
    if previous is not None and previous.has_ended:
        return _phase_after_end(facts, sums, moment, previous)
    return _open_phase(facts, sums, moment, previous)


def _phase_of_confirmed(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status
) -> tuple[Phase, frozenset[Attention]]:
    """A confirmed order stays so until what confirmed it is gone and did not come back in time."""
    supported = sum(t.share for t in sums.counted if _supports(facts, t, moment, previous))
    enough = supported >= enough_for(facts)
    shaken = any(t.was_final and not t.is_final for t in sums.counted)
    lost = not enough and is_lost_to_chain(facts, previous)
    attention = frozenset({Attention.RETRACTED}) if shaken or lost else frozenset()
    if enough or not moment.verdicts:
        return Phase.CONFIRMED, attention
    if facts.holds:
        return Phase.CONFIRMED, attention | {Attention.HELD}
    return Phase.REVERSED, frozenset()


def _supports(facts: OrderFacts, transfer: OrderTransfer, moment: Moment, previous: Status) -> bool:
    """Tell whether a transfer still carries a confirmation: final, or taken back a short while ago.

    One that only waits in the mempool again carries it no longer than one of which nothing is heard.
    """
    if transfer.is_final:
        return True
    if transfer.transfer not in previous.confirmed_by and not transfer.was_final:
        return False
    if transfer.retracted_at is not None and has_lapsed(facts.terms, transfer, moment):
        return False
    return still_pending(facts.terms, transfer, moment)


def _phase_after_end(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status
) -> tuple[Phase, frozenset[Attention]]:
    """An end stays, unless a person or the route's own rule made other money count."""
    moved = any(t.transfer not in previous.settled for t in sums.counted)
    if moved or facts.decisions.accepted:
        phase, waiting = _open_phase(facts, sums, moment, previous)
        waits_for_money = sums.final < enough_for(facts)
        if phase is Phase.CONFIRMED or (phase is Phase.DETECTED and not waits_for_money):
            return phase, waiting
        if phase is Phase.DETECTED and _holds_the_end(facts, sums, moment, previous):
            return phase, waiting
    return _end_by_sum(previous.phase, sums, moment), frozenset()


def _end_by_sum(phase: Phase, sums: Sums, moment: Moment) -> Phase:
    """Name an end by what is there now: a person may have taken money away or given some.

    What was counted at the end and is retracted for a while is neither here nor gone.
    """
    if phase is Phase.CANCELLED or not moment.verdicts or sums.pending > 0:
        return phase
    return Phase.UNDERPAID if sums.final > 0 else Phase.EXPIRED


def _open_phase(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status | None
) -> tuple[Phase, frozenset[Attention]]:
    phase = _phase_by_sums(facts, sums, previous)
    if sums.final >= enough_for(facts) and sums.final > 0:
        if not _is_flagged(facts, sums):
            return Phase.DETECTED, frozenset({Attention.PAID_UNFLAGGED})
        if facts.holds or not moment.verdicts:
            return Phase.DETECTED, frozenset()
        return Phase.CONFIRMED, frozenset()
    if not moment.verdicts:
        return phase, frozenset()
    return _end_if_over(facts, sums, phase, moment, previous)


def _phase_by_sums(facts: OrderFacts, sums: Sums, previous: Status | None) -> Phase:
    """Give the highest open phase that holds."""
    if sums.pending > 0:
        return Phase.DETECTED
    if sums.final > 0:
        return Phase.PARTIALLY_PAID
    if previous is not None and previous.was_confirmed:
        return Phase.REVERSED
    return Phase.CLAIMED if facts.claims else Phase.AWAITING_PAYMENT


def _end_if_over(
    facts: OrderFacts, sums: Sums, phase: Phase, moment: Moment, previous: Status | None
) -> tuple[Phase, frozenset[Attention]]:
    """End the order if the chain and our inbox were read past the end of *open*."""
    end = end_of_open(facts.terms, facts.claims, previous.reversed_at if previous else None)
    until = moment.decided_until
    if until is None or until <= end:
        return phase, frozenset()
    if facts.holds or not facts.covered or facts.noted & BLOCKING:
        return phase, frozenset()
    if _holds_the_end(facts, sums, moment, previous):
        return phase, frozenset()
    if second_look_until(facts, sums, end) >= until:
        return phase, frozenset()
    over = frozenset({Attention.PENDING_AT_END}) if sums.pending > 0 else frozenset()
    return (Phase.UNDERPAID if sums.final > 0 else Phase.EXPIRED), over


def _holds_the_end(facts: OrderFacts, sums: Sums, moment: Moment, previous: Status | None) -> bool:
    """Tell whether pending money may still keep the order from ending."""
    until = moment.decided_until
    limits = patience_of_pending(facts, sums, moment, previous)
    return any(until is None or until <= limit for limit in limits)


def second_look_until(facts: OrderFacts, sums: Sums, end: datetime) -> datetime:
    """Say until when an order that would end without money waits for its balance to be compared.

    A comparison counts that was made after the end: what came before it is then explained.
    """
    looked = was_looked_at(facts.looked_until, end)
    if looked or sums.counted or facts.terms.mode == "shared":
        return end
    return end + timedelta(seconds=facts.terms.policy.second_look_s)


def was_looked_at(looked_until: datetime | None, end: datetime) -> bool:
    """Tell whether what the address held was explained after the end of *open*."""
    return looked_until is not None and looked_until >= end


def patience_of_pending(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status | None
) -> Sequence[datetime]:
    """Say until when each pending transfer holds the end: from *open*'s end, or from when it came.

    Only money that a person or the route's rule revived can have come after that end.
    """
    end = end_of_open(facts.terms, facts.claims, previous.reversed_at if previous else None)
    patience = timedelta(seconds=facts.terms.policy.pending_patience_s)
    return [
        max(end, transfer.first_time) + patience
        for transfer in sums.counted
        if still_pending(facts.terms, transfer, moment)
    ]


BLOCKING = frozenset({Attention.UNREADABLE_FACT, Attention.BALANCE_DIFFERS})


def enough_for(facts: OrderFacts) -> int:
    """Give the least sum that confirms; a person may have accepted less."""
    accepted = facts.decisions.accepted
    return min(accepted, facts.terms.least_enough) if accepted else facts.terms.least_enough


def _is_flagged(facts: OrderFacts, sums: Sums) -> bool:
    """Tell whether the customer said so, or the chain did beyond doubt."""
    if facts.claims or facts.decisions.accepted or facts.decisions.revived:
        return True
    policy = facts.terms.policy
    by_rule = {
        MatchRule.DECISION: True,
        MatchRule.ADDRESS: policy.flag_by_address,
        MatchRule.RESERVED_AMOUNT: policy.flag_by_reserved_amount,
        MatchRule.NONE: False,
    }
    return any(by_rule[transfer.rule] for transfer in sums.counted)
