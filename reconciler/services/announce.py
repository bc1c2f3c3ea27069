"""Payment events: what the shop is told, from an order's state and its new status."""

from __future__ import annotations

from typing import Final

from reconciler.lifecycle.assess import Assessment
from reconciler.lifecycle.counting import end_of_open, is_in_time
from reconciler.lifecycle.finality import depth_of, depth_required, tier_of_transfer
from reconciler.model.order import Terms
from reconciler.model.status import Moment, Status
from reconciler.model.transfer import OrderTransfer
from reconciler.services.ledger import Ledger, OrderEntry
from reconciler.services.state import OrderState
from reconciler.stream.topics import PAYMENT_EVENTS
from schemas.amounts import ZERO
from schemas.codes import Phase
from schemas.envelope import derived_id
from schemas.events import (
    CoverageSeen,
    EventClaim,
    EventKind,
    EventTransfer,
    PaymentEvent,
)
from schemas.values import SHORT_TEXT_MAX, cut

#: More of an order's transfers are not listed in an event; its sums are those of all of them.
TRANSFERS_TOLD_MAX: Final = 200


def announce(
    ledger: Ledger,
    entry: OrderEntry,
    assessment: Assessment,
    kinds: tuple[EventKind, ...],
    moment: Moment,
) -> list[bytes]:
    """Put one event a kind into the outbox, in sequence, with everything that is true now."""
    sent: list[bytes] = []
    for kind in kinds:
        entry.row.sequence += 1
        status = _placed(assessment.status) if kind is EventKind.AWAITING else assessment.status
        event = _event(entry, status, assessment.transfers, kind, moment)
        if kind is EventKind.CONFIRMED:
            entry.change(confirmed_sequence=entry.row.sequence)
        value = ledger.send(
            topic=PAYMENT_EVENTS,
            key=entry.row.reference,
            message=event,
            event_id=event_id(entry.row.reference, entry.row.sequence),
            recorded_at=moment.recorded_at,
            subject=entry.row.reference,
            sequence=entry.row.sequence,
        )
        sent.append(value)
    return sent


def event_id(reference: str, sequence: int) -> str:
    """Compute an event's id from its order and sequence, so that a replay makes the same."""
    return derived_id("payment-event", reference, str(sequence))


def _placed(status: Status) -> Status:
    """Give the status of an order just placed: `awaiting` tells of nothing else."""
    return Status(
        phase=Phase.AWAITING_PAYMENT, terms_version=status.terms_version, reason="nothing seen yet"
    )


def _event(
    entry: OrderEntry,
    status: Status,
    transfers: tuple[OrderTransfer, ...],
    kind: EventKind,
    moment: Moment,
) -> PaymentEvent:
    state, terms = entry.state, entry.state.terms
    restores = state.confirmed_sequence if kind is EventKind.CONFIRMED else None
    placed = kind is EventKind.AWAITING
    return PaymentEvent(
        order=terms.reference,
        purchase=terms.purchase,
        sequence=entry.row.sequence,
        kind=kind,
        phase=status.phase,
        amount_state=status.amount_state,
        attention=status.attention,
        route=terms.route,
        chain=terms.chain,
        asset=terms.asset,
        decimals=terms.policy.decimals,
        due=terms.due,
        received_final=status.received_final,
        received_pending=status.received_pending,
        missing=terms.due if placed else status.missing,
        excess=status.excess,
        address=terms.address,
        payment_uri=terms.payment_uri,
        page_token=terms.page_token,
        deadline=terms.deadline,
        open_until=end_of_open(terms, state.claims, status.reversed_at),
        transfers=() if placed else _transfers(state, status, transfers, moment),
        claims=tuple(
            EventClaim(claimed_at=claim.claimed_at, transaction=claim.tx, end=claim.end)
            for claim in state.claims
        ),
        coverage=CoverageSeen(chain=terms.chain, height=moment.height, time=moment.coverage_time),
        restores=restores,
        reason=cut(status.reason, SHORT_TEXT_MAX),
        occurred_at=moment.recorded_at,
        fiat=terms.fiat,
        lines=terms.lines,
    )


def _transfers(
    state: OrderState, status: Status, transfers: tuple[OrderTransfer, ...], moment: Moment
) -> tuple[EventTransfer, ...]:
    transfers = _worth_telling(status, transfers)
    order_sum = status.received_final + status.received_pending
    end = end_of_open(state.terms, state.claims, status.reversed_at)
    return tuple(
        _transfer(
            state.terms,
            status,
            transfer,
            moment,
            order_sum=order_sum,
            in_time=is_in_time(state.terms, state.claims, transfer, end),
        )
        for transfer in transfers
    )


def _worth_telling(
    status: Status, transfers: tuple[OrderTransfer, ...]
) -> tuple[OrderTransfer, ...]:
    """Choose what an event lists: anybody can send dust, and a message has a largest size.

    What counts first, then the largest; in the order in which they came.
    """
    if len(transfers) <= TRANSFERS_TOLD_MAX:
        return transfers
    counted = set(status.counted)
    ranked = sorted(
        range(len(transfers)),
        key=lambda n: (transfers[n].transfer not in counted, -transfers[n].amount, n),
    )
    return tuple(transfers[n] for n in sorted(ranked[:TRANSFERS_TOLD_MAX]))


def _transfer(
    terms: Terms,
    status: Status,
    transfer: OrderTransfer,
    moment: Moment,
    *,
    order_sum: int,
    in_time: bool,
) -> EventTransfer:
    tier = tier_of_transfer(terms, transfer, order_sum)
    ours = transfer.chain == terms.chain
    return EventTransfer(
        transfer=transfer.transfer,
        asset=transfer.asset,
        amount=transfer.amount,
        counted=transfer.share if transfer.transfer in status.counted else ZERO,
        state=transfer.state,
        block=transfer.block,
        depth=depth_of(transfer, moment.height) if ours else 0,
        depth_required=depth_required(tier, transfer, terms.policy) if ours else None,
        in_time=in_time,
        rule=transfer.rule,
        reason=cut(transfer.reason, SHORT_TEXT_MAX),
    )
