"""What stands open, counted for the metrics. Reads by index, no more than a most, and writes nothing.

Every intake of a service says the same of the same database: take the largest of them, not the sum.
"""

from __future__ import annotations

from typing import Final

from reconciler.model.status import OPEN_PHASES
from reconciler.observability import metrics
from reconciler.observability.metrics import Meters
from reconciler.storage import reads
from reconciler.storage.unit_of_work import Store, Work
from schemas.codes import ExceptionKind

MEASURE_EVERY_S: Final = 15.0
#: More are not counted: a gauge says that something piles up, not how high exactly.
COUNT_MAX: Final = 100_000


async def measure(store: Store, meters: Meters) -> None:
    """Set the gauges of open orders and exceptions; what there is none of is zero."""
    orders, exceptions = await store.read(_count)
    for phase, count in orders.items():
        meters.set(metrics.OPEN_ORDERS, count, phase=phase)
    for kind in ExceptionKind:
        meters.set(metrics.OPEN_EXCEPTIONS, exceptions.get(kind.value, 0), kind=kind.value)


async def _count(work: Work) -> tuple[dict[str, int], dict[str, int]]:
    orders = {
        phase.value: await reads.count_open_orders(work, phase.value, most=COUNT_MAX)
        for phase in sorted(OPEN_PHASES)
    }
    return orders, await reads.count_open_exceptions(work, most=COUNT_MAX)
