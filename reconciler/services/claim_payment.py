"""The customer pressed "I've paid": flag the order, extend it once, look the transaction up."""

from __future__ import annotations

import msgspec

from chains.addresses import AddressError, canonical_key
from chains.registry import parse_address, parse_transaction_id
from reconciler.model.order import Claim
from reconciler.services.claims import request_id, settle_claims, tx_name
from reconciler.services.incoming import Incoming
from reconciler.services.judge import catch_up, judge
from reconciler.services.ledger import Ledger, OrderEntry
from reconciler.services.matching import find_match, keep_own_exception
from reconciler.services.place_order import journal_command
from reconciler.services.refused import RefusedError
from reconciler.storage import reads
from reconciler.storage.rows import ClaimRow
from reconciler.stream.topics import requests_topic
from schemas.caip import Family
from schemas.codes import ClaimEnd, Rejection, TransferState
from schemas.commands import ClaimPaid
from schemas.envelope import derived_id
from schemas.requests import LookUpTransaction


async def claim_payment(
    ledger: Ledger, entry: OrderEntry, item: Incoming, command: ClaimPaid, seq: int
) -> None:
    """Take a claim. A junk transaction id is dropped and the flag kept.

    **Raises**: `RefusedError` `too_many_claims` when the order has its number of named transactions.
    """
    await catch_up(ledger, entry)
    claim = _read(entry, item, command)
    named = {c.tx for c in entry.state.claims if c.tx is not None}
    if claim.tx is not None and claim.tx not in named:
        _check_number(entry, named)
    journal_command(ledger, entry, item, seq)
    if entry.state.claims and _says_nothing_new(entry, claim):
        return
    claims = tuple(_superseded(known, claim) for known in entry.state.claims)
    await _load_named(ledger, entry, claim)
    claim = msgspec.structs.replace(claim, known=_is_known(ledger, entry, claim))
    entry.change(claims=(*claims, claim))
    ledger.add_new(
        "claims",
        ClaimRow(
            order_ref=entry.row.reference,
            key=claim.key,
            family=entry.row.family,
            tx=claim.tx,
            sender=claim.sender,
            claimed_at=claim.claimed_at,
        ),
    )
    settle_claims(ledger, entry)
    if claim.tx is not None and claim.tx not in named:
        _ask_for(ledger, entry, item, claim)
        await _rank_again(ledger, entry, item, claim)
    lane = ledger.lane_of(entry)
    await judge(ledger, entry, lane.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False))


def _read(entry: OrderEntry, item: Incoming, command: ClaimPaid) -> Claim:
    """Read what a customer typed: any case, an explorer's URL, white space; junk says nothing."""
    chain = entry.state.terms.chain
    tx = parse_transaction_id(chain, command.transaction) if command.transaction else None
    sender = None
    if command.sender:
        try:
            sender = canonical_key(chain, parse_address(chain, command.sender.strip()).display)
        except AddressError:
            sender = None
    junk = bool(command.transaction) and tx is None
    return Claim(
        key=command.idempotency_key,
        claimed_at=item.recorded_at,
        tx=tx,
        sender=sender,
        end=ClaimEnd.JUNK if junk else ClaimEnd.OPEN,
    )


def _check_number(entry: OrderEntry, named: set[str]) -> None:
    most = entry.state.terms.policy.claims_max
    if len(named) >= most:
        detail = f"Expected at most {most} transactions, found {len(named)} before this one."
        raise RefusedError(Rejection.TOO_MANY_CLAIMS, detail)


def _superseded(known: Claim, new: Claim) -> Claim:
    """An open claim of another transaction is superseded by a later one."""
    if known.end is ClaimEnd.OPEN and known.tx and new.tx and known.tx != new.tx:
        return msgspec.structs.replace(known, end=ClaimEnd.SUPERSEDED)
    return known


def _says_nothing_new(entry: OrderEntry, claim: Claim) -> bool:
    """Tell whether the button was pressed again without a word that we do not know yet.

    The flag is set and the extension earned by the first; to keep every press would let a customer
    grow the order's events without end.
    """
    known = entry.state.claims
    new_tx = claim.tx is not None and all(claim.tx != c.tx for c in known)
    most = entry.state.terms.policy.claims_max
    senders = {c.sender for c in known if c.sender is not None}
    new_sender = claim.sender is not None and claim.sender not in senders and len(senders) < most
    return not new_tx and not new_sender


async def _load_named(ledger: Ledger, entry: OrderEntry, claim: Claim) -> None:
    """Read the transfers of the named transaction that are known already, and whose they are.

    With several lanes a transfer may come at the same moment: the name of its transaction is what both
    wait for. The addresses are locked before the transfers are read, since they are ranked again.
    """
    if claim.tx is None:
        return
    terms = entry.state.terms
    if ledger.context.lanes[terms.chain] > 1:
        await ledger.work.lock_names([tx_name(terms.family, claim.tx)])
    for chain in ledger.context.chains_of(terms.family):
        found = await reads.transfers_of_txs(ledger.work, [chain], [claim.tx])
        await ledger.lock_addresses((row.family, row.address_key) for row in found)
        if found:
            found = await reads.transfers_of_txs(ledger.work, [chain], [claim.tx])
        await ledger.load_transfers(found)


def _is_known(ledger: Ledger, entry: OrderEntry, claim: Claim) -> bool:
    """Tell whether the chain has the named transaction."""
    here = ledger.transfers_of_tx(entry.state.terms.chain, claim.tx or "")
    return any(row.state != TransferState.DROPPED for row in here)


def _ask_for(ledger: Ledger, entry: OrderEntry, item: Incoming, claim: Claim) -> None:
    """Have the transaction looked up on every configured chain of the family."""
    for chain in ledger.context.chains_of(Family(entry.row.family)):
        request = request_id(entry.row.reference, claim.key, chain)
        ledger.send(
            topic=requests_topic(chain),
            key=request,
            message=LookUpTransaction(request=request, chain=chain, tx=claim.tx or ""),
            event_id=derived_id("request", request),
            recorded_at=item.recorded_at,
            subject=entry.row.reference,
        )


async def _rank_again(ledger: Ledger, entry: OrderEntry, item: Incoming, claim: Claim) -> None:
    """Rank again the transfers without an order that this claim names."""
    await ledger.flush()
    for chain in ledger.context.chains_of(Family(entry.row.family)):
        for row in ledger.transfers_of_tx(chain, claim.tx or ""):
            if ledger.owners_of(row.transfer):
                continue
            ledger.claims_seen = []
            await keep_own_exception(ledger, row, await find_match(ledger, row), item)
