"""What becomes of a customer's claim. It flags, extends, alarms and ranks; it never credits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from reconciler.model.order import Claim
from reconciler.services.ledger import Ledger, OrderEntry
from schemas.caip import ChainName
from schemas.codes import ClaimEnd, TransferState


def request_id(reference: str, claim_key: str, chain: ChainName) -> str:
    """Name a look-up so that its answer finds the claim, and a repeat is the same request."""
    digest = hashlib.sha256(claim_key.encode()).hexdigest()[:16]
    return f"claim/{reference}/{digest}/{chain}"


def order_of_request(request: str) -> str:
    """Give the order whose claim a look-up was made for; empty for other requests."""
    parts = request.split("/")
    return parts[1] if len(parts) == 4 and parts[0] == "claim" else ""


def is_request_of(request: str, claim: Claim, reference: str) -> bool:
    """Tell whether a look-up was made for a claim, on whatever chain."""
    digest = hashlib.sha256(claim.key.encode()).hexdigest()[:16]
    return request.startswith(f"claim/{reference}/{digest}/")


def settle_claims(ledger: Ledger, entry: OrderEntry) -> None:
    """End the claims whose transaction pays this order: they are used."""
    if not any(c.tx and c.end is not ClaimEnd.USED for c in entry.state.claims):
        return
    paying = {
        row.tx
        for row in ledger.transfers_of(entry.row.reference)
        if row.state != TransferState.DROPPED
    }
    end_claims(entry, lambda claim: ClaimEnd.USED if claim.tx in paying else claim.end)


def end_claims(entry: OrderEntry, judge_claim: Callable[[Claim], ClaimEnd]) -> None:
    """Give every claim its end anew."""
    claims = tuple(
        msgspec.structs.replace(claim, end=judge_claim(claim)) for claim in entry.state.claims
    )
    if claims != entry.state.claims:
        entry.change(claims=claims)
