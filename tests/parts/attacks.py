"""Orders as a stranger writes them, and what became of them."""

from __future__ import annotations

import json

import msgspec

from reconciler.stream.promise import Lane
from reconciler.stream.topics import ORDERS
from schemas.commands import PlaceOrder
from tests.parts.world import World, address

DUE = 25_000_000
ATTACKER = "0xcccccccccccccccccccccccccccccccccccccccc"


def order(number: int = 1, **more: object) -> PlaceOrder:
    """An order on a route of its own address, unless said otherwise."""
    fields = {
        "idempotency_key": f"k-{number}",
        "reference": f"o-{number}",
        "route": "own",
        "amount": str(DUE),
        "address": address(number),
        **more,
    }
    return msgspec.convert(fields, PlaceOrder)


async def codes(world: World) -> list[str]:
    """Why commands were refused so far, in their order."""
    return [code for code, _ in await world.rejections()]


async def raw_command(world: World, kind: str, content: object) -> None:
    """A command that no type of ours would let through."""
    value = content if isinstance(content, bytes) else json.dumps(content).encode()
    await world.command_records([world.raw(Lane(ORDERS, 0), kind, value)])
