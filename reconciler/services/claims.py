"""What becomes of a customer's claim. It flags, extends, alarms and ranks; it never credits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from reconciler.matcher.match import reservation_since
from reconciler.model.order import Claim, Terms
from reconciler.services.ledger import Ledger, OrderEntry
from reconciler.storage.rows import TransferRow
from schemas.caip import ChainName
from schemas.codes import ClaimEnd, TransferState


def request_id(reference: str, claim_key: str, chain: ChainName) -> str:
    """Name a look-up so that its answer finds the claim, and a repeat is the same request."""
    digest = hashlib.sha256(claim_key.encode()).hexdigest()[:16]
    return f"claim/{reference}/{digest}/{chain}"


def tx_name(family: str, tx: str) -> str:
    """Name a transaction for its lock."""
    return f"tx/{family}/{tx}"


def order_of_request(request: str) -> str:
    """Give the order whose claim a look-up was made for; empty for other requests."""
    parts = request.split("/")
    return parts[1] if len(parts) == 4 and parts[0] == "claim" else ""


def is_request_of(request: str, claim: Claim, reference: str) -> bool:
    """Tell whether a look-up was made for a claim, on whatever chain."""
    digest = hashlib.sha256(claim.key.encode()).hexdigest()[:16]
    return request.startswith(f"claim/{reference}/{digest}/")


def is_taken(claim: Claim) -> bool:
    """Tell whether the claimed transaction paid somebody else's order."""
    return claim.end is ClaimEnd.ALREADY_USED


def settle_claims(ledger: Ledger, entry: OrderEntry) -> None:
    """Give every claim its end by the transfers that are known now.

    Whichever came first, the claim or its transfer, or a person who gave the transfer to somebody: the
    end is the same.
    """
    if any(claim.tx for claim in entry.state.claims):
        _end_claims(entry, lambda claim: _end_of(ledger, entry, claim))


def end_unseen_claims(entry: OrderEntry) -> None:
    """The order has ended: what was not found in its time is unseen."""
    _end_claims(
        entry,
        lambda claim: ClaimEnd.UNSEEN if claim.tx and claim.end is ClaimEnd.OPEN else claim.end,
    )


#: Ends that say why a named transaction does not matter, whatever becomes of it but paying us.
_SETTLED: Final = frozenset({ClaimEnd.SUPERSEDED, ClaimEnd.JUNK})


def _end_of(ledger: Ledger, entry: OrderEntry, claim: Claim) -> ClaimEnd:
    if claim.tx is None:
        return claim.end
    terms = entry.state.terms
    here = ledger.transfers_of_tx(terms.chain, claim.tx)
    alive = [row for row in here if row.state != TransferState.DROPPED]
    owners = {ref for row in alive for ref in ledger.owners_of(row.transfer)}
    if entry.row.reference in owners:
        return ClaimEnd.USED
    if claim.end in _SETTLED:
        return claim.end
    if owners:
        return ClaimEnd.ALREADY_USED
    if alive:
        return _end_of_unowned(terms, claim, alive)
    if here:
        return ClaimEnd.REPLACED
    return _end_elsewhere(ledger, terms, claim)


def _end_of_unowned(terms: Terms, claim: Claim, alive: Sequence[TransferRow]) -> ClaimEnd:
    """Judge a claim of money that has no order: on a shared address it may be too old."""
    since = reservation_since(terms.placed_at, terms.policy.clock_slack_s)
    if terms.mode == "shared" and all(row.first_time < since for row in alive):
        return ClaimEnd.BEFORE_THE_ORDER
    lost = {
        ClaimEnd.USED,
        ClaimEnd.ALREADY_USED,
        ClaimEnd.REPLACED,
        ClaimEnd.UNSEEN,
        # A look-up sees only payments to addresses that its watcher knew by then.
        ClaimEnd.PAYS_NOTHING,
    }
    return ClaimEnd.OPEN if claim.end in lost else claim.end


def _end_elsewhere(ledger: Ledger, terms: Terms, claim: Claim) -> ClaimEnd:
    """Judge a claim of which nothing is known on the order's own chain."""
    if claim.end not in {ClaimEnd.OPEN, ClaimEnd.UNSEEN}:
        return claim.end
    for chain in ledger.context.chains_of(terms.family):
        others = ledger.transfers_of_tx(chain, claim.tx or "")
        if any(row.state != TransferState.DROPPED for row in others):
            return ClaimEnd.OTHER_CHAIN
    return claim.end


def _end_claims(entry: OrderEntry, judge_claim: Callable[[Claim], ClaimEnd]) -> None:
    claims = tuple(
        msgspec.structs.replace(claim, end=judge_claim(claim)) for claim in entry.state.claims
    )
    if claims != entry.state.claims:
        entry.change(claims=claims)
