"""A chain that cannot be seen: its orders wait, the shop is told, and it ends when blocks come again.

Silence is measured on our clock and becomes a decision of the service itself (a hold on the chain, in
the journal like any other), so that a replay knows of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from reconciler.services.apply_commands import apply_own_decision
from reconciler.services.context import ServiceContext
from reconciler.storage import reads
from reconciler.storage.rows import HoldRow, LaneRow
from reconciler.storage.unit_of_work import Store, Work
from schemas.commands import Decide, Hold, Release
from schemas.envelope import derived_id, format_instant
from schemas.values import LONG_TEXT_MAX, cut

#: Who holds a chain when nobody does: the service.
ACTOR: Final = "reconciler"
#: A watermark is sent at least every 30 s; six missing ones are no accident.
BLIND_AFTER: Final = timedelta(minutes=3)
#: So many orders are told in one transaction that they wait; the next ones a moment later.
TOLD_AT_ONCE: Final = 1_000


async def watch_for_blindness(
    store: Store,
    context: ServiceContext,
    *,
    now: datetime,
    blind_after: timedelta = BLIND_AFTER,
) -> Sequence[str]:
    """Hold chains that have gone silent, release those that speak again; gives the blind ones.

    Whatever holds, and whoever set it: orders whose time ends meanwhile are told that they wait.
    """

    async def look(work: Work) -> tuple[list[LaneRow], dict[str, HoldRow], dict[str, list[str]]]:
        silent = await reads.silent_lanes(work, before=now - blind_after)
        holds = await reads.holds(work)
        return silent, holds, {subject: await _untold(work, subject, now) for subject in holds}

    silent, holds, untold = await store.read(look)
    blind = {row.chain: row for row in silent}
    for chain, row in sorted(blind.items()):
        if chain not in holds:
            await _hold(store, context, row, now)
    for subject, hold in sorted(holds.items()):
        if hold.actor == ACTOR and subject in context.lanes and subject not in blind:
            await _release(store, context, hold, now)
            del untold[subject]
    for subject, orders in sorted(untold.items()):
        if orders:
            await _say_again(store, context, holds[subject], orders, now)
    return sorted(blind)


async def _untold(work: Work, subject: str, now: datetime) -> list[str]:
    return await reads.overdue_orders(work, subject, before=now, limit=TOLD_AT_ONCE, untold=True)


async def _say_again(
    store: Store, context: ServiceContext, hold: HoldRow, orders: Sequence[str], now: datetime
) -> None:
    """Say the hold again for these orders; for the same ones a second time it is nothing new."""
    command = Decide(
        idempotency_key=f"still/{derived_id(hold.subject, format_instant(hold.since), *orders)}",
        actor=ACTOR,
        reason=cut(f"still held: {hold.reason}", LONG_TEXT_MAX),
        action=Hold(subject=hold.subject),
    )
    await apply_own_decision(store, context, command, now)


async def _hold(store: Store, context: ServiceContext, row: LaneRow, now: datetime) -> None:
    since = format_instant(row.heard_at or now)
    command = Decide(
        idempotency_key=f"blind/{row.chain}/{row.seq}",
        actor=ACTOR,
        reason=f"{row.chain} cannot be seen since {since}",
        action=Hold(subject=row.chain),
    )
    await apply_own_decision(store, context, command, now)


async def _release(store: Store, context: ServiceContext, hold: HoldRow, now: datetime) -> None:
    command = Decide(
        idempotency_key=f"seen/{hold.subject}/{format_instant(hold.since)}",
        actor=ACTOR,
        reason=f"{hold.subject} is seen again",
        action=Release(subject=hold.subject),
    )
    await apply_own_decision(store, context, command, now)
