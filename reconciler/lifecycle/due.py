"""When an order must be judged again, if nothing new is heard of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from reconciler.lifecycle.counting import Sums, end_of_open, mempool_until, sum_up
from reconciler.lifecycle.facts import OrderFacts
from reconciler.lifecycle.finality import depth_required, tier_of_transfer
from reconciler.lifecycle.phases import patience_of_pending, phase_of, second_look_until
from reconciler.model.status import Due, Moment, Status
from schemas.codes import TransferState


def due_of(facts: OrderFacts, sums: Sums, status: Status, moment: Moment) -> Due:
    """Say when the order must be judged again, if nothing new is heard of it."""
    times = [time for time in _times(facts, sums, status, moment) if _is_ahead(time, moment)]
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
    if not moment.verdicts and _waits_for_verdict(facts, status, moment):
        heights.append(0)
    return Due(
        time=min(times, default=None),
        height=min(heights, default=None),
        finalized_height=min(finalized, default=None),
    )


def _is_ahead(time: datetime, moment: Moment) -> bool:
    return moment.decided_until is None or moment.decided_until <= time


def _times(facts: OrderFacts, sums: Sums, status: Status, moment: Moment) -> Sequence[datetime]:
    """List the instants after which something may be decided differently."""
    policy = facts.terms.policy
    found = [*patience_of_pending(facts, sums, moment, status)]
    if status.is_open:
        end = end_of_open(facts.terms, facts.claims, status.reversed_at)
        found += [end, second_look_until(facts, sums, end)]
        if not facts.covered:
            found.append(facts.terms.placed_at + timedelta(seconds=policy.not_watched_after_s))
    patience = timedelta(seconds=policy.retracted_patience_s)
    found += [t.retracted_at + patience for t in facts.transfers if t.retracted_at is not None]
    limits = [mempool_until(facts.terms, t) for t in facts.transfers]
    found += [limit for limit in limits if limit is not None]
    if facts.claims and not sums.counted and not sums.late:
        found.append(facts.claims[0].claimed_at + timedelta(seconds=policy.claim_patience_s))
    return found


def _waits_for_verdict(facts: OrderFacts, status: Status, moment: Moment) -> bool:
    """Tell whether only a watermark is missing for another judgement: ask what it would be."""
    verdict = msgspec.structs.replace(moment, verdicts=True)
    sums = sum_up(facts.terms, facts.claims, facts.transfers, facts.decisions, verdict, status)
    phase, waiting = phase_of(facts, sums, verdict, status)
    return phase is not status.phase or not waiting <= set(status.attention)
