"""Which transfers count for an order, and what they add up to. Sums are of the order's asset alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from reconciler.model.order import Claim, OrderDecisions, Terms, open_until
from reconciler.model.status import Moment, Status
from reconciler.model.transfer import OrderTransfer
from schemas.codes import Attention, Phase, TransferState


class Sums(Struct, frozen=True, kw_only=True):
    """What counts, by how sure it is, and why the rest does not. **Units**: base units."""

    final: int
    pending: int
    counted: tuple[OrderTransfer, ...]
    late: tuple[OrderTransfer, ...]
    attention: frozenset[Attention]

    @property
    def total(self) -> int:
        """Everything that counts, final or not."""
        return self.final + self.pending


_PENDING = frozenset({TransferState.SEEN, TransferState.INCLUDED})
_GONE = frozenset({TransferState.DROPPED, TransferState.UNKNOWN})


def end_of_open(terms: Terms, claims: tuple[Claim, ...], reversed_at: datetime | None) -> datetime:
    """Give the end of *open*; a reversed order is open again for as long as a claim would earn."""
    end = open_until(terms, claims)
    if reversed_at is None:
        return end
    return max(end, reversed_at + timedelta(seconds=terms.policy.claim_extension_s))


def is_in_time(
    terms: Terms, claims: tuple[Claim, ...], transfer: OrderTransfer, end: datetime
) -> bool:
    """Tell whether a transfer was first seen in the order's time.

    In the extension only a stable asset, or a transaction named before the deadline that a node
    knew, is in time.
    """
    if transfer.first_time <= terms.deadline:
        return True
    if transfer.first_time > end:
        return False
    if terms.policy.stable:
        return True
    return any(
        claim.known and claim.tx == transfer.tx and claim.claimed_at <= terms.deadline
        for claim in claims
    )


def still_pending(terms: Terms, transfer: OrderTransfer, moment: Moment) -> bool:
    """Tell whether money may still become final by itself.

    A retracted transfer counts as pending until its patience of coverage has passed.
    """
    if transfer.state in _PENDING:
        return True
    return transfer.state is TransferState.RETRACTED and not has_lapsed(terms, transfer, moment)


def mempool_until(terms: Terms, transfer: OrderTransfer) -> datetime | None:
    """Say until when money that waits to be mined is counted on; None where it does not wait.

    Nodes forget what is not mined, and say nothing of it: it is announced as long as one has it.
    """
    if transfer.state is not TransferState.SEEN or transfer.heard_at is None:
        return None
    return transfer.heard_at + timedelta(seconds=terms.policy.mempool_patience_s)


def is_forgotten(terms: Terms, transfer: OrderTransfer, moment: Moment) -> bool:
    """Tell whether no node has shown money for too long that was not mined, while the chain went on."""
    limit, until = mempool_until(terms, transfer), moment.decided_until
    return limit is not None and until is not None and until > limit


def has_lapsed(terms: Terms, transfer: OrderTransfer, moment: Moment) -> bool:
    """Tell whether the patience with a retracted block is over. The mempool does not renew it."""
    if transfer.retracted_at is None:
        return transfer.state is TransferState.RETRACTED
    patience = timedelta(seconds=terms.policy.retracted_patience_s)
    until = moment.decided_until
    return until is not None and until > transfer.retracted_at + patience


def is_withdrawn(
    decisions: OrderDecisions, transfers: Sequence[OrderTransfer], previous: Status | None
) -> bool:
    """Tell whether the order is cancelled now: what is confirmed or has ended no longer can be.

    One that was cancelled before is open only for as long as a person's later word keeps it open.
    """
    paid_elsewhere = decisions.sibling_confirmed and not decisions.revived
    if not (decisions.cancelled or paid_elsewhere):
        return False
    if previous is None:
        return True
    if not previous.is_open:
        return False
    if previous.ended_as is not Phase.CANCELLED:
        return True
    return not any(t.decided and t.transfer not in previous.set_aside for t in transfers)


def sum_up(
    terms: Terms,
    claims: tuple[Claim, ...],
    transfers: Sequence[OrderTransfer],
    decisions: OrderDecisions,
    moment: Moment,
    previous: Status | None,
) -> Sums:
    """Sort every transfer of the order into counted, late and neither, and add up.

    On an order that is cancelled nothing counts by itself, not even what came before.
    """
    end = end_of_open(terms, claims, previous.reversed_at if previous else None)
    withdrawn = is_withdrawn(decisions, transfers, previous)
    counted: list[OrderTransfer] = []
    dust: list[OrderTransfer] = []
    late: list[OrderTransfer] = []
    attention: set[Attention] = set()
    for transfer in transfers:
        if transfer.disposed or _is_gone(terms, transfer, moment):
            continue
        refusal = _refusal(terms, transfer)
        if refusal is not None:
            attention.add(refusal)
            continue
        counts = not withdrawn and _counts_now(terms, claims, transfer, decisions, previous, end)
        if transfer.share < terms.policy.dust and not transfer.decided:
            dust += [transfer] if counts else []  # a grain is never late: anybody can send one
        else:
            (counted if counts else late).append(transfer)
    counted += _completing_dust(terms, counted, dust, moment)
    if late:
        attention.add(Attention.LATE)
    return Sums(
        final=sum(t.share for t in counted if t.is_final),
        pending=sum(t.share for t in counted if still_pending(terms, t, moment)),
        counted=tuple(counted),
        late=tuple(late),
        attention=frozenset(attention),
    )


def _is_gone(terms: Terms, transfer: OrderTransfer, moment: Moment) -> bool:
    """Tell whether there is no money: it cannot be mined, or did not come back in time."""
    if transfer.state is TransferState.RETRACTED:
        return has_lapsed(terms, transfer, moment)
    return transfer.state in _GONE


def _refusal(terms: Terms, transfer: OrderTransfer) -> Attention | None:
    """Say why a transfer can never count for this order, or None."""
    if transfer.chain != terms.chain:
        return Attention.WRONG_NETWORK
    if transfer.asset != terms.asset:
        return Attention.WRONG_ASSET
    if is_implausible(terms, transfer.amount, decided=transfer.decided):
        return Attention.IMPLAUSIBLE_AMOUNT
    return None


def is_implausible(terms: Terms, amount: int, *, decided: bool) -> bool:
    """Tell whether a transfer is too large to be believed. A person may believe many times the due
    amount; what the asset cannot hold counts for nobody, so that no sum ever outgrows a column.
    """
    return amount > (terms.policy.amount_max if decided else terms.implausible_above)


def _counts_now(
    terms: Terms,
    claims: tuple[Claim, ...],
    transfer: OrderTransfer,
    decisions: OrderDecisions,
    previous: Status | None,
    end: datetime,
) -> bool:
    """Tell whether a transfer counts: a person's word, in time and not after an end, or revived."""
    if transfer.decided and (previous is None or transfer.transfer not in previous.set_aside):
        return True
    in_time = is_in_time(terms, claims, transfer, end)
    if previous is None or previous.ended_at is None:
        return in_time
    if transfer.transfer in previous.settled:
        return True
    return _is_revived(terms, transfer, decisions, previous, in_time=in_time)


def _is_revived(
    terms: Terms,
    transfer: OrderTransfer,
    decisions: OrderDecisions,
    previous: Status,
    *,
    in_time: bool,
) -> bool:
    """Tell whether late money counts after all: only where the price still holds."""
    if previous.ended_as not in {Phase.EXPIRED, Phase.UNDERPAID}:
        return False
    if not (in_time or terms.policy.stable):
        return False
    if decisions.revived:
        return True
    within_s = terms.policy.late_revive_within_s
    if within_s is None or previous.ended_at is None or decisions.sibling_confirmed:
        return False  # what another order has paid is not unlocked a second time by a rule
    return transfer.first_time <= previous.ended_at + timedelta(seconds=within_s)


def _completing_dust(
    terms: Terms, counted: Sequence[OrderTransfer], dust: Sequence[OrderTransfer], moment: Moment
) -> Sequence[OrderTransfer]:
    """Give the dust if it completes the sum, else nothing: it is stored and not counted."""
    if not dust:
        return ()
    without, more = (
        sum(t.share for t in some if t.is_final or still_pending(terms, t, moment))
        for some in (counted, dust)
    )
    return dust if without < terms.least_enough <= without + more else ()
