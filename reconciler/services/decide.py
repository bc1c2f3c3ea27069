"""A person decides: an input like any fact, journalled with name and reason, undone by another.

What a decision changed is kept beside it (`before`), so that `undo` puts it back and judges again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from reconciler.lifecycle.counting import end_of_open, is_implausible, is_in_time
from reconciler.matcher import Share
from reconciler.matcher.match import Match
from reconciler.model.order import OrderDecisions
from reconciler.model.status import Status
from reconciler.services.balances import address_of_subject, settle_balance
from reconciler.services.claims import settle_claims
from reconciler.services.coverage import drain_lane, wake_subject
from reconciler.services.desk import close_exception, settle_exception
from reconciler.services.incoming import Incoming, journal_body
from reconciler.services.judge import catch_up, catch_up_all, judge
from reconciler.services.ledger import Ledger, OrderEntry
from reconciler.services.matching import find_match, give_by_match
from reconciler.services.refused import RefusedError
from reconciler.services.unreadable import settle_unreadable
from reconciler.storage import reads, writes
from reconciler.storage.rows import DecisionRow, HoldRow, LaneRow, TransferRow
from schemas.amounts import AmountError, BaseUnits, parse_base_units
from schemas.caip import ChainName, family_of
from schemas.codes import ExceptionKind, MatchRule, Phase, Rejection, TransferState
from schemas.commands import (
    AcceptShort,
    Action,
    Assign,
    Blank,
    Close,
    Decide,
    Hold,
    Reject,
    Release,
    Returned,
    Revive,
    Split,
    Undo,
    WriteOff,
)
from schemas.values import (
    SHORT_TEXT_MAX,
    Message,
    OrderReference,
    TransferName,
    cut,
    decode_hook,
    encode_hook,
)

#: Overdue orders that are told of a hold at once. The others, and those whose time ends while it
#: lasts, hear of it when the hold is said again (`services.blindness`).
_HELD_AT_ONCE: Final = 1_000

_MISSING: Final[dict[Blank, Rejection]] = {
    "actor": Rejection.ACTOR_MISSING,
    "reason": Rejection.REASON_MISSING,
    "transaction": Rejection.TRANSACTION_MISSING,
}


class Before(Message, frozen=True):
    """What stood before a decision, as far as an undo must put it back."""

    transfer: str | None = None
    shares: tuple[tuple[str, BaseUnits], ...] = ()
    decided: bool = False
    rejected_from: str | None = None
    disposed: str | None = None
    order: str | None = None
    decisions: OrderDecisions | None = None
    word: Literal["accepted", "revived"] | None = None
    subject: str | None = None


class _Done(Message, frozen=True):
    """What a decision touched."""

    before: Before
    orders: tuple[str, ...] = ()


async def decide(ledger: Ledger, item: Incoming, command: Decide, seq: int) -> None:
    """Carry a decision out. **Raises**: `RefusedError`, before anything is changed."""
    action = command.action
    for name in command.blanks:
        raise RefusedError(_MISSING[name])
    await load_for_decision(ledger, action)
    if isinstance(action, Undo):
        done = await _undo(ledger, item, command, action)
    else:
        done = await _carry_out(ledger, item, command, action, seq)
    ledger.add_new(
        "decisions",
        DecisionRow(
            key=command.idempotency_key,
            actor=command.actor,
            reason=command.reason,
            action=msgspec.json.encode(action),
            before=msgspec.json.encode(done.before, enc_hook=encode_hook),
            decided_at=item.recorded_at,
        ),
    )
    _journal(ledger, item, command, done, seq)
    for reference in done.orders:
        entry = ledger.orders[reference]
        _note_taken(ledger, entry, done.before)
        settle_claims(ledger, entry)
        lane = ledger.lane_of(entry)
        moment = lane.moment(seq=seq, recorded_at=item.recorded_at, verdicts=True)
        await judge(ledger, entry, moment, by_person=True)


def _note_taken(ledger: Ledger, entry: OrderEntry, before: Before) -> None:
    """Remember what of a confirmation this decision took, and forget what it gave back."""
    status, name = entry.state.status, before.transfer
    if name is None or status is None:
        return
    order = entry.row.reference
    was = dict(before.shares).get(order, 0)
    now = sum(s.share for s in ledger.shares_of(name) if s.order_ref == order)
    others = tuple(n for n in entry.state.decisions.taken if n != name)
    taken = (*others, TransferName(name)) if now < was and name in status.confirmed_by else others
    if now != was and taken != entry.state.decisions.taken:
        entry.change(decisions=msgspec.structs.replace(entry.state.decisions, taken=taken))


async def load_for_decision(ledger: Ledger, action: Action) -> None:
    """Lock and read what a decision is about: its transfer with all owners, its orders.

    Done before a number is drawn, so that the numbers are in the order of the locks.
    """
    references: list[str] = []
    if isinstance(action, Assign | Split | Reject | Returned | WriteOff):
        references += await _load_transfer(ledger, action.transfer)
    if isinstance(action, Undo):
        references += await _load_undone(ledger, action)
    if isinstance(action, Close):
        references += await _load_closed(ledger, action)
    if isinstance(action, Assign | AcceptShort | Revive):
        references.append(action.reference)
    if isinstance(action, Split):
        references += [part.reference for part in action.parts]
    await ledger.load_orders(references)


async def _load_transfer(ledger: Ledger, name: str) -> list[str]:
    """Read a transfer behind its address's lock; gives the orders that may have it."""
    found = await reads.transfers(ledger.work, [name])
    await ledger.lock_addresses((row.family, row.address_key) for row in found.values())
    if name not in ledger.transfers:
        await ledger.load_transfers((await reads.transfers(ledger.work, found)).values())
    row = ledger.transfers.get(name)
    if row is None:
        return []
    owner = ledger.addresses[row.family, row.address_key].owner
    return [*ledger.owners_of(name), *([owner] if owner is not None else [])]


async def _load_closed(ledger: Ledger, action: Close) -> list[str]:
    """Lock what an exception is about, before the exception itself; gives the orders that it touches."""
    found = await reads.exceptions(ledger.work, [action.exception])
    row = found.get(action.exception)
    if row is None:
        return []
    if row.kind == ExceptionKind.BALANCE_DIFFERS and row.chain is not None:
        await ledger.lock_addresses([address_of_subject(row.subject, ChainName(row.chain))])
    references = [] if row.order_ref is None else [row.order_ref]
    if row.transfer is not None:
        references += await _load_transfer(ledger, row.transfer)
    return references


async def _load_undone(ledger: Ledger, action: Undo) -> list[str]:
    """Read what a decision to be taken back was about; gives the orders that it may touch."""
    row = await _decision(ledger, action)
    if row is None:
        return []
    before = _read_before(row)
    references = [order for order, _ in before.shares]
    if before.transfer is not None:
        references += await _load_transfer(ledger, before.transfer)
    if before.order is not None:
        references.append(before.order)
    return references


async def _decision(ledger: Ledger, action: Undo) -> DecisionRow | None:
    """Read the decision to be taken back; it may stand in the same batch."""
    if "decisions" in ledger.new_rows:
        await ledger.flush()
    return (await reads.decisions(ledger.work, [action.decision])).get(action.decision)


def _read_before(row: DecisionRow) -> Before:
    return msgspec.json.decode(row.before, type=Before, dec_hook=decode_hook)


async def _carry_out(
    ledger: Ledger, item: Incoming, command: Decide, action: Action, seq: int
) -> _Done:
    if isinstance(action, Assign):
        row = _transfer(ledger, action.transfer)
        share = Share(OrderReference(action.reference), row.amount)
        return await _give(ledger, item, row, [share], command)
    if isinstance(action, Split):
        return await _give(ledger, item, *_parts(ledger, action), command)
    if isinstance(action, Reject):
        return await _reject(ledger, item, action)
    if isinstance(action, Returned | WriteOff):
        return await _dispose(ledger, item, command, action)
    if isinstance(action, AcceptShort | Revive):
        return await _about_order(ledger, action)
    if isinstance(action, Close):
        return await _close(ledger, item, command, action, seq)
    if isinstance(action, Hold):
        return await _hold(ledger, item, command, action)
    return await _release(ledger, action, seq)


def _transfer(ledger: Ledger, name: str) -> TransferRow:
    row = ledger.transfers.get(name)
    if row is None:
        raise RefusedError(Rejection.UNKNOWN_TRANSFER, f"Found {name}.")
    return row


def _order(ledger: Ledger, reference: str) -> OrderEntry:
    entry = ledger.orders.get(reference)
    if entry is None:
        raise RefusedError(Rejection.UNKNOWN_ORDER, f"Found {reference}.")
    return entry


def _parts(ledger: Ledger, action: Split) -> tuple[TransferRow, Sequence[Share]]:
    """Read the parts of a split; they add up to the transfer exactly, each order once."""
    row = _transfer(ledger, action.transfer)
    try:
        shares = [Share(part.reference, parse_base_units(part.amount)) for part in action.parts]
    except AmountError as error:
        raise RefusedError(Rejection(error.code), f"{error}.") from error
    total = sum(share.amount for share in shares)
    if total != row.amount or any(share.amount == 0 for share in shares):
        detail = f"Expected parts above zero that add up to {row.amount}, found {total}."
        raise RefusedError(Rejection.PARTS_DO_NOT_ADD_UP, detail)
    if len({share.order for share in shares}) != len(shares):
        raise RefusedError(Rejection.PARTS_DO_NOT_ADD_UP, "An order is named twice.")
    return row, shares


async def _give(
    ledger: Ledger,
    item: Incoming,
    row: TransferRow,
    shares: Sequence[Share],
    command: Decide,
) -> _Done:
    """Give a transfer to orders of its own asset and chain."""
    _check_free(row)
    for share in shares:
        terms = _order(ledger, share.order).state.terms
        if (terms.asset, terms.chain) != (row.asset, row.chain):
            detail = f"Expected {terms.asset}, found {row.asset}."
            raise RefusedError(Rejection.WRONG_ASSET, detail)
        if is_implausible(terms, row.amount, decided=True):
            detail = f"Nothing above {terms.policy.amount_max} counts, found {row.amount}."
            raise RefusedError(Rejection.DECISION_NOT_POSSIBLE, detail)
    touched = {*ledger.owners_of(row.transfer), *(share.order for share in shares)}
    before = _before(ledger, row)
    await catch_up_all(ledger, touched)
    for share in shares:
        _take_up_again(ledger.orders[share.order], row)
    match = Match(
        rule=MatchRule.DECISION,
        shares=tuple(shares),
        reason=cut(f"{command.actor}: {command.reason}", SHORT_TEXT_MAX),
    )
    row.rejected_from = None
    await give_by_match(ledger, row, match, item)
    return _Done(before=before, orders=tuple(sorted(touched)))


def _take_up_again(entry: OrderEntry, row: TransferRow) -> None:
    """What was set aside when the order was cancelled is given to it anew."""
    status = entry.state.status
    if status is None or row.transfer not in status.set_aside:
        return
    rest = tuple(name for name in status.set_aside if name != row.transfer)
    entry.change(status=msgspec.structs.replace(status, set_aside=rest))


async def _match_anew(ledger: Ledger, row: TransferRow, item: Incoming) -> set[str]:
    """Let the rules say whose a transfer is; gives the orders that get it, caught up before."""
    match = await find_match(ledger, row)
    winners: set[str] = {share.order for share in match.shares}
    await ledger.load_orders(winners)
    await catch_up_all(ledger, winners)
    await give_by_match(ledger, row, match, item)
    return winners


def _check_free(row: TransferRow) -> None:
    """Refuse to decide about money that is gone or was sent back."""
    if row.disposed is not None or row.state == TransferState.DROPPED:
        detail = f"The transfer is {row.disposed or row.state}."
        raise RefusedError(Rejection.DECISION_NOT_POSSIBLE, detail)


async def _reject(ledger: Ledger, item: Incoming, action: Reject) -> _Done:
    row = _transfer(ledger, action.transfer)
    _check_free(row)
    owners = set(ledger.owners_of(row.transfer))
    if not owners:
        raise RefusedError(Rejection.DECISION_NOT_POSSIBLE, "The transfer has no order.")
    before = _before(ledger, row)
    await catch_up_all(ledger, owners)
    row.rejected_from = min(owners)
    ledger.give(row.transfer, [])
    owners |= await _match_anew(ledger, row, item)
    return _Done(before=before, orders=tuple(sorted(owners)))


async def _dispose(
    ledger: Ledger, item: Incoming, command: Decide, action: Returned | WriteOff
) -> _Done:
    """Settle a transfer that pays nothing: sent back, or written off."""
    row = _transfer(ledger, action.transfer)
    _check_free(row)
    owners = set(ledger.owners_of(row.transfer))
    await catch_up_all(ledger, owners)
    for reference in owners:
        status = _order(ledger, reference).state.status
        if status is not None and row.transfer in status.counted and not status.has_ended:
            detail = f"It counts for order {reference}."
            raise RefusedError(Rejection.DECISION_NOT_POSSIBLE, detail)
    before = _before(ledger, row)
    by = f"{command.actor}: {command.reason}"
    returned = isinstance(action, Returned)
    row.disposed = f"returned in {action.tx}" if isinstance(action, Returned) else "written off"
    if row.open_kind is not None and row.open_kind != ExceptionKind.DUST:
        await _settle_own(ledger, row, item.recorded_at, by=by, returned=returned)
    ledger.put_transfer(row)
    return _Done(before=before, orders=tuple(sorted(owners)))


async def _settle_own(
    ledger: Ledger, row: TransferRow, at: datetime, *, by: str, returned: bool
) -> None:
    word = "returned" if returned else "written off"
    kind = ExceptionKind(str(row.open_kind))
    await close_exception(ledger, kind, row.transfer, at, why=f"{word} by {by}")
    row.open_kind = None


async def _about_order(ledger: Ledger, action: AcceptShort | Revive) -> _Done:
    entry = _order(ledger, action.reference)
    await catch_up(ledger, entry)
    status = entry.state.status
    before = Before(
        order=entry.row.reference,
        decisions=entry.state.decisions,
        word="accepted" if isinstance(action, AcceptShort) else "revived",
    )
    if isinstance(action, AcceptShort):
        if status is None or status.received_final == 0 or status.phase is Phase.CONFIRMED:
            raise RefusedError(Rejection.NOTHING_TO_ACCEPT)
        changed = msgspec.structs.replace(
            entry.state.decisions, accepted=BaseUnits(status.received_final)
        )
    else:
        if status is None or status.phase not in {Phase.EXPIRED, Phase.UNDERPAID}:
            raise RefusedError(Rejection.NOT_REVIVABLE)
        if not _may_revive(ledger, entry, status):
            detail = "Its price holds no longer: what is late came after the time to pay."
            raise RefusedError(Rejection.NOT_REVIVABLE, detail)
        changed = msgspec.structs.replace(entry.state.decisions, revived=True)
    entry.change(decisions=changed)
    return _Done(before=before, orders=(entry.row.reference,))


def _may_revive(ledger: Ledger, entry: OrderEntry, status: Status) -> bool:
    """Tell whether the price holds: for a stable asset, or for money that was first seen in time."""
    terms, claims = entry.state.terms, entry.state.claims
    end = end_of_open(terms, claims, status.reversed_at)
    late = [t for t in ledger.view_of(entry) if t.transfer in status.late]
    return terms.policy.stable or any(is_in_time(terms, claims, t, end) for t in late)


async def _close(ledger: Ledger, item: Incoming, command: Decide, action: Close, seq: int) -> _Done:
    by = f"{command.actor}: {command.reason}"
    await _drain_all(ledger)  # its order may be due to open or to close it
    row = await ledger.exception(action.exception)
    if row is None or not await settle_exception(ledger, row.exception, item.recorded_at, by=by):
        raise RefusedError(Rejection.UNKNOWN_EXCEPTION, f"No open one is {action.exception}.")
    orders: list[str] = []
    if row.kind == ExceptionKind.UNREADABLE_FACT:
        topic = row.subject.partition("/")[0]
        chain = ledger.context.chain_of_topic.get(topic)
        if chain is not None:
            orders = await settle_unreadable(ledger, row.subject, family_of(chain), seq)
    if row.kind == ExceptionKind.BALANCE_DIFFERS and row.chain is not None:
        chain = ChainName(row.chain)
        orders = await settle_balance(ledger, row.subject, chain, seq, item.recorded_at)
    return _Done(before=Before(), orders=tuple(orders))


async def _hold(ledger: Ledger, item: Incoming, command: Decide, action: Hold) -> _Done:
    row = HoldRow(
        subject=action.subject,
        actor=command.actor,
        reason=command.reason,
        since=item.recorded_at,
    )
    if action.subject not in _subjects(ledger):
        detail = f"Expected a chain, an asset or a route, found {action.subject!r}."
        raise RefusedError(Rejection.DECISION_NOT_POSSIBLE, detail)
    await _drain_all(ledger)
    again = action.subject in ledger.holds
    await writes.put_hold(ledger.work, row)
    ledger.holds.setdefault(action.subject, row)
    overdue = await reads.overdue_orders(
        ledger.work,
        action.subject,
        before=item.recorded_at,
        limit=_HELD_AT_ONCE,
        untold=again,
    )
    await ledger.load_orders(overdue)
    return _Done(before=Before(subject=action.subject), orders=tuple(sorted(overdue)))


async def _release(ledger: Ledger, action: Action, seq: int) -> _Done:
    subject = action.subject if isinstance(action, Release) else ""
    if subject not in ledger.holds:
        raise RefusedError(Rejection.DECISION_NOT_POSSIBLE, f"Nothing holds {subject!r}.")
    await _drain_all(ledger)
    del ledger.holds[subject]
    await writes.lift_hold(ledger.work, subject)
    await wake_subject(ledger, subject, seq)
    return _Done(before=Before(subject=subject))


async def _drain_all(ledger: Ledger) -> None:
    """Judge what is due by what was so before the decision; all lanes are locked."""
    names = await reads.lane_names(ledger.work)
    await ledger.load_lanes(names)
    for name in names:
        await drain_lane(ledger, ledger.lanes[name])


def _subjects(ledger: Ledger) -> set[str]:
    """List what can be held: configured chains, their assets and routes."""
    context = ledger.context
    assets = {a.id for chain in context.lanes for a in context.catalogue.assets_of(chain)}
    return {*context.lanes, *assets, *context.routes}


async def _undo(ledger: Ledger, item: Incoming, command: Decide, action: Undo) -> _Done:
    """Put back what a decision changed, and judge again."""
    row = await _decision(ledger, action)
    if row is None:
        raise RefusedError(Rejection.UNKNOWN_DECISION, f"Found {action.decision}.")
    if row.undone_by is not None:
        raise RefusedError(Rejection.ALREADY_UNDONE, f"By {row.undone_by}.")
    before = _read_before(row)
    done = _Done(before=Before())
    if before.transfer is not None:
        done = await _put_back_transfer(ledger, item, before)
    elif before.order is not None and before.decisions is not None:
        await ledger.load_orders([before.order])
        entry = _order(ledger, before.order)
        await catch_up(ledger, entry)
        old = msgspec.structs.replace(before, decisions=entry.state.decisions)
        entry.change(decisions=_without(entry.state.decisions, before))
        done = _Done(before=old, orders=(before.order,))
    else:
        raise RefusedError(Rejection.DECISION_NOT_POSSIBLE, "Decide the opposite instead.")
    await writes.mark_undone(ledger.work, action.decision, by=command.idempotency_key)
    return done


def _without(now: OrderDecisions, before: Before) -> OrderDecisions:
    """Put back the one word that a decision changed; what was decided beside it since stays."""
    old = before.decisions or OrderDecisions()
    if before.word == "accepted":
        return msgspec.structs.replace(now, accepted=old.accepted)
    return msgspec.structs.replace(now, revived=old.revived)


async def _put_back_transfer(ledger: Ledger, item: Incoming, before: Before) -> _Done:
    name = before.transfer or ""
    owners = {*await _load_transfer(ledger, name), *(order for order, _ in before.shares)}
    row = _transfer(ledger, name)
    await ledger.load_orders(owners)
    now = _before(ledger, row)
    await catch_up_all(ledger, owners)
    row.rejected_from, row.disposed = before.rejected_from, before.disposed
    if before.decided:
        shares = [Share(OrderReference(order), amount) for order, amount in before.shares]
        await give_by_match(ledger, row, await find_match(ledger, row, shares), item)
    else:
        ledger.give(row.transfer, [])
        owners |= await _match_anew(ledger, row, item)
    return _Done(before=now, orders=tuple(sorted(owners)))


def _before(ledger: Ledger, row: TransferRow) -> Before:
    return Before(
        transfer=row.transfer,
        shares=tuple((s.order_ref, s.share) for s in ledger.shares_of(row.transfer)),
        decided=row.decided,
        rejected_from=row.rejected_from,
        disposed=row.disposed,
    )


def _journal(ledger: Ledger, item: Incoming, command: Decide, done: _Done, seq: int) -> None:
    """Write the decision into the chain of its first order, else of what it is about."""
    body = journal_body(item)
    if done.orders:
        entry = ledger.orders[done.orders[0]]
        entry.dirty = True
        ledger.journal.add(
            seq=seq,
            head=entry.row,
            chain_key=f"order/{entry.row.reference}",
            kind="decision",
            recorded_at=item.recorded_at,
            body=body,
        )
        return
    head = LaneRow(lane="", chain="")
    ledger.journal.add(
        seq=seq,
        head=head,
        chain_key=f"decision/{command.idempotency_key}",
        kind="decision",
        recorded_at=item.recorded_at,
        body=body,
    )
