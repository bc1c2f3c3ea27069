"""The judgement: one pure function from facts to a status.

Nothing is changed step by step, so a late fact, a repeat or a retraction needs no path of its own:
judge again and tell the difference.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from reconciler.lifecycle.counting import Sums, end_of_open, is_forgotten, sum_up
from reconciler.lifecycle.due import due_of
from reconciler.lifecycle.facts import OrderFacts
from reconciler.lifecycle.finality import is_reached, tier_of_transfer
from reconciler.lifecycle.phases import BLOCKING, enough_for, phase_of
from reconciler.lifecycle.reversals import REASONS, reversed_by
from reconciler.model.order import OrderDecisions, Terms
from reconciler.model.status import ENDS, OPEN_PHASES, Due, Moment, ReversedBy, Status
from reconciler.model.transfer import OrderTransfer
from schemas.amounts import BaseUnits
from schemas.codes import AmountState, Attention, Phase, TransferState
from schemas.values import TransferName


class Assessment(Struct, frozen=True, kw_only=True):
    """The status, which transfers became final or were forgotten by it, and when to judge again."""

    status: Status
    granted: tuple[TransferName, ...]
    forgotten: tuple[TransferName, ...]
    due: Due
    transfers: tuple[OrderTransfer, ...]
    by_decision: bool


def assess(facts: OrderFacts, moment: Moment, previous: Status | None) -> Assessment:
    """Judge an order at a moment. The same arguments give the same answer, always."""
    facts, forgotten = _forget(facts, moment)
    transfers, granted = _grant_finality(facts, moment, previous)
    facts = msgspec.structs.replace(facts, transfers=transfers)
    sums = sum_up(facts.terms, facts.claims, transfers, facts.decisions, moment, previous)
    phase, waiting = phase_of(facts, sums, moment, previous)
    status = _status(facts, sums, phase, waiting, moment, previous)
    return Assessment(
        status=status,
        granted=granted,
        forgotten=forgotten,
        due=due_of(facts, sums, status, moment),
        transfers=transfers,
        by_decision=_by_decision(facts),
    )


def _forget(facts: OrderFacts, moment: Moment) -> tuple[OrderFacts, tuple[TransferName, ...]]:
    """Mark what no node shows any more. It may be announced again, or be mined after all."""
    if not moment.verdicts:
        return facts, ()
    gone = tuple(t.transfer for t in facts.transfers if is_forgotten(facts.terms, t, moment))
    if not gone:
        return facts, ()
    transfers = tuple(
        msgspec.structs.replace(t, state=forgotten_state(t)) if t.transfer in gone else t
        for t in facts.transfers
    )
    return msgspec.structs.replace(facts, transfers=transfers), gone


def forgotten_state(transfer: OrderTransfer) -> TransferState:
    """Say what forgotten money is: what a block once had keeps the patience with that block."""
    return TransferState.UNKNOWN if transfer.retracted_at is None else TransferState.RETRACTED


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
    ended_now = phase in ENDS and (previous is None or not previous.has_ended)
    reversed_now = phase is Phase.REVERSED and (
        previous is not None and previous.phase is Phase.CONFIRMED
    )
    base = previous or Status(phase=phase)
    taken_by = reversed_by(facts, base) if reversed_now else base.reversed_by
    confirmed = phase is Phase.CONFIRMED
    return Status(
        phase=phase,
        amount_state=_amount_state(sums, due),
        attention=tuple(code for code in Attention if code in attention) if attention else (),
        received_final=BaseUnits(sums.final),
        received_pending=BaseUnits(sums.pending),
        missing=BaseUnits(max(0, due - sums.final)),
        excess=BaseUnits(max(0, sums.final - due)),
        counted=tuple(t.transfer for t in sums.counted),
        late=tuple(t.transfer for t in sums.late),
        settled=final_ids if ended_now else base.settled,
        set_aside=_set_aside(facts, base)
        if ended_now and phase is Phase.CANCELLED
        else base.set_aside,
        confirmed_by=(
            _confirmed_by(final_ids, base)
            if confirmed
            else ()
            if reversed_now
            else base.confirmed_by
        ),
        ended_at=_ended_at(moment, base) if ended_now else base.ended_at,
        ended_as=phase if ended_now else base.ended_as,
        reversed_at=(moment.decided_until or moment.recorded_at)
        if reversed_now
        else base.reversed_at,
        reversed_by=taken_by,
        was_confirmed=confirmed or base.was_confirmed,
        claims_seen=len(facts.claims),
        terms_version=facts.terms.version,
        reason=_reason(facts, sums, phase, taken_by),
    )


def _confirmed_by(final_ids: tuple[TransferName, ...], base: Status) -> tuple[TransferName, ...]:
    """Name what carries a confirmation: what first did, and what was final beside it since."""
    if base.phase is not Phase.CONFIRMED:
        return final_ids
    return (*base.confirmed_by, *(name for name in final_ids if name not in base.confirmed_by))


def _set_aside(facts: OrderFacts, base: Status) -> tuple[TransferName, ...]:
    """Name what a person had given to an order before it was cancelled."""
    decided = {transfer.transfer for transfer in facts.transfers if transfer.decided}
    return tuple(sorted(decided | set(base.set_aside)))


def _ended_at(moment: Moment, base: Status) -> datetime:
    """Say when the order ended. What was revived in vain ended when it first did: the time within
    which a rule revives is not begun anew.
    """
    if base.ended_at is not None and not base.was_confirmed:
        return base.ended_at
    return moment.decided_until or moment.recorded_at


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
    enough = sums.final > 0 and sums.final >= enough_for(facts)
    found = set()
    if facts.holds and (over or enough):
        found.add(Attention.HELD)
    if facts.noted & BLOCKING and over:
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
    if facts.decisions.accepted and confirmed and sums.final < facts.terms.least_enough:
        found.add(Attention.ACCEPTED_SHORT)
    if any(t.state is TransferState.RETRACTED for t in sums.counted):
        found.add(Attention.RETRACTED)
    if previous is not None and previous.ended_at is not None and phase not in ENDS:
        found.add(Attention.REVIVED)
    if previous is not None and previous.has_ended and phase is previous.phase:
        waiting = any(not t.is_final for t in (*sums.counted, *sums.late))
        found.update(set(previous.attention) & {Attention.PENDING_AT_END} if waiting else ())
    return frozenset(found)


def _reason(facts: OrderFacts, sums: Sums, phase: Phase, taken_by: ReversedBy) -> str:
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
        Phase.REVERSED: REASONS[taken_by],
        Phase.UNDERPAID: f"the time to pay is over with {sums.final} of {due}",
        Phase.EXPIRED: "the time to pay is over and nothing counted came",
    }
    return words[phase]
