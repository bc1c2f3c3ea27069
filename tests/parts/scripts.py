"""Scripts: the same records, applied in batches cut anywhere, with or without sweeps between.

A script is written once, with every record's bytes and time; a world then plays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from sqlalchemy import select

from reconciler.matcher import candidate_amounts
from reconciler.storage import tables
from reconciler.stream.promise import Batch, Lane, Record
from reconciler.stream.topics import ORDERS
from schemas.commands import PlaceOrder
from schemas.values import Message
from tests.parts.world import ETHEREUM, SHARED, START, Chain, World, address

ORDERS_LANE = Lane(ORDERS, 0)


class Applied(Struct, frozen=True):
    """One record, or the word that `orders` was read up to a time."""

    lane: Lane
    record: Record | None
    inbox: datetime | None = None


class Script:
    """Writes records as the log would take them. Needs no database."""

    def __init__(self) -> None:
        self.world = World.without_database()
        self.steps: list[Applied] = []

    @property
    def chain(self) -> Chain:
        return self.world.ethereum

    def chain_of(self, message: Message) -> Chain:
        return self.chain if getattr(message, "chain", ETHEREUM) == ETHEREUM else self.world.polygon

    def fact(self, message: Message) -> None:
        lane = self.chain_of(message).lanes[0]
        key = getattr(message, "to", getattr(message, "address", "block")).lower()
        self.steps.append(Applied(lane, self.world.record(lane, key, message)))

    def block(self, *facts: Message) -> None:
        """One block: its facts, then its watermark; `orders` is read up to its time before."""
        mark = self.chain.watermark()
        self.world.now = max(self.world.now, mark.time)
        self.inbox()
        for message in (*facts, mark):
            self.fact(message)

    def blocks(self, number: int) -> None:
        for _ in range(number):
            self.block()

    def pass_minutes(self, minutes: float) -> None:
        steps = int(minutes * 5) + 1
        mark = self.chain.watermark(self.chain.height + steps)
        self.world.now = max(self.world.now, mark.time)
        self.inbox()
        self.fact(mark)

    def reorganise(self, depth: int) -> None:
        for _ in range(depth):
            self.fact(self.chain.retraction())

    def inbox(self) -> None:
        self.steps.append(Applied(ORDERS_LANE, None, self.world.now))

    def command(self, message: Message) -> None:
        self.world.now += timedelta(milliseconds=1)
        key = getattr(message, "reference", "person")
        self.steps.append(Applied(ORDERS_LANE, self.world.record(ORDERS_LANE, key, message)))

    def place(
        self, number: int, amount: int = 25_000_000, route: str = "own", **more: object
    ) -> str:
        """Place order `o-<number>`; gives the address that it is paid to."""
        own = None if route == "shared" else address(number)
        command = PlaceOrder(
            idempotency_key=f"place-{number}",
            reference=f"o-{number}",
            route=route,
            amount=str(amount),
            address=own,
            **more,
        )
        self.command(command)
        self.fact(self.chain.covered(own or SHARED))
        return own or SHARED

    def reserved(self, number: int, amount: int = 25_000_000) -> int:
        """The amount that order `o-<number>` is asked for when it is the first on the address."""
        route = self.world.context.routes["shared"]
        secret = self.world.context.secret
        found = candidate_amounts(
            amount, int(route.step or 1), route.steps_max, reference=f"o-{number}", key=secret
        )
        return int(next(iter(found)))


def batches(steps: Sequence[Applied], cuts: Sequence[int]) -> list[list[Applied]]:
    """Cut a script: a batch is of one lane and ends at a cut, another lane, or a word of the inbox."""
    found: list[list[Applied]] = []
    wanted = set(cuts)
    for number, step in enumerate(steps):
        joins = (
            found
            and number not in wanted
            and step.record is not None
            and found[-1][0].record is not None
            and found[-1][0].lane == step.lane
        )
        if joins:
            found[-1].append(step)
        else:
            found.append([step])
    return found


async def play(
    world: World, steps: Sequence[Applied], cuts: Sequence[int] = (), *, sweeps: bool = True
) -> None:
    """Apply a script in these batches; at the end everything due is judged."""
    world.sweeps = sweeps
    for batch in batches(steps, cuts):
        first = batch[0]
        if first.record is None:
            await world.inbox(first.inbox)
            continue
        records = [step.record for step in batch if step.record is not None]
        whole = Batch(lane=first.lane, records=records, next_offset=records[-1].offset + 1)
        await world.apply_batch(whole)
    await world.sweep()


async def told(world: World) -> dict[str, list[bytes]]:
    """Everything that came out, by topic and key, in order, to the byte; and the journal's chains."""
    outbox, journal = tables.outbox, tables.journal
    found: dict[str, list[bytes]] = {}
    async with world.engine.connect() as connection:
        for topic, key, name, value in await connection.execute(
            select(outbox.c.topic, outbox.c.key, outbox.c.event_id, outbox.c.value).order_by(
                outbox.c.id
            )
        ):
            found.setdefault(f"{topic} {key!r}", []).append(name.encode() + b" " + (value or b""))
        for key, body, digest in await connection.execute(
            select(journal.c.chain_key, journal.c.body, journal.c.hash).order_by(journal.c.id)
        ):
            found.setdefault(f"journal {key}", []).append(digest + body)
    return found


def start() -> datetime:
    return START
