"""The shop withdraws an order."""

from __future__ import annotations

import msgspec

from reconciler.services.incoming import Incoming
from reconciler.services.judge import catch_up, judge
from reconciler.services.ledger import Ledger, OrderEntry
from reconciler.services.place_order import journal_command
from reconciler.services.refused import RefusedError
from schemas.codes import Phase, Rejection
from schemas.commands import CancelOrder


async def cancel_order(
    ledger: Ledger, entry: OrderEntry, item: Incoming, command: CancelOrder, seq: int
) -> None:
    """Cancel. **Raises**: `RefusedError` when it is confirmed, has ended, or money was seen."""
    await catch_up(ledger, entry)
    status = entry.state.status
    if status is not None and status.phase is Phase.CONFIRMED:
        raise RefusedError(Rejection.ORDER_CONFIRMED)
    if status is not None and status.has_ended:
        raise RefusedError(Rejection.ORDER_ENDED, f"Found {status.phase.value}.")
    if status is not None and status.counted and not command.force:
        seen = status.received_final + status.received_pending
        raise RefusedError(Rejection.MONEY_PENDING, f"Found {seen} base units.")
    decisions = msgspec.structs.replace(
        entry.state.decisions, cancelled=True, cancel_reason=command.reason
    )
    entry.change(decisions=decisions)
    if status is not None:
        # One that a person had brought back may be cancelled once more.
        entry.change(status=msgspec.structs.replace(status, ended_as=None))
    journal_command(ledger, entry, item, seq)
    lane = ledger.lane_of(entry)
    await judge(ledger, entry, lane.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False))
