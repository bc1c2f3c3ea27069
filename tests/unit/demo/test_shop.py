"""The shop sends again what the log did not take, or may not have taken."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reconciler.demo.book import Book
from reconciler.demo.shop import TRIES_MAX, Shop
from reconciler.stream.promise import Lane, OutcomeUnknown, StreamUnavailable, read_all
from reconciler.stream.topics import ORDERS, topic_specs
from schemas.commands import ClaimPaid
from tests.parts.memory_stream import MemoryLog, MemoryStream


class HastyClock:
    """Waits never; the tests are about what is sent, not when."""

    def now(self) -> datetime:
        return datetime(2026, 11, 30, 12, tzinfo=UTC)

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None: ...


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create(topic_specs({}, [], orders_partitions=1, events_partitions=1))
    return log


@pytest.fixture
async def shop(log: MemoryLog) -> Shop:
    shop = Shop(MemoryStream(log), None, Book(), HastyClock())
    await shop.open()
    return shop


async def sent(log: MemoryLog) -> int:
    return len(await read_all(MemoryStream(log), Lane(ORDERS, 0)))


CLAIM = ClaimPaid(idempotency_key="c-1", reference="o-1")


@pytest.mark.parametrize(
    ("error", "lands", "arrives"),
    [
        (StreamUnavailable("away"), False, 1),
        (OutcomeUnknown("cut"), False, 1),
        # twice in the log, once for the order: the idempotency key is the same
        (OutcomeUnknown("cut"), True, 2),
    ],
)
async def test_a_command_is_sent_again(log, shop, error: Exception, lands: bool, arrives: int):
    log.fail_next_append(error, writer="demo-shop", lands=lands)
    await shop.send(CLAIM)
    assert await sent(log) == arrives


async def test_a_log_that_stays_away_is_told(log: MemoryLog, shop: Shop):
    for _ in range(TRIES_MAX):
        log.fail_next_append(StreamUnavailable("away"), writer="demo-shop", lands=False)
    with pytest.raises(StreamUnavailable):
        await shop.send(CLAIM)
