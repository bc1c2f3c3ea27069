"""Finds what bears on a transfer's match and asks the matcher."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chains.addresses import canonical_key
from reconciler.matcher import Candidate, Match, MatchQuestion, Reservation, Share, match_transfer
from reconciler.services.desk import close_exception, open_exception
from reconciler.services.incoming import Incoming
from reconciler.services.judge import dust_cause, dust_of, transfer_cause
from reconciler.services.ledger import Ledger
from reconciler.storage import reads, rows
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName, Family
from schemas.codes import ExceptionKind, MatchRule, TransferState
from schemas.facts import TransferSeen
from schemas.values import OrderReference


async def prepare_matching(
    ledger: Ledger, family: Family, seen: Sequence[TransferSeen], txs: set[str]
) -> None:
    """Read reservations and claims that bear on the batch's transfers, in bulk.

    A claim bears on a transfer to any address: it ends by it, whoever is paid. A named sender only
    ranks on a shared one.
    """
    wanted: list[tuple[str, str, str, BaseUnits]] = []
    senders: set[str] = set()
    for fact in seen:
        key = canonical_key(fact.chain, fact.to)
        address = ledger.addresses.get((family, key))
        if address is None or address.owner is not None:
            continue
        wanted.append((family, key, fact.asset, fact.amount))
        senders.add(canonical_key(fact.chain, fact.sender))
    if txs:
        ledger.claims_seen += await reads.claims_naming(
            ledger.work, family, txs=txs, senders=senders
        )
    if wanted:
        ledger.reservations += await reads.reservations_of_amounts(ledger.work, wanted)
    claimants = {claim.order_ref for claim in ledger.claims_seen if claim.tx in txs}
    await ledger.load_orders(claimants | {row.order_ref for row in ledger.reservations})


async def find_match(ledger: Ledger, row: rows.TransferRow, decided: Iterable[Share] = ()) -> Match:
    """Ask which order a transfer pays, with everything that is known.

    The answer does not depend on what else is in the batch: what was not read for it is read here.
    """
    address = ledger.addresses[row.family, row.address_key]
    if address.owner is None:
        await _read_what_bears_on(ledger, row)
    question = _question(ledger, row, address, tuple(decided), _reservations(ledger, row))
    match = match_transfer(question)
    if match.shares or address.owner is not None:
        return match
    known = await reads.live_reservations(ledger.work, [(row.family, row.address_key)])
    named = [claim for claim in ledger.claims_seen if _names(claim, row)]
    if not named and row.tx:
        named = await reads.claims_naming(ledger.work, row.family, txs=[row.tx], senders=[])
    waiting = [_reservation(r) for r in known if row.first_time <= r.match_end]
    question = _question(ledger, row, address, (), waiting, named)
    return match_transfer(question)


async def _read_what_bears_on(ledger: Ledger, row: rows.TransferRow) -> None:
    """Read the reservations of a transfer's amount, unless the batch has them."""
    if ledger.new_rows.keys() & {"reservations", "claims"}:
        await ledger.flush()
    if _reservations(ledger, row):
        return
    key = (row.family, row.address_key, row.asset, row.amount)
    found = await reads.reservations_of_amounts(ledger.work, [key])
    ledger.reservations += found
    await ledger.load_orders(each.order_ref for each in found)


def _question(
    ledger: Ledger,
    row: rows.TransferRow,
    address: rows.AddressRow,
    decided: tuple[Share, ...],
    reservations: Sequence[Reservation],
    named: Sequence[rows.ClaimRow] = (),
) -> MatchQuestion:
    owner = ledger.orders.get(address.owner) if address.owner else None
    return MatchQuestion(
        asset=AssetName(row.asset),
        chain=ChainName(row.chain),
        amount=row.amount,
        first_time=row.first_time,
        dust=dust_of(ledger, row.asset),
        known_asset=True,
        owner=OrderReference(address.owner) if address.owner else None,
        owner_asset=owner.state.terms.asset if owner else None,
        owner_chain=owner.state.terms.chain if owner else None,
        reservations=reservations,
        candidates=tuple(
            Candidate(
                order=OrderReference(claim.order_ref),
                why="claimed_transaction" if claim.tx == row.tx else "named_sender",
            )
            for claim in named
        ),
        decided=decided,
        rejected=OrderReference(row.rejected_from) if row.rejected_from else None,
    )


def _names(claim: rows.ClaimRow, row: rows.TransferRow) -> bool:
    return claim.tx == row.tx or (
        claim.sender is not None and claim.sender == canonical_key(ChainName(row.chain), row.sender)
    )


def _reservations(ledger: Ledger, row: rows.TransferRow) -> list[Reservation]:
    """Give the reservations of exactly this amount whose match span holds the transfer."""
    return [
        _reservation(r)
        for r in ledger.reservations
        if (r.family, r.address_key, r.asset) == (row.family, row.address_key, row.asset)
        and r.amount == row.amount
        and row.first_time <= r.match_end
    ]


def _reservation(row: rows.ReservationRow) -> Reservation:
    return Reservation(
        order=OrderReference(row.order_ref),
        asset=AssetName(row.asset),
        chain=ChainName(row.chain),
        amount=row.amount,
        since=row.since,
    )


async def give_by_match(
    ledger: Ledger, row: rows.TransferRow, match: Match, item: Incoming
) -> None:
    """Store a match: shares, rule and reason, and the exception of what no order explains."""
    row.rule, row.reason = match.rule, match.reason
    row.decided = match.rule is MatchRule.DECISION
    if match.shares:
        ledger.matched[row.chain, match.rule.value] += 1
    whole = len(match.shares) == 1
    ledger.give(
        row.transfer,
        [
            rows.ShareRow(
                transfer=row.transfer,
                part=0 if whole else number,
                order_ref=share.order,
                share=share.amount,
            )
            for number, share in enumerate(match.shares, start=1)
        ],
    )
    ledger.put_transfer(row)
    await keep_own_exception(ledger, row, match, item)


async def keep_own_exception(
    ledger: Ledger, row: rows.TransferRow, match: Match, item: Incoming
) -> None:
    """Open the exception of a transfer without an order; close it when it has one or is gone."""
    gone = row.state in {TransferState.DROPPED, TransferState.UNKNOWN}
    wanted = None if match.shares or gone or row.disposed else match.exception
    if row.open_kind not in {None, wanted, ExceptionKind.DUST}:
        await close_exception(
            ledger,
            ExceptionKind(str(row.open_kind)),
            row.transfer,
            item.recorded_at,
            why=match.reason if match.shares else "cause gone",
        )
    row.open_kind = wanted
    ledger.put_transfer(row)
    if wanted is None:
        return
    cause = transfer_cause(wanted, row, suggestions=match.suggestions, note=match.reason)
    if wanted is ExceptionKind.DUST:
        cause = dust_cause(row)
    await open_exception(ledger, cause, item.recorded_at)
