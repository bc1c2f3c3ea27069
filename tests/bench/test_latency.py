"""Block seen to event on Kafka, at 100 matched transfers a second; and the delay of a new payment while
100,000 orders are due at one watermark."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select

from reconciler.storage.tables import orders
from reconciler.storage.unit_of_work import Work
from reconciler.stream.promise import Lane
from reconciler.stream.topics import PAYMENT_EVENTS
from schemas.codec import decode_as
from schemas.commands import AmendOrder
from schemas.events import PaymentEvent
from tests.bench.report import Row, percentile, show
from tests.bench.service import BenchService, kafka, postgres
from tests.parts.world import address

PAYMENTS = 1_500
A_BLOCK = 10
BLOCK_S = 0.1
DUE_ORDERS = 100_000


class Ear:
    """Reads every event as it becomes visible and notes when."""

    def __init__(self, service: BenchService) -> None:
        self._service = service
        self.heard: dict[tuple[str, str], float] = {}

    async def listen(self, partition: int) -> None:
        lane, offset = Lane(PAYMENT_EVENTS, partition), 0
        while True:
            batch = await self._service.stream.read(
                lane, from_offset=offset, records_max=1_000, wait_s=0.5
            )
            now = time.perf_counter()
            for record in batch.records:
                event = decode_as(PaymentEvent, record.value or b"")
                self.heard.setdefault((event.order, event.kind.value), now)
            offset = batch.next_offset


@contextlib.asynccontextmanager
async def listening(service: BenchService) -> AsyncIterator[Ear]:
    ear = Ear(service)
    tasks = [asyncio.create_task(ear.listen(n)) for n in range(6)]
    try:
        yield ear
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_block_seen_to_event() -> None:
    with postgres() as url, kafka() as bootstrap:
        async with BenchService.open(url, bootstrap) as service:
            await service.place(0, PAYMENTS)
            await service.begin_at_the_log()
            async with service.running(), listening(service) as ear:
                await service.drained()
                delays = await _steady(service, ear)
    show(
        "latency",
        [
            Row(
                what="block seen to event, median",
                value=percentile(delays, 0.5) * 1_000,
                unit="ms",
                budget="<= 50 ms",
                beside=f"{A_BLOCK / BLOCK_S:.0f} matched transfers/s",
            ),
            Row(
                what="block seen to event, 99 of 100",
                value=percentile(delays, 0.99) * 1_000,
                unit="ms",
                budget="<= 250 ms",
            ),
        ],
    )


async def _steady(service: BenchService, ear: Ear) -> list[float]:
    chain = service.world.ethereum
    published: dict[str, float] = {}
    for start in range(0, PAYMENTS, A_BLOCK):
        began = time.perf_counter()
        facts = [chain.seen(address(n), 25_000_000) for n in range(start, start + A_BLOCK)]
        for number in range(start, start + A_BLOCK):
            published[f"o-{number}"] = began
        await service.publish(*facts, chain.watermark())
        await asyncio.sleep(max(0.0, BLOCK_S - (time.perf_counter() - began)))
    while not all((order, "detected") in ear.heard for order in published):
        await asyncio.sleep(0.05)
    return [ear.heard[order, "detected"] - at for order, at in published.items()]


async def test_a_new_payment_while_many_orders_are_due() -> None:
    with postgres() as url, kafka() as bootstrap:
        async with BenchService.open(url, bootstrap, quote_s=5) as service:
            await service.place(0, DUE_ORDERS)
            service.world.now = datetime.now(UTC)
            await service.place(DUE_ORDERS, 1)
            await service.world.commands(
                AmendOrder(
                    idempotency_key="longer",
                    reference=f"o-{DUE_ORDERS}",
                    deadline=service.world.now + timedelta(hours=1),
                )
            )
            await service.begin_at_the_log()
            async with service.running(), listening(service) as ear:
                await service.drained()
                await asyncio.sleep(10)  # the time of all orders passes, and `orders` is applied
                delay, ended_s = await _pay_beside(service, ear)
    show(
        "due orders",
        [
            Row(
                what=f"a new payment while {DUE_ORDERS:,} orders are due",
                value=delay * 1_000,
                unit="ms",
                budget="< 1,000 ms",
                beside=f"all of them ended in {ended_s:.0f} s",
            )
        ],
    )


async def _pay_beside(service: BenchService, ear: Ear) -> tuple[float, float]:
    chain = service.world.ethereum
    started = time.perf_counter()
    await service.publish(chain.watermark(time=datetime.now(UTC)))
    while await _open(service) > DUE_ORDERS * 99 // 100:
        await asyncio.sleep(0.02)
    began = time.perf_counter()
    mark = chain.watermark(time=datetime.now(UTC))
    await service.publish(chain.seen(address(DUE_ORDERS), 25_000_000), mark)
    while (f"o-{DUE_ORDERS}", "detected") not in ear.heard:
        await asyncio.sleep(0.005)
    delay = time.perf_counter() - began
    while await _open(service) > 1:
        await asyncio.sleep(0.5)
    return delay, time.perf_counter() - started


async def _open(service: BenchService) -> int:
    async def count(work: Work) -> int:
        found = await work.connection.execute(
            select(func.count()).select_from(orders).where(orders.c.is_open)
        )
        return int(found.scalar_one())

    return await service.world.store.read(count)
