"""Watermarks and retractions: how far a lane was read, and what it takes back.

A watermark only moves coverage; sweepers then judge what it made due. A retraction lowers coverage,
marks what stood in the retracted blocks, and decides nothing.
"""

from __future__ import annotations

from datetime import datetime

from reconciler.services.desk import Cause, close_exception, open_exception
from reconciler.services.incoming import Incoming
from reconciler.services.judge import catch_up, judge
from reconciler.services.ledger import LaneView, Ledger
from reconciler.storage import reads, rows, writes
from reconciler.stream.promise import Lane
from schemas.caip import Family
from schemas.codes import ExceptionKind, TransferState
from schemas.facts import BlockRetracted, Watermark

_DRAIN_LIMIT = 200


async def apply_watermark(
    ledger: Ledger,
    lane: Lane,
    item: Incoming,
    message: Watermark,
    seq: int,
    *,
    inbox_until: datetime | None,
) -> None:
    """Move coverage if the watermark follows it; else hold the lane's verdicts and say so."""
    view = ledger.lanes[lane.name]
    row = view.row
    gap = await _gap(ledger, row, message)
    row.heard_at = item.recorded_at
    view.dirty = True
    if gap is not None:
        if gap != row.held:
            await _hold(ledger, view, gap, item.recorded_at, seq)
            ledger.add_new("lane_log", _gap_row(lane, item, seq, message, inbox_until))
        return
    if message.height < (row.height or 0):
        return  # an old watermark once more: what it says is known
    if row.held is not None:
        await _release(ledger, view, item.recorded_at, seq)
    decided_until = None if inbox_until is None else min(message.time, inbox_until)
    view.dirty = True  # anew: what came before may have written the lane
    row.seq = seq
    row.height, row.hash, row.time = message.height, message.hash, message.time
    # A lagging node may name a lower one; what was final stays so, here and in the lane's log.
    row.finalized_height = max(row.finalized_height, message.finalized_height)
    row.decided_until = decided_until
    row.log_id = message.log_id
    view.dirty = True
    entry = _log_row(lane, item, seq, message, inbox_until=inbox_until, decided_until=decided_until)
    entry.finalized_height = row.finalized_height
    view.applied.append(entry)
    ledger.add_new("lane_log", entry)


async def _gap(ledger: Ledger, row: rows.LaneRow, message: Watermark) -> str | None:
    """Say why a watermark does not fit the lane, or None when it does."""
    if row.height is None:
        return None
    if message.log_id != row.log_id:
        return f"expected the log {row.log_id}, found {message.log_id}"
    if message.height == row.height and message.hash == row.hash:
        return None
    if message.from_height == row.height + 1:
        if message.parent_hash == row.hash:
            return None
        return (
            f"block {message.from_height} has parent {message.parent_hash}, "
            f"expected {row.hash} at {row.height}"
        )
    if message.from_height > row.height:
        return f"blocks {row.height + 1} … {message.from_height - 1} are missing"
    return await _overlap_gap(ledger, row, message)


async def _overlap_gap(ledger: Ledger, row: rows.LaneRow, message: Watermark) -> str | None:
    """Judge a watermark that speaks again of blocks that are covered."""
    await ledger.flush()
    line = await reads.line_hashes(ledger.work, row.lane, {message.height, message.from_height - 1})
    if line.get(message.height, message.hash) != message.hash:
        return f"block {message.height} is {line[message.height]} here and {message.hash} there"
    if message.height <= (row.height or 0):
        return None
    before = line.get(message.from_height - 1)
    if before is not None and before == message.parent_hash:
        return None
    return f"a span from {message.from_height} does not join what is covered up to {row.height}"


async def _hold(ledger: Ledger, view: LaneView, why: str, at: datetime, seq: int) -> None:
    """Hold the lane's verdicts from here on, and tell the orders that are over and wait for it."""
    is_news = view.row.held is None
    if is_news:
        await drain_lane(ledger, view)
    view.row.held = why
    view.dirty = True
    await open_exception(
        ledger,
        Cause(
            kind=ExceptionKind.COVERAGE_GAP,
            subject=view.row.lane,
            chain=view.row.chain,
            note=why,
        ),
        at,
    )
    await ledger.flush()
    overdue = await reads.overdue_orders(
        ledger.work, view.row.chain, before=at, limit=_DRAIN_LIMIT, untold=not is_news
    )
    await ledger.load_orders(overdue)
    for reference in overdue:
        entry = ledger.orders[reference]
        if entry.row.lane == view.row.lane:
            await judge(ledger, entry, view.moment(seq=seq, recorded_at=at, verdicts=False))


async def _release(ledger: Ledger, view: LaneView, at: datetime, seq: int) -> None:
    view.row.held = None
    await close_exception(
        ledger, ExceptionKind.COVERAGE_GAP, view.row.lane, at, why="the line is whole again"
    )
    # Due at the watermark that ends the hold: the one that is being applied.
    await _wake(ledger, "lane", view.row.lane, after_seq=seq - 1)


async def wake_address(ledger: Ledger, lane: str, address: rows.AddressRow, seq: int) -> None:
    """Make every order of a shared address that waits on a lane due at its next watermark."""
    await ledger.flush()
    await writes.wake_orders_of_address(
        ledger.work, lane, address.family, address.key, after_seq=seq
    )
    place = (lane, address.family, address.key)
    for entry in ledger.orders.values():
        row = entry.row
        if (row.lane, row.family, row.address_key) == place and row.waits:
            row.due_height, row.assessed_seq = 0, seq
            entry.dirty = True


async def wake_everywhere(ledger: Ledger, address: rows.AddressRow, seq: int) -> None:
    """Wake the orders of a shared address that wait, on every chain of its family."""
    for lane in ledger.context.lanes_of(Family(address.family), address.key):
        await wake_address(ledger, lane, address, seq)


async def wake_subject(ledger: Ledger, subject: str, seq: int) -> None:
    """Make every order that waits for a hold on a chain, asset or route due at the next watermark."""
    for column in ("chain", "asset", "route"):
        await _wake(ledger, column, subject, after_seq=seq)


async def _wake(ledger: Ledger, column: str, value: str, *, after_seq: int) -> None:
    """Wake what waits. All was judged up to the hold's end, and is judged on behind it: a watermark
    that was applied during the hold says nothing that the hold did not keep from being decided.
    """
    await ledger.flush()
    await writes.wake_waiting_orders(ledger.work, column=column, value=value, after_seq=after_seq)
    for entry in ledger.orders.values():
        if getattr(entry.row, column) == value and entry.row.waits:
            entry.row.due_height, entry.row.assessed_seq = 0, after_seq
            entry.dirty = True


async def apply_retraction(
    ledger: Ledger, lane: Lane, item: Incoming, message: BlockRetracted, seq: int
) -> None:
    """Lower coverage to the parent and mark what stood above it; a repeat changes nothing.

    Everything that present coverage made due is judged first, so that a verdict does not depend on
    whether a sweeper came by before the retraction.
    """
    view = ledger.lanes[lane.name]
    await ledger.flush()
    line = await reads.line_hashes(ledger.work, lane.name, {message.height})
    if line.get(message.height) != message.hash:
        return
    await drain_lane(ledger, view)
    retracted_at = view.row.decided_until or view.row.time or item.recorded_at
    await _lower(ledger, view, message)
    _log_retraction(ledger, lane, item, message, seq)
    affected = await reads.transfers_above(ledger.work, lane.name, message.parent.height)
    await ledger.lock_addresses((row.family, row.address_key) for row in affected)
    unknown = {row.transfer for row in affected} - ledger.transfers.keys()
    await ledger.load_transfers((await reads.transfers(ledger.work, unknown)).values())
    owners = {ref for row in affected for ref in ledger.owners_of(row.transfer)}
    await ledger.load_orders(owners)
    for reference in sorted(owners):  # the drained lane's orders, and those of other lanes
        await catch_up(ledger, ledger.orders[reference])
    for found in affected:
        row = ledger.transfers[found.transfer]
        row.was_final = row.was_final or row.state == TransferState.FINAL
        row.state, row.retracted_at = TransferState.RETRACTED, retracted_at
        ledger.put_transfer(row)
    for reference in sorted(owners):
        entry = ledger.orders[reference]
        own = ledger.lane_of(entry)
        await judge(
            ledger, entry, own.moment(seq=seq, recorded_at=item.recorded_at, verdicts=False)
        )


async def drain_lane(ledger: Ledger, view: LaneView) -> None:
    """Judge every order that the lane's present coverage made due, inside this unit of work.

    Whoever holds an order still for all its lane's sake does this first, so that what was due before
    is judged by what was so before.
    """
    await ledger.flush()
    while due := await reads.due_orders(ledger.work, view.row, limit=_DRAIN_LIMIT):
        await ledger.load_orders([order.reference for order in due])
        for order in due:
            await catch_up(ledger, ledger.orders[order.reference])
        await ledger.flush()


async def _lower(ledger: Ledger, view: LaneView, message: BlockRetracted) -> None:
    parent = message.parent
    await writes.take_back_watermarks(ledger.work, view.row.lane, above=parent.height)
    below = await reads.live_watermark_at_or_below(ledger.work, view.row.lane, parent.height)
    row = view.row
    row.height, row.hash = parent.height, parent.hash
    row.time = below.time if below else None
    row.decided_until = below.decided_until if below else None
    view.forget_watermarks()
    view.dirty = True
    await ledger.reload_line(view.row.lane)


def _gap_row(
    lane: Lane, item: Incoming, seq: int, message: Watermark, inbox_until: datetime | None
) -> rows.LaneLogRow:
    """Keep a watermark that did not fit: it holds the lane, and a recording needs it."""
    row = _log_row(lane, item, seq, message, inbox_until=inbox_until, decided_until=None)
    row.kind, row.live = "gap", False
    return row


def _log_retraction(
    ledger: Ledger, lane: Lane, item: Incoming, message: BlockRetracted, seq: int
) -> None:
    covered = ledger.lanes[lane.name].row
    ledger.add_new(
        "lane_log",
        rows.LaneLogRow(
            seq=seq,
            lane=lane.name,
            kind="retraction",
            from_height=message.height,
            height=message.parent.height,
            hash=message.parent.hash,
            time=covered.time,
            finalized_height=covered.finalized_height,
            inbox_until=None,
            decided_until=covered.decided_until,
            recorded_at=item.recorded_at,
            live=False,
            key=item.key_text,
            value=item.value,
        ),
    )


def _log_row(
    lane: Lane,
    item: Incoming,
    seq: int,
    message: Watermark,
    *,
    inbox_until: datetime | None,
    decided_until: datetime | None,
) -> rows.LaneLogRow:
    return rows.LaneLogRow(
        seq=seq,
        lane=lane.name,
        kind="watermark",
        from_height=message.from_height,
        height=message.height,
        hash=message.hash,
        time=message.time,
        finalized_height=message.finalized_height,
        inbox_until=inbox_until,
        decided_until=decided_until,
        recorded_at=item.recorded_at,
        live=True,
        key=item.key_text,
        value=item.value,
    )
