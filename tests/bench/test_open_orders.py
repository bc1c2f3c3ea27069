"""What a transfer costs among many open orders, and what a watched address costs in a watcher."""

from __future__ import annotations

import time
import tracemalloc

from sqlalchemy import text

from chains.watched import Watched
from reconciler.services.apply_facts import apply_facts
from reconciler.storage.unit_of_work import Work
from reconciler.stream.promise import Batch
from tests.bench.report import Row, show
from tests.bench.service import BenchService, kafka, postgres
from tests.parts.world import World, address

FEW = 1_000
MANY = 1_000_000
PAID = 500
WATCHED = 1_000_000


async def test_a_transfer_costs_the_same_among_many_open_orders() -> None:
    with postgres() as url, kafka() as bootstrap:
        async with BenchService.open(url, bootstrap) as service:
            await service.place(0, FEW)
            few_s = await _pay(service.world, 0)
            await service.world.store.run(_copy_orders)
            async with service.world.engine.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                await connection.execute(text("VACUUM ANALYZE"))
            many_s = await _pay(service.world, PAID)
    show(
        "open orders",
        [
            Row(
                what=f"a transfer at {MANY:,} open orders beside one at {FEW:,}",
                value=many_s / few_s,
                unit="times",
                budget="<= 1.3 times",
                beside=f"{few_s / PAID * 1e6:,.0f} µs at {FEW:,}",
            )
        ],
    )


async def _copy_orders(work: Work) -> None:
    """Make a million more rows of orders and addresses; nobody pays these, they are only there."""
    await work.connection.execute(
        text(
            f"""
            INSERT INTO addresses (family, key, display, owner, covered, noted, watched_since, journal_hash)
            SELECT family, 'copy-' || n, display, 'copy-' || n, covered, noted, watched_since, journal_hash
            FROM (SELECT * FROM addresses LIMIT 1) AS one, generate_series(1, {MANY}) AS n
            """
        )
    )
    await work.connection.execute(
        text(
            f"""
            INSERT INTO orders
            SELECT (jsonb_populate_record(one, jsonb_build_object(
                'reference', 'copy-' || n, 'address_key', 'copy-' || n, 'page_token', 'copy-' || n
            ))).*
            FROM orders AS one, generate_series(1, {MANY}) AS n
            WHERE one.reference = (SELECT min(reference) FROM orders)
            """
        )
    )


async def _pay(world: World, first: int) -> float:
    chain, lane = world.ethereum, world.ethereum.lanes[0]
    batches = []
    for start in range(first, first + PAID, 50):
        facts = [chain.seen(address(n), 25_000_000) for n in range(start, start + 50)]
        records = [world.record(lane, fact.to, fact) for fact in facts]
        batches.append(Batch(lane=lane, records=records, next_offset=records[-1].offset + 1))
    held = await world.position(lane)
    started = time.perf_counter()
    for batch in batches:
        await apply_facts(world.store, world.context, batch, held=held)
        held = batch.next_offset
    return time.perf_counter() - started


def test_what_a_watched_address_costs_in_a_watcher() -> None:
    raws = (number.to_bytes(20, "big") for number in range(WATCHED))
    tracemalloc.start()
    watched = Watched()
    for raw in raws:
        watched.add(raw)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(watched) == WATCHED
    show(
        "watched addresses",
        [
            Row(
                what="memory of a watched address",
                value=used / WATCHED,
                unit="bytes",
                budget="<= 250 bytes",
                beside="20 bytes of address",
            )
        ],
    )
