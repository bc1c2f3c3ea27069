"""A running service beside which a second look is taken: what shops tell it, and what it tells them."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from typing import Any

from reconciler.audit.look import SecondLook
from reconciler.commands.watch import watch_jobs
from reconciler.kernel import SystemClock
from reconciler.stream.promise import Lane, Outgoing, read_all
from reconciler.stream.topics import ORDERS, PAYMENT_EVENTS, PAYMENT_EXCEPTIONS, transfers_topic
from reconciler.wiring import Parts, apply_and_send_jobs_of
from schemas.caip import ChainName
from schemas.codec import encode, kind_name
from schemas.commands import PlaceOrder
from schemas.envelope import Envelope, to_headers
from tests.parts.service import running

PATIENCE_S = 60


async def place(parts: Parts, route: str, amount: str, address: str) -> None:
    """Have a shop place the order `o-1`."""
    order = PlaceOrder(
        idempotency_key="o-1", reference="o-1", route=route, amount=amount, address=address
    )
    envelope = Envelope(id="o-1", type=kind_name(order), time=SystemClock().now())
    writer = parts.stream.writer("shop")
    await writer.start()
    headers = to_headers(envelope)
    await writer.append(
        [Outgoing(lane=Lane(ORDERS, 0), key=b"o-1", value=encode(order), headers=headers)]
    )
    await writer.close()


async def told(parts: Parts, topic: str, lanes: int) -> list[dict[str, Any]]:
    records = [r for n in range(lanes) for r in await read_all(parts.stream, Lane(topic, n))]
    return [json.loads(record.value) for record in records if record.value]


async def facts(parts: Parts, chain: str) -> list[dict[str, Any]]:
    return await told(parts, transfers_topic(ChainName(chain)), 1)


async def events(parts: Parts) -> list[dict[str, Any]]:
    return await told(parts, PAYMENT_EVENTS, 6)


async def has(parts: Parts, kind: str) -> bool:
    return any(event["kind"] == kind for event in await events(parts))


async def differs(parts: Parts) -> bool:
    """Tell whether a balance is unexplained."""
    exceptions = await told(parts, PAYMENT_EXCEPTIONS, 1)
    return any(one["kind"] == "balance_differs" and one["open"] for one in exceptions)


async def balances(parts: Parts, chain: str, count: int) -> bool:
    """Tell whether so many balances were told."""
    return sum("balance" in fact for fact in await facts(parts, chain)) >= count


async def final(look: SecondLook, height: int) -> bool:
    return await look.final_height() >= height


def is_at_work(parts: Parts, chain: str) -> AbstractAsyncContextManager[None]:
    """Let a watcher, an intake and the relays run."""
    watching = watch_jobs(parts, [ChainName(chain)]).values()
    return running(*watching, *apply_and_send_jobs_of(parts).values())
