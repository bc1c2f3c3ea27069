"""What the metrics say is what stands in the database, on both."""

from __future__ import annotations

from reconciler.intake.gauges import measure
from reconciler.observability import metrics
from reconciler.observability.metrics import Meters
from reconciler.storage import outbox
from schemas.commands import ClaimPaid, Close
from tests.parts.world import SHARED, World
from tests.parts.worlds import postgres_tables, world

__all__ = ["postgres_tables", "world"]


async def open_orders(world: World, meters: Meters) -> dict[str, float]:
    await measure(world.store, meters)
    phases = ("awaiting_payment", "claimed", "detected", "partially_paid", "reversed")
    found = {phase: meters.value(metrics.OPEN_ORDERS, phase=phase) for phase in phases}
    return {phase: count for phase, count in found.items() if count}


async def test_open_orders_are_counted_by_phase_and_fall_back_to_zero(world: World) -> None:
    meters = Meters()
    assert await open_orders(world, meters) == {}
    to = await world.place("o-1")
    await world.place("o-2")
    await world.place("o-3")
    await world.commands(ClaimPaid(idempotency_key=world.key(), reference="o-2"))
    await world.mine(1, world.ethereum.seen(to, 25_000_000))
    assert await open_orders(world, meters) == {"awaiting_payment": 1, "claimed": 1, "detected": 1}
    await world.mine(4)
    assert await open_orders(world, meters) == {"awaiting_payment": 1, "claimed": 1}


async def test_open_exceptions_are_counted_by_kind_and_closed_ones_are_not(world: World) -> None:
    meters = Meters()
    await world.place("o-1", route="shared")
    await world.mine(1, *(world.ethereum.seen(SHARED, 3_000_000 + n) for n in range(3)))
    await measure(world.store, meters)
    assert meters.value(metrics.OPEN_EXCEPTIONS, kind="unmatched") == 3
    (one,) = (e for e in (await world.open_exceptions()).values())
    await world.decide(Close(exception=one.exception))
    await measure(world.store, meters)
    assert meters.value(metrics.OPEN_EXCEPTIONS, kind="unmatched") == 2
    assert meters.value(metrics.OPEN_EXCEPTIONS, kind="dust") == 0


async def test_a_count_ends_at_its_most(world: World) -> None:
    for number in range(1, 6):
        await world.place(f"o-{number}")
    found = await world.store.read(lambda work: outbox.backlog(work, 0, count_max=3))
    assert found.pending == 3
    assert found.oldest == world.now
    empty = await world.store.read(lambda work: outbox.backlog(work, 1, count_max=3))
    assert (empty.pending, empty.oldest) == (0, None)
