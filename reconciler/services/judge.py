"""Judging an order inside a unit of work: catch up, judge, tell, and keep its exceptions true.

An order is judged first at each applied watermark where it was due, then at the fact that touches it.
What comes out depends on the stream, not on batches or on when a sweeper came by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from chains.catalog import CatalogueError
from reconciler.kernel.checks import check
from reconciler.lifecycle.assess import Assessment, assess
from reconciler.lifecycle.counting import is_implausible
from reconciler.lifecycle.facts import OrderFacts
from reconciler.lifecycle.reversals import NOTES
from reconciler.lifecycle.transitions import events_between
from reconciler.model.order import Claim, Terms
from reconciler.model.status import Due, Moment, Status
from reconciler.services.announce import announce
from reconciler.services.claims import end_unseen_claims, is_taken
from reconciler.services.desk import Cause, close_exception, open_exception
from reconciler.services.ledger import Ledger, OrderEntry, moment_of, passes
from reconciler.storage import reads, rows
from schemas.caip import AssetName
from schemas.codes import Attention, ExceptionKind, Phase, TransferState
from schemas.events import EventKind, Suggestion

#: More judgements of one order between two facts would be a loop.
_CATCH_UP_MAX: Final = 10_000


async def catch_up(ledger: Ledger, entry: OrderEntry) -> None:
    """Judge at every watermark that made the order due since it was last judged.

    Orders of one purchase are judged together, watermark by watermark and the oldest first: which of
    two is confirmed, and what the other had by then, does not depend on who is looked at first.
    """
    for _ in range(_CATCH_UP_MAX):
        due = [
            (watermark.seq, number, watermark, member)
            for number, member in enumerate(ledger.group_of(entry))
            if (watermark := await _next_watermark(ledger, member)) is not None
        ]
        if not due:
            return
        _, _, watermark, member = min(due, key=lambda row: row[:2])
        await judge(ledger, member, moment_of(watermark))
    check(condition=False, sentence=f"order {entry.row.reference} is due without end")


async def catch_up_all(ledger: Ledger, references: Iterable[str]) -> None:
    """Catch up several orders, before a fact touches them."""
    for reference in sorted(set(references)):
        await catch_up(ledger, ledger.orders[reference])


async def _next_watermark(ledger: Ledger, entry: OrderEntry) -> rows.LaneLogRow | None:
    """Find the first watermark after the last judgement that passes what the order waits for."""
    lane, due, after = ledger.lane_of(entry), entry.due, entry.row.assessed_seq
    if not _can_be_due(due, lane.row, after):
        return None
    if await ledger.load_history(lane, after):
        stored = next((w for w in lane.history if w.seq > after and passes(due, w)), None)
    else:
        stored = await reads.first_watermark(
            ledger.work,
            lane.row.lane,
            after_seq=after,
            height=due.height,
            finalized_height=due.finalized_height,
            time=due.time,
        )
    here = next((w for w in lane.applied if w.seq > after and passes(due, w)), None)
    if stored is None or here is None:
        return stored or here
    return stored if stored.seq <= here.seq else here


def _can_be_due(due: Due, lane: rows.LaneRow, after_seq: int) -> bool:
    """Ask the lane's present coverage first; it only falls when everything due was judged."""
    if lane.seq <= after_seq:
        return False
    if due.height is not None and lane.height is not None and lane.height >= due.height:
        return True
    if due.finalized_height is not None and lane.finalized_height >= due.finalized_height:
        return True
    return due.time is not None and lane.decided_until is not None and lane.decided_until > due.time


async def judge(
    ledger: Ledger, entry: OrderEntry, moment: Moment, *, by_person: bool = False
) -> None:
    """Judge once, store, tell the difference, and act on what it means for others.

    `by_person` at a decision: also what it takes from one order may be final for another at once.
    """
    before = entry.state.status
    assessment = assess(_facts(ledger, entry), moment, before)
    for name in assessment.granted:
        row = ledger.transfers[name]
        row.state, row.was_final, row.retracted_at = TransferState.FINAL, True, None
        ledger.put_transfer(row)
    for told in assessment.transfers:
        if told.transfer in assessment.forgotten:
            row = ledger.transfers[told.transfer]
            row.state = told.state
            ledger.put_transfer(row)
    by_decision = by_person or assessment.by_decision
    kinds = events_between(before, assessment.status, by_decision=by_decision)
    _store(entry, assessment, moment)
    if assessment.status.has_ended:
        end_unseen_claims(entry)
    sent = announce(ledger, entry, assessment, kinds, moment)
    if before != assessment.status:
        ledger.journal.add(
            seq=moment.seq,
            head=entry.row,
            chain_key=f"order/{entry.row.reference}",
            kind="status",
            recorded_at=moment.recorded_at,
            body={
                "order": entry.row.reference,
                "sequence": entry.row.sequence,
                "events": kinds,
                "sent": [hashlib.sha256(value).hexdigest() for value in sent],
                "moment": moment,
                "status": assessment.status,
                "granted": assessment.granted,
            },
        )
    await _keep_exceptions(ledger, entry, moment.recorded_at)
    if EventKind.CONFIRMED in kinds:
        await _cancel_siblings(ledger, entry, moment)


def _facts(ledger: Ledger, entry: OrderEntry) -> OrderFacts:
    state = entry.state
    terms = state.terms
    address = ledger.address_of(entry)
    noted = {Attention(code) for code in address.noted.split(",") if code}
    return OrderFacts(
        terms=terms,
        claims=state.claims,
        transfers=ledger.view_of(entry),
        decisions=state.decisions,
        covered=address.is_covered(terms.chain),
        holds=_holds(ledger, entry),
        noted=frozenset(noted | set(state.noted)),
        looked_until=state.looked_until,
    )


def _holds(ledger: Ledger, entry: OrderEntry) -> tuple[str, ...]:
    """Say why verdicts on this order wait: a gap in its lane, or a person's hold."""
    terms = entry.state.terms
    lane = ledger.lane_of(entry).row
    found = [
        subject for subject in (terms.chain, terms.asset, terms.route) if subject in ledger.holds
    ]
    if lane.held is not None:
        found.append(lane.held)
    return tuple(found)


def _store(entry: OrderEntry, assessment: Assessment, moment: Moment) -> None:
    entry.change(status=assessment.status)
    row = entry.row
    row.assessed_seq = max(row.assessed_seq, moment.seq)
    row.due_time = assessment.due.time
    row.due_height = assessment.due.height
    row.due_finalized = assessment.due.finalized_height


async def _cancel_siblings(ledger: Ledger, entry: OrderEntry, moment: Moment) -> None:
    """Cancel the open orders of a purchase that another order has just paid.

    One that has ended without its money learns of it too: no rule revives it any more.
    """
    for sibling in ledger.group_of(entry):
        status = sibling.state.status
        if sibling is entry or status is None or status.phase in _SETTLED_PHASES:
            continue
        sibling.change(
            decisions=msgspec.structs.replace(sibling.state.decisions, sibling_confirmed=True)
        )
        await judge(ledger, sibling, await _moment_for(ledger, sibling, moment))


async def _moment_for(ledger: Ledger, sibling: OrderEntry, moment: Moment) -> Moment:
    """Say how far a sibling's own lane was read when the other order was confirmed.

    That may be told late, when more was read, or some of it taken back: the lane's log knows.
    """
    await ledger.flush()
    last = await reads.last_coverage(ledger.work, sibling.row.lane, upto_seq=moment.seq)
    if last is None:
        return Moment(seq=moment.seq, recorded_at=moment.recorded_at, verdicts=False)
    return msgspec.structs.replace(
        moment_of(last), seq=moment.seq, recorded_at=moment.recorded_at, verdicts=False
    )


_SETTLED_PHASES: Final = frozenset({Phase.CONFIRMED, Phase.CANCELLED})

#: What an order's attention opens, when it is about the order as a whole.
_BY_ATTENTION: Final = {
    Attention.OVERPAID: ExceptionKind.OVERPAID,
    Attention.CLAIMED_UNSEEN: ExceptionKind.CLAIMED_UNSEEN,
    Attention.PENDING_AT_END: ExceptionKind.PENDING_AT_END,
    Attention.PAID_UNFLAGGED: ExceptionKind.PAID_UNFLAGGED,
    Attention.NOT_COVERED: ExceptionKind.NOT_WATCHED,
}
#: A transfer in one of these states is not money that anybody has to explain.
_GONE: Final = frozenset({TransferState.DROPPED, TransferState.UNKNOWN})


async def _keep_exceptions(ledger: Ledger, entry: OrderEntry, at: datetime) -> None:
    """Open what the order needs a person for, close what it no longer does."""
    status = entry.state.status
    check(status is not None, f"order {entry.row.reference} was not judged")
    if status is None:
        return
    causes = [*_order_causes(entry, status), *_transfer_causes(ledger, entry, status)]
    for row in ledger.transfers_of(entry.row.reference):
        if _is_uncounted_dust(ledger, status, row):
            await open_exception(ledger, dust_cause(row), at)
    wanted = {(cause.kind.value, cause.subject): cause for cause in causes}
    if not wanted and not entry.state.open_exceptions:
        return
    for kind, subject in entry.state.open_exceptions:
        if (kind, subject) not in wanted:
            await close_exception(ledger, ExceptionKind(kind), subject, at, why="cause gone")
    for cause in wanted.values():
        await open_exception(ledger, cause, at)
    if tuple(sorted(wanted)) != entry.state.open_exceptions:
        entry.change(open_exceptions=tuple(sorted(wanted)))


def dust_of(ledger: Ledger, asset: str) -> int:
    """Give the amount of an asset below which nobody is troubled with a single transfer."""
    try:
        return ledger.context.catalogue.asset(AssetName(asset)).dust_base_units
    except CatalogueError:
        return 0


def _is_uncounted_dust(ledger: Ledger, status: Status, row: rows.TransferRow) -> bool:
    """Tell whether a transfer is kept and neither counted nor an exception of its own."""
    return (
        row.state not in _GONE
        and row.disposed is None
        and row.amount < dust_of(ledger, row.asset)
        and row.transfer not in status.counted
    )


def _order_causes(entry: OrderEntry, status: Status) -> Sequence[Cause]:
    terms = entry.state.terms
    kinds = [_BY_ATTENTION[code] for code in status.attention if code in _BY_ATTENTION]
    if status.phase is Phase.UNDERPAID:
        kinds.append(ExceptionKind.UNDERPAID)
    if status.was_confirmed and status.phase is not Phase.CONFIRMED:
        # Also when it has ended since: what was unlocked was not paid.
        kinds.append(ExceptionKind.REVERSED)
    amounts = {
        ExceptionKind.OVERPAID: status.excess,
        ExceptionKind.UNDERPAID: status.received_final,
        ExceptionKind.PENDING_AT_END: status.received_pending,
        ExceptionKind.PAID_UNFLAGGED: status.received_final,
    }
    about = [
        Cause(
            kind=kind,
            subject=terms.reference,
            chain=terms.chain,
            asset=terms.asset,
            amount=amounts.get(kind),
            order=terms.reference,
            note=NOTES[status.reversed_by] if kind is ExceptionKind.REVERSED else "",
        )
        for kind in kinds
    ]
    return about + [_used_claim(terms, claim) for claim in entry.state.claims if is_taken(claim)]


def _used_claim(terms: Terms, claim: Claim) -> Cause:
    """A customer names a transaction that paid another order."""
    return Cause(
        kind=ExceptionKind.CLAIM_ALREADY_USED,
        subject=f"{terms.reference}/{claim.tx}",
        chain=terms.chain,
        order=terms.reference,
        note=f"transaction {claim.tx}",
    )


def _transfer_causes(ledger: Ledger, entry: OrderEntry, status: Status) -> Sequence[Cause]:
    """Every unit that is ours and does not count is an open exception of its own."""
    terms = entry.state.terms
    twice = Attention.PAID_TWICE in status.attention
    found = []
    for row in ledger.transfers_of(terms.reference):
        if row.state in _GONE or row.disposed is not None:
            continue
        if _is_uncounted_dust(ledger, status, row):
            continue
        kind = None
        if row.chain != terms.chain:
            kind = ExceptionKind.WRONG_NETWORK
        elif row.asset != terms.asset:
            kind = ExceptionKind.WRONG_ASSET
        elif is_implausible(terms, row.amount, decided=row.decided):
            kind = ExceptionKind.IMPLAUSIBLE_AMOUNT
        elif row.transfer in status.late:
            kind = ExceptionKind.PAID_TWICE if twice else ExceptionKind.LATE
        if kind is not None:
            found.append(transfer_cause(kind, row, order=terms.reference))
    return found


def transfer_cause(
    kind: ExceptionKind,
    row: rows.TransferRow,
    *,
    order: str | None = None,
    suggestions: tuple[Suggestion, ...] = (),
    note: str = "",
) -> Cause:
    """Say what is known of a transfer that needs a person."""
    return Cause(
        kind=kind,
        subject=row.transfer,
        chain=row.chain,
        asset=row.asset,
        amount=row.amount,
        transfer=row.transfer,
        order=order,
        suggestions=suggestions,
        note=note,
    )


def dust_cause(row: rows.TransferRow) -> Cause:
    """Gather dust by asset and day: one exception, not a thousand."""
    return Cause(
        kind=ExceptionKind.DUST,
        subject=f"dust/{row.asset}/{row.first_time.date().isoformat()}",
        chain=row.chain,
        asset=row.asset,
    )
