"""Judge what a lane's coverage made due: transfers that became final, orders whose time is over.

A sweep finds rows by index, locks them, reads them again and judges. It may come late or twice: the
judgement is made at the watermark that made the order due, so what comes out is the same.
"""

from __future__ import annotations

from typing import Final

from reconciler.services.context import ServiceContext
from reconciler.services.judge import catch_up
from reconciler.services.ledger import Ledger
from reconciler.storage import reads
from reconciler.storage.unit_of_work import Store, Work

#: More in one transaction would make new payments wait. Source: DESIGN section 8.
SWEEP_MAX: Final = 200


async def sweep_lane(
    store: Store, context: ServiceContext, lane: str, *, limit: int = SWEEP_MAX
) -> int:
    """Judge up to `limit` due orders of a lane; gives how many were due."""

    async def use_case(work: Work) -> int:
        await work.lock_lanes(exclusive=None, shared=[lane])
        ledger = Ledger(work, context)
        await ledger.load_lanes([lane])
        due = await reads.due_orders(work, ledger.lanes[lane].row, limit=limit)
        if not due:
            return 0
        await ledger.load_holds()
        await ledger.load_orders([order.reference for order in due])
        entries = [ledger.orders[order.reference] for order in due]
        await ledger.load_history(
            ledger.lanes[lane], min(entry.row.assessed_seq for entry in entries)
        )
        for entry in entries:
            await catch_up(ledger, entry)
        await ledger.flush()
        return len(due)

    if not await _has_due(store, context, lane):
        return 0
    count = await store.run(use_case, name="sweep_lane")
    if count:
        store.outbox_written.set()
    return count


async def _has_due(store: Store, context: ServiceContext, lane: str) -> bool:
    """Look without the writers' lock: most sweeps find nothing."""

    async def query(work: Work) -> bool:
        ledger = Ledger(work, context)
        await ledger.load_lanes([lane])
        return bool(await reads.due_orders(work, ledger.lanes[lane].row, limit=1))

    return await store.read(query)
