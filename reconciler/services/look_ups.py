"""The watcher's answer to a claim's look-up."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from reconciler.model.order import Claim
from reconciler.services.claims import is_request_of, order_of_request, settle_claims
from reconciler.services.incoming import Incoming, journal_body
from reconciler.services.judge import catch_up, judge
from reconciler.services.ledger import Ledger, OrderEntry
from reconciler.stream.promise import Lane
from schemas.codes import ClaimEnd
from schemas.facts import LookedUpState, TransactionLookedUp

__all__ = ["apply_look_up", "order_of_request"]

_KNOWN = frozenset({LookedUpState.PENDING, LookedUpState.INCLUDED})


async def apply_look_up(
    ledger: Ledger, lane: Lane, item: Incoming, fact: TransactionLookedUp, seq: int
) -> None:
    """Note what the claimed transaction is. It stands on every lane; one of them applies it."""
    entry = ledger.orders.get(order_of_request(fact.request))
    if entry is None:
        return
    if lane.name != ledger.context.lane_of(fact.chain, entry.row.address_key):
        return
    reference = entry.row.reference
    await catch_up(ledger, entry)
    claims = tuple(
        _answered(ledger, entry, claim, fact)
        if is_request_of(fact.request, claim, reference)
        else claim
        for claim in entry.state.claims
    )
    if claims == entry.state.claims:
        return
    entry.change(claims=claims)
    settle_claims(ledger, entry)
    ledger.journal.add(
        seq=seq,
        head=entry.row,
        chain_key=f"order/{reference}",
        kind="fact",
        recorded_at=item.recorded_at,
        body=journal_body(item),
    )
    own = ledger.lane_of(entry)
    await judge(ledger, entry, own.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False))


def _answered(ledger: Ledger, entry: OrderEntry, claim: Claim, fact: TransactionLookedUp) -> Claim:
    terms = entry.state.terms
    here = fact.chain == terms.chain
    known = claim.known or (here and fact.state in _KNOWN)
    return msgspec.structs.replace(claim, known=known, end=_end(ledger, entry, claim, fact))


def _end(ledger: Ledger, entry: OrderEntry, claim: Claim, fact: TransactionLookedUp) -> ClaimEnd:
    """Judge the claim by what was found; what was not found leaves it open.

    The answers of several chains may come in any order: only what the order's own chain does not know
    can be on another.
    """
    if claim.end in {ClaimEnd.SUPERSEDED, ClaimEnd.JUNK}:
        return claim.end
    if claim.end is ClaimEnd.USED or fact.state is LookedUpState.UNKNOWN:
        return ClaimEnd.REPLACED if fact.replaced_by and claim.end is ClaimEnd.OPEN else claim.end
    terms = entry.state.terms
    if fact.chain != terms.chain:
        unknown_here = not claim.known and claim.end in {ClaimEnd.OPEN, ClaimEnd.UNSEEN}
        return ClaimEnd.OTHER_CHAIN if unknown_here else claim.end
    if fact.state is LookedUpState.FAILED:
        return ClaimEnd.PAYS_NOTHING
    if fact.state is LookedUpState.PENDING:
        return ClaimEnd.OPEN
    if not fact.pays:
        return ClaimEnd.PAYS_NOTHING
    owners = {ref for name in fact.pays for ref in ledger.owners_of(name)}
    if owners and entry.row.reference not in owners:
        return ClaimEnd.ALREADY_USED
    slack = timedelta(seconds=terms.policy.clock_slack_s)
    if terms.mode == "shared" and fact.block and fact.block.time < terms.placed_at - slack:
        return ClaimEnd.BEFORE_THE_ORDER
    return ClaimEnd.OPEN
