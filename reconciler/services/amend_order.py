"""New terms for an order that is not confirmed: amount, a later deadline, lines."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from chains.registry import parse_address, payment_uri
from reconciler.model.order import Terms
from reconciler.services.incoming import Incoming
from reconciler.services.judge import catch_up, judge
from reconciler.services.ledger import Ledger, OrderEntry
from reconciler.services.place_order import (
    amount_of,
    check_lines,
    check_minimum,
    journal_command,
    on_one_line,
    reserve_amount,
)
from reconciler.services.refused import RefusedError
from reconciler.storage import writes
from schemas.codes import Phase, Rejection
from schemas.commands import AmendOrder
from schemas.values import utc

#: How far ahead a deadline may lie: a rental is paid within days, and a shared amount stays reserved.
DEADLINE_AHEAD_MAX: Final = timedelta(days=366)


async def amend_order(
    ledger: Ledger, entry: OrderEntry, item: Incoming, command: AmendOrder, seq: int
) -> None:
    """Make a new version of the terms. **Raises**: `RefusedError`, before anything is changed."""
    await catch_up(ledger, entry)
    status = entry.state.status
    if status is not None and status.phase is Phase.CONFIRMED:
        raise RefusedError(Rejection.ORDER_CONFIRMED)
    if status is not None and status.has_ended:
        raise RefusedError(Rejection.ORDER_ENDED, f"Found {status.phase.value}.")
    terms = await _amended(ledger, entry, item, command)
    entry.change(terms=msgspec.structs.replace(terms, version=terms.version + 1))
    await _keep_reservation(ledger, entry)
    journal_command(ledger, entry, item, seq)
    lane = ledger.lane_of(entry)
    await judge(ledger, entry, lane.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False))


async def _amended(ledger: Ledger, entry: OrderEntry, item: Incoming, command: AmendOrder) -> Terms:
    terms = entry.state.terms
    changes: dict[str, object] = {}
    if command.lines is not None:
        check_lines(command.lines, bytes_max=ledger.context.lines_bytes_max)
        changes["lines"] = on_one_line(command.lines)
    if command.deadline is not None:
        changes["deadline"] = _later(terms, item, command.deadline)
    if command.amount is not None or command.amount_decimal is not None:
        changes |= await _new_amount(ledger, entry, item, command)
    if not changes:
        raise RefusedError(Rejection.NOTHING_TO_AMEND)
    return msgspec.structs.replace(terms, **changes)


def _later(terms: Terms, item: Incoming, deadline: datetime) -> datetime:
    """Check a new deadline. Aware instants at the ends of the calendar have no UTC form."""
    try:
        later = utc(deadline)
    except OverflowError as error:
        raise RefusedError(Rejection.DEADLINE_TOO_FAR, f"Found {deadline}.") from error
    if later <= terms.deadline:
        raise RefusedError(Rejection.DEADLINE_NOT_LATER, f"Found {deadline}.")
    if later > item.recorded_at + DEADLINE_AHEAD_MAX:
        raise RefusedError(Rejection.DEADLINE_TOO_FAR, f"Found {deadline}.")
    return later


async def _new_amount(
    ledger: Ledger, entry: OrderEntry, item: Incoming, command: AmendOrder
) -> dict[str, object]:
    """Read a new amount; on a shared address a new one is reserved and the old one kept as well."""
    terms = entry.state.terms
    asset = ledger.context.catalogue.asset(terms.asset)
    asked = amount_of(command, asset)
    route = ledger.context.routes.get(terms.route)
    check_minimum(route, asked)
    due = asked
    if terms.mode == "shared":
        if route is None:
            raise RefusedError(Rejection.UNKNOWN_ROUTE, f"Found {terms.route!r}.")
        due = await reserve_amount(
            ledger, item, route, ledger.address_of(entry), asked, terms.reference
        )
    address = parse_address(terms.chain, terms.address)
    return {"asked": asked, "due": due, "payment_uri": payment_uri(asset, address, due)}


async def _keep_reservation(ledger: Ledger, entry: OrderEntry) -> None:
    """Let the reserved amounts last as long as the new deadline needs."""
    terms = entry.state.terms
    if terms.mode != "shared":
        return
    await ledger.flush()
    policy = terms.policy
    span_s = policy.grace_s + max(policy.claim_extension_s, policy.claim_extension_known_s)
    await writes.extend_reservations(
        ledger.work, terms.reference, match_end=terms.deadline + timedelta(seconds=span_s)
    )
