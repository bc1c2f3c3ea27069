"""The judgement: one pure function from facts to a status.

Nothing is changed step by step, so a late fact, a repeat or a retraction needs no path of its own:
judge again and tell the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from reconciler.lifecycle.counting import Sums, end_of_open, still_pending, sum_up
from reconciler.lifecycle.finality import depth_required, is_reached, tier_of_transfer
from reconciler.model.order import Claim, OrderDecisions, Terms
from reconciler.model.status import OPEN_PHASES, Due, Moment, Status
from reconciler.model.transfer import OrderTransfer
from schemas.amounts import BaseUnits
from schemas.codes import AmountState, Attention, MatchRule, Phase, TransferState
from schemas.values import TransferName


class OrderFacts(Struct, frozen=True, kw_only=True):
    """All that is known of one order.

    `covered`: its address was searched back to the order's time. `holds`: why verdicts wait.
    `noted`: attention that others found (an unreadable fact, a balance that differs, ambiguity).
    """

    terms: Terms
    claims: tuple[Claim, ...]
    transfers: tuple[OrderTransfer, ...]
    decisions: OrderDecisions
    covered: bool
    holds: tuple[str, ...] = ()
    noted: frozenset[Attention] = frozenset()


class Assessment(Struct, frozen=True, kw_only=True):
    """The status, which transfers became final by it, and when to judge again."""

    status: Status
    granted: tuple[TransferName, ...]
    due: Due
    transfers: tuple[OrderTransfer, ...]
    by_decision: bool


def assess(facts: OrderFacts, moment: Moment, previous: Status | None) -> Assessment:
    """Judge an order at a moment. The same arguments give the same answer, always."""
    transfers, granted = _grant_finality(facts, moment, previous)
    facts = msgspec.structs.replace(facts, transfers=transfers)
    sums = sum_up(facts.terms, facts.claims, transfers, facts.decisions, moment, previous)
    phase, waiting = _phase(facts, sums, moment, previous)
    status = _status(facts, sums, phase, waiting, moment, previous)
    return Assessment(
        status=status,
        granted=granted,
        due=_due(facts, sums, status, moment),
        transfers=transfers,
        by_decision=_by_decision(facts),
    )


def _grant_finality(
    facts: OrderFacts, moment: Moment, previous: Status | None
) -> tuple[tuple[OrderTransfer, ...], tuple[TransferName, ...]]:
    """Mark what is deep enough. Once granted it is stored; only a retraction takes it away."""
    if not moment.verdicts:
        return facts.transfers, ()
    sums = sum_up(facts.terms, facts.claims, facts.transfers, facts.decisions, moment, previous)
    granted = tuple(
        transfer.transfer
        for transfer in facts.transfers
        if transfer.chain == facts.terms.chain
        and is_reached(
            tier_of_transfer(facts.terms, transfer, sums.total),
            transfer,
            facts.terms.policy,
            moment,
        )
    )
    if not granted:
        return facts.transfers, ()
    return tuple(_finalised(t) if t.transfer in granted else t for t in facts.transfers), granted


def _finalised(transfer: OrderTransfer) -> OrderTransfer:
    return msgspec.structs.replace(
        transfer, state=TransferState.FINAL, was_final=True, retracted_at=None
    )


def _phase(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status | None
) -> tuple[Phase, frozenset[Attention]]:
    """Choose the phase, and say what a verdict waits for."""
    if previous is not None and previous.phase is Phase.CONFIRMED:
        return _phase_of_confirmed(facts, sums, moment, previous)
    withdrawn = facts.decisions.cancelled or facts.decisions.sibling_confirmed
    if withdrawn and (previous is None or not previous.has_ended):
        return Phase.CANCELLED, frozenset()
    if previous is not None and previous.has_ended:
        return _phase_after_end(facts, sums, moment, previous)
    return _open_phase(facts, sums, moment, previous)


def _phase_of_confirmed(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status
) -> tuple[Phase, frozenset[Attention]]:
    """A confirmed order stays so until what confirmed it is gone and did not come back in time."""
    supported = sum(
        t.share
        for t in sums.counted
        if t.is_final
        or (t.transfer in previous.confirmed_by and still_pending(facts.terms, t, moment))
    )
    shaken = any(not t.is_final for t in facts.transfers if t.transfer in previous.confirmed_by)
    attention = frozenset({Attention.RETRACTED}) if shaken else frozenset()
    if supported >= _enough(facts, supported) or not moment.verdicts:
        return Phase.CONFIRMED, attention
    if facts.holds:
        return Phase.CONFIRMED, attention | {Attention.HELD}
    return Phase.REVERSED, frozenset()


def _phase_after_end(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status
) -> tuple[Phase, frozenset[Attention]]:
    """An end stays, unless a person or the route's own rule made other money count."""
    moved = any(t.transfer not in previous.settled for t in sums.counted)
    if not moved and not facts.decisions.accepted_short:
        return _end_by_sum(previous.phase, sums), frozenset()
    phase, waiting = _open_phase(facts, sums, moment, previous)
    if phase in {Phase.CONFIRMED, Phase.DETECTED}:
        return phase, waiting
    return _end_by_sum(previous.phase, sums), waiting


def _end_by_sum(phase: Phase, sums: Sums) -> Phase:
    """Name an end by what is there now: a person may have taken money away or given some."""
    if phase is Phase.CANCELLED:
        return phase
    return Phase.UNDERPAID if sums.final > 0 else Phase.EXPIRED


def _open_phase(
    facts: OrderFacts, sums: Sums, moment: Moment, previous: Status | None
) -> tuple[Phase, frozenset[Attention]]:
    phase = _phase_by_sums(facts, sums, previous)
    if sums.final >= _enough(facts, sums.final) and sums.final > 0:
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
    if facts.holds or not facts.covered or facts.noted & _BLOCKING:
        return phase, frozenset()
    patience = timedelta(seconds=facts.terms.policy.pending_patience_s)
    if sums.pending > 0 and until <= end + patience:
        return phase, frozenset()
    over = frozenset({Attention.PENDING_AT_END}) if sums.pending > 0 else frozenset()
    return (Phase.UNDERPAID if sums.final > 0 else Phase.EXPIRED), over


_BLOCKING = frozenset({Attention.UNREADABLE_FACT, Attention.BALANCE_DIFFERS})


def _enough(facts: OrderFacts, final: int) -> int:
    """Give the least sum that confirms; a person may have accepted what is there."""
    if facts.decisions.accepted_short and final > 0:
        return min(final, facts.terms.least_enough)
    return facts.terms.least_enough


def _is_flagged(facts: OrderFacts, sums: Sums) -> bool:
    """Tell whether the customer said so, or the chain did beyond doubt."""
    if facts.claims or facts.decisions.accepted_short or facts.decisions.revived:
        return True
    policy = facts.terms.policy
    by_rule = {
        MatchRule.DECISION: True,
        MatchRule.ADDRESS: policy.flag_by_address,
        MatchRule.RESERVED_AMOUNT: policy.flag_by_reserved_amount,
        MatchRule.NONE: False,
    }
    return any(by_rule[transfer.rule] for transfer in sums.counted)


def _by_decision(facts: OrderFacts) -> bool:
    """Tell whether a person's word (or the route's own rule) is among what was judged."""
    touched = facts.decisions != OrderDecisions()
    own_rule = facts.terms.policy.late_revive_within_s is not None
    return touched or own_rule or any(t.decided for t in facts.transfers)


def _status(
    facts: OrderFacts,
    sums: Sums,
    phase: Phase,
    waiting: frozenset[Attention],
    moment: Moment,
    previous: Status | None,
) -> Status:
    due = facts.terms.due
    attention = waiting | sums.attention | facts.noted | _claim_attention(facts, sums, moment)
    attention |= _standing_attention(facts, sums, phase, previous)
    attention |= _waiting_attention(facts, sums, phase, moment, previous)
    final_ids = tuple(t.transfer for t in sums.counted if t.is_final)
    ended_now = phase in _ENDS and (previous is None or not previous.has_ended)
    reversed_now = phase is Phase.REVERSED and (
        previous is not None and previous.phase is Phase.CONFIRMED
    )
    base = previous or Status(phase=phase)
    confirmed = phase is Phase.CONFIRMED
    return Status(
        phase=phase,
        amount_state=_amount_state(sums, due),
        attention=tuple(code for code in Attention if code in attention),
        received_final=BaseUnits(sums.final),
        received_pending=BaseUnits(sums.pending),
        missing=BaseUnits(max(0, due - sums.final)),
        excess=BaseUnits(max(0, sums.final - due)),
        counted=tuple(t.transfer for t in sums.counted),
        late=tuple(t.transfer for t in sums.late),
        settled=final_ids if ended_now else base.settled,
        confirmed_by=(
            _confirmed_by(final_ids, base)
            if confirmed
            else ()
            if reversed_now
            else base.confirmed_by
        ),
        ended_at=moment.decided_until or moment.recorded_at if ended_now else base.ended_at,
        ended_as=phase if ended_now else base.ended_as,
        reversed_at=(moment.decided_until or moment.recorded_at)
        if reversed_now
        else base.reversed_at,
        was_confirmed=confirmed or base.was_confirmed,
        claims_seen=len(facts.claims),
        terms_version=facts.terms.version,
        reason=_reason(facts, sums, phase),
    )


_ENDS = frozenset({Phase.UNDERPAID, Phase.EXPIRED, Phase.CANCELLED})


def _confirmed_by(final_ids: tuple[TransferName, ...], base: Status) -> tuple[TransferName, ...]:
    """Keep what first confirmed it in front, so that a retraction of it is still known."""
    if base.phase is not Phase.CONFIRMED:
        return final_ids
    return base.confirmed_by


def _amount_state(sums: Sums, due: int) -> AmountState:
    if sums.final == 0:
        return AmountState.NONE
    if sums.final < due:
        return AmountState.SHORT
    return AmountState.EXACT if sums.final == due else AmountState.OVER


def _claim_attention(facts: OrderFacts, sums: Sums, moment: Moment) -> frozenset[Attention]:
    """Alarm when a customer says "paid" and nothing came within the patience."""
    if not facts.claims or sums.counted or sums.late or moment.decided_until is None:
        return frozenset()
    patience = timedelta(seconds=facts.terms.policy.claim_patience_s)
    if moment.decided_until <= facts.claims[0].claimed_at + patience:
        return frozenset()
    return frozenset({Attention.CLAIMED_UNSEEN})


def _waiting_attention(
    facts: OrderFacts, sums: Sums, phase: Phase, moment: Moment, previous: Status | None
) -> frozenset[Attention]:
    """Say what keeps a verdict waiting, also between watermarks: a blind chain sends none."""
    if phase not in OPEN_PHASES:
        return frozenset()
    end = end_of_open(facts.terms, facts.claims, previous.reversed_at if previous else None)
    over = max(moment.recorded_at, moment.decided_until or moment.recorded_at) > end
    enough = sums.final > 0 and sums.final >= _enough(facts, sums.final)
    found = set()
    if facts.holds and (over or enough):
        found.add(Attention.HELD)
    if facts.noted & _BLOCKING and over:
        found.add(Attention.HELD)
    if not facts.covered and (over or _is_long_unwatched(facts.terms, moment)):
        found.add(Attention.NOT_COVERED)
    return frozenset(found)


def _is_long_unwatched(terms: Terms, moment: Moment) -> bool:
    patience = timedelta(seconds=terms.policy.not_watched_after_s)
    return moment.decided_until is not None and moment.decided_until > terms.placed_at + patience


def _standing_attention(
    facts: OrderFacts, sums: Sums, phase: Phase, previous: Status | None
) -> frozenset[Attention]:
    """Collect what stays true for as long as its cause is there."""
    found = set()
    confirmed = phase is Phase.CONFIRMED
    excess_max = facts.terms.policy.tolerance.excess_max or 0
    if confirmed and sums.final - facts.terms.due > excess_max:
        found.add(Attention.OVERPAID)
    if sums.late and (confirmed or facts.decisions.sibling_confirmed):
        found.add(Attention.PAID_TWICE)
    if facts.decisions.sibling_confirmed and phase is Phase.CANCELLED:
        found.add(Attention.SIBLING_CONFIRMED)
    if facts.decisions.accepted_short and confirmed and sums.final < facts.terms.least_enough:
        found.add(Attention.ACCEPTED_SHORT)
    if any(t.state is TransferState.RETRACTED for t in sums.counted):
        found.add(Attention.RETRACTED)
    if previous is not None and previous.ended_at is not None and phase not in _ENDS:
        found.add(Attention.REVIVED)
    if previous is not None and previous.has_ended and phase is previous.phase:
        found.update(set(previous.attention) & {Attention.PENDING_AT_END})
    return frozenset(found)


def _reason(facts: OrderFacts, sums: Sums, phase: Phase) -> str:
    """Say in plain words why the order stands where it stands."""
    due = facts.terms.due
    if phase is Phase.CONFIRMED:
        if sums.final >= due:
            return f"final sum {sums.final} reaches the due {due}"
        return f"final sum {sums.final} of {due} is enough within tolerance or by decision"
    if phase is Phase.CANCELLED:
        if facts.decisions.sibling_confirmed:
            return "another order of the same purchase was confirmed"
        return facts.decisions.cancel_reason or "cancelled by the shop"
    words = {
        Phase.AWAITING_PAYMENT: "nothing seen yet",
        Phase.CLAIMED: "claimed by the customer, nothing seen yet",
        Phase.DETECTED: f"pending {sums.pending}, final {sums.final}, due {due}",
        Phase.PARTIALLY_PAID: f"final sum {sums.final} is short of {due}",
        Phase.REVERSED: "what confirmed the order is no longer on the chain",
        Phase.UNDERPAID: f"the time to pay is over with {sums.final} of {due}",
        Phase.EXPIRED: "the time to pay is over and nothing counted came",
    }
    return words[phase]


def _due(facts: OrderFacts, sums: Sums, status: Status, moment: Moment) -> Due:
    """Say when the order must be judged again, if nothing new is heard of it."""
    times = [time for time in _times(facts, sums, status) if _is_ahead(time, moment)]
    heights: list[int] = []
    finalized: list[int] = []
    for transfer in facts.transfers:
        if transfer.state is not TransferState.INCLUDED or transfer.block is None:
            continue
        if transfer.chain != facts.terms.chain or not transfer.on_the_line or transfer.held:
            continue
        tier = tier_of_transfer(facts.terms, transfer, sums.total)
        required = depth_required(tier, transfer, facts.terms.policy)
        if tier.depth is None:
            finalized.append(transfer.block.height)
        if required is not None:
            heights.append(transfer.block.height + required - 1)
    if not moment.verdicts and _waits_for_verdict(facts, sums, status, moment):
        heights.append(0)
    return Due(
        time=min(times, default=None),
        height=min(heights, default=None),
        finalized_height=min(finalized, default=None),
    )


def _is_ahead(time: datetime, moment: Moment) -> bool:
    return moment.decided_until is None or moment.decided_until <= time


def _times(facts: OrderFacts, sums: Sums, status: Status) -> Sequence[datetime]:
    """List the instants after which something may be decided differently."""
    policy = facts.terms.policy
    found: list[datetime] = []
    if status.is_open:
        end = end_of_open(facts.terms, facts.claims, status.reversed_at)
        found += [end, end + timedelta(seconds=policy.pending_patience_s)]
        if not facts.covered:
            found.append(facts.terms.placed_at + timedelta(seconds=policy.not_watched_after_s))
    for transfer in facts.transfers:
        if transfer.state is TransferState.RETRACTED and transfer.retracted_at is not None:
            found.append(transfer.retracted_at + timedelta(seconds=policy.retracted_patience_s))
    if facts.claims and not sums.counted and not sums.late:
        found.append(facts.claims[0].claimed_at + timedelta(seconds=policy.claim_patience_s))
    return found


def _waits_for_verdict(facts: OrderFacts, sums: Sums, status: Status, moment: Moment) -> bool:
    """Tell whether only the next watermark is missing for a verdict."""
    if status.phase is Phase.CONFIRMED:
        return Attention.RETRACTED in status.attention
    if sums.final > 0 and sums.final >= _enough(facts, sums.final):
        return True
    if not status.is_open or moment.decided_until is None:
        return False
    return moment.decided_until > end_of_open(facts.terms, facts.claims, status.reversed_at)
