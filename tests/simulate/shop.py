"""The shop and its customers: who orders, pays, claims, cancels, and what they hear.

Customers pay what the shop's events tell them to pay, when they tell it. Stories are drawn from the
seed: exact, in parts, short, over, twice, late, never, in the wrong asset or on the wrong network;
claims that are true, empty, stolen or junk; commands that come twice, with other content, or too
early.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import datetime, timedelta
from random import Random

from reconciler.stream.promise import Lane, Outgoing, Record, partition_of
from reconciler.stream.topics import (
    ORDERS,
    ORDERS_REJECTED,
    PAYMENT_EVENTS,
    PAYMENT_EXCEPTIONS,
)
from schemas.codec import decode_as, encode, kind_name
from schemas.codes import Attention
from schemas.commands import AmendOrder, CancelOrder, ClaimPaid, PlaceOrder
from schemas.envelope import Envelope, to_headers
from schemas.events import EventKind, PaymentEvent, PaymentException
from schemas.values import Message
from tests.simulate.books import Book
from tests.simulate.plan import FAULTS_UNTIL_S, PLACED_UNTIL_S
from tests.simulate.referee import Referee
from tests.simulate.settings import ONE, QUOTE_S, address_at
from tests.simulate.world import World

STORIES = (
    ("exact", 5), ("parts", 3), ("short", 2), ("over", 1), ("tolerated", 1), ("twice", 1),
    ("late", 2), ("edge", 2), ("never", 2), ("wrong asset", 1), ("wrong network", 1), ("grains", 1),
    ("huge", 1),
)  # fmt: skip
AMOUNTS = (7 * ONE, 25 * ONE, 49_990_000, 51 * ONE, 120 * ONE, 700 * ONE)
LISTENS_EVERY_S = 2.0
HEARD = frozenset({PAYMENT_EVENTS, PAYMENT_EXCEPTIONS, ORDERS_REJECTED})


def hash_of(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:16]


class Shop:
    """Sends commands and hears events. It never dies and its own log is in order."""

    def __init__(self, world: World, referee: Referee) -> None:
        self.world = world
        self.referee = referee
        self.books = referee.books
        self.lot: Random = world.lot("shop")
        self.transactions: list[str] = []
        self._keys = 0
        self._offsets: dict[Lane, int] = {}

    # --- commands ---

    async def send(self, message: Message, reference: str) -> datetime:
        """Put a command into the log; sometimes it is there twice. Gives the time of the first."""
        first = await self._land(message, reference)
        if self.lot.random() < self.world.plan.repeat_share:
            again_s = self.lot.uniform(0, 20)
            self.world.do(self._again(message, reference, again_s))
        return first

    async def _again(self, message: Message, reference: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._land(message, reference)

    async def _land(self, message: Message, reference: str) -> datetime:
        world = self.world
        partitions = world.settings.file.stream.orders_partitions
        lane = Lane(ORDERS, partition_of(reference.encode(), partitions))
        now = world.now()
        envelope = Envelope(id=f"{lane.name}/{now}", type=kind_name(message), time=now)
        outgoing = Outgoing(
            lane=lane, key=reference.encode(), value=encode(message), headers=to_headers(envelope)
        )
        await world.log._land([outgoing])
        record = world.log.records[lane][-1]
        world.trace("command", lane.name, record.offset, kind_name(message), reference)
        self.referee.sent(message, record)
        return record.time

    def key(self) -> str:
        self._keys += 1
        return f"key-{self._keys}"

    # --- customers ---

    async def open(self) -> None:
        """Place all orders, over some time, and let their customers act."""
        plan = self.world.plan
        moments = sorted(self.lot.uniform(0, PLACED_UNTIL_S) for _ in range(plan.orders))
        for number, moment in enumerate(moments, start=1):
            await asyncio.sleep(max(0.0, moment - self.world.loop.time()))
            await self._place(number)
        for _ in range(self.lot.choice((0, 0, 1, 2))):
            self.world.do(self._stranger())

    async def _place(self, number: int) -> None:
        plan, lot, reference = self.world.plan, self.lot, f"o-{number}"
        route = "shared" if lot.random() < plan.shared_share else "own"
        address = None if route == "shared" else address_at(number, utxo=plan.utxo)
        book = Book(reference, route, lot.choice(AMOUNTS), address)
        if lot.random() < plan.purchase_share:
            book.purchase = "basket"
        self.books.orders[reference] = book
        command = PlaceOrder(
            idempotency_key=self.key(),
            reference=reference,
            route=route,
            amount=str(book.asked),
            address=address,
            purchase=book.purchase,
        )
        if lot.random() < 0.1:  # a claim before its order: it waits for it
            await self._claim(book, None)
        await self.send(command, reference)
        self.world.do(Customer(self, book, self.world.lot(reference)).act())

    async def _claim(self, book: Book, transaction: str | None) -> None:
        claim = ClaimPaid(
            idempotency_key=self.key(), reference=book.reference, transaction=transaction
        )
        await self.send(claim, book.reference)

    async def _stranger(self) -> None:
        """Somebody pays an address of ours something that no order explains."""
        await asyncio.sleep(self.lot.uniform(20, FAULTS_UNTIL_S - 20))
        to = self.lot.choice(
            [b.address or self.world.shared_address for b in self.books.orders.values()]
        )
        street = self.lot.choice(self.world.streets)
        kind, amount = self.lot.choice(
            (("dollar", 3_330_000), ("dollar", 9), ("dollar", 0), ("coin", 10**17), ("twin", ONE))
        )
        self.transactions.append(street.pay(kind, to, amount))
        self.world.trace("stranger", kind, amount, to)

    # --- what it hears ---

    async def listen(self) -> None:
        """Hear from time to time, as a consumer does that polls."""
        while True:
            self.hear_all()
            await asyncio.sleep(LISTENS_EVERY_S)

    def hear_all(self) -> None:
        """Read all events, exceptions and refusals that came; the referee hears each once."""
        log = self.world.log
        for lane in log.records:
            if lane.topic in HEARD:
                batch = log.slice(lane, self._offsets.get(lane, 0), 10_000)
                self._offsets[lane] = batch.next_offset
                for record in batch.records:
                    self._hear(lane.topic, record)

    def _hear(self, topic: str, record: Record) -> None:
        value = record.value or b""
        if topic == ORDERS_REJECTED:
            self._hear_refusal(record)
            return
        if topic == PAYMENT_EXCEPTIONS:
            exception = decode_as(PaymentException, value)
            self.world.trace("exception", exception.kind, exception.subject, exception.open)
            self.referee.hear_exception(exception)
            return
        event = decode_as(PaymentEvent, value)
        counted = ",".join(f"{t.transfer[-16:]}:{t.state}:{t.counted}" for t in event.transfers)
        self.world.trace(
            "event", event.order, event.sequence, event.kind, event.phase, counted,
            ",".join(event.attention), event.coverage.height,
        )  # fmt: skip
        self.world.trace("bytes", hash_of(value))
        self.referee.hear_event(event)

    def _hear_refusal(self, record: Record) -> None:
        headers = dict(record.headers)
        code, kind = headers["rejected_code"].decode(), headers["ce_type"].decode()
        self.world.trace("refused", kind, code, record.key.decode())
        book = self.books.orders.get(record.key.decode())
        if kind == PlaceOrder.__name__ and book is not None and not book.events:
            book.refused = True


class Customer:
    """Who has one order and does what their story says."""

    def __init__(self, shop: Shop, book: Book, lot: Random) -> None:
        self.shop, self.book, self.lot = shop, book, lot
        stories = [name for name, _ in STORIES]
        self.story = lot.choices(stories, weights=[weight for _, weight in STORIES])[0]

    async def act(self) -> None:
        world, lot = self.shop.world, self.lot
        world.trace("story", self.book.reference, self.book.route, self.book.asked, self.story)
        world.do(self._claims())
        if self.book.route == "own" and lot.random() < world.plan.impatient_share:
            await asyncio.sleep(lot.uniform(0, 6))  # the shop knew the address before us
        else:
            await self._heard(EventKind.AWAITING)
            await asyncio.sleep(lot.uniform(0, 40))
        if lot.random() < 0.12:
            world.do(self._changes_mind())
        await self._pay()
        await self._flags_at_the_end()

    async def _heard(self, kind: EventKind) -> PaymentEvent:
        while True:
            found = next((e for e in self.book.events if e.kind is kind), None)
            if found is not None:
                return found
            await asyncio.sleep(LISTENS_EVERY_S)

    async def _pay(self) -> None:
        last, lot = self.book.last, self.lot
        due = last.due if last is not None else self.book.asked
        match self.story:
            case "exact":
                await self._send(due)
            case "parts":
                await self._send(due // 3)
                await asyncio.sleep(lot.uniform(0, 60))
                await self._send(due - due // 3)
            case "short":
                await self._send(due // 2)
            case "over":
                await self._send(due + lot.choice((1, 5 * ONE)))
            case "tolerated":
                await self._send(due - lot.choice((due * 5 // 1000, due * 5 // 1000 + 1)))
            case "twice":
                await self._send(due)
                await asyncio.sleep(lot.uniform(0, 30))
                await self._send(due)
            case "late":
                await self._until(QUOTE_S + lot.uniform(5, 60))
                await self._send(due)
            case "edge":
                await self._until(QUOTE_S + lot.uniform(-15, 15))
                await self._send(due)
            case "wrong asset":
                await self._send(due, kind=lot.choice(("twin", "coin")))
            case "wrong network":
                await self._send(due, street=-1)
            case "grains":
                for part in (9_999, due - 9_999 - 1, 1):
                    await self._send(part)
            case "huge":
                await self._send(due * 100 + 1)

    async def _until(self, span_s: float) -> None:
        """Wait until so long after the order was placed."""
        assert self.book.placed_at is not None
        then = self.book.placed_at + timedelta(seconds=span_s)
        await asyncio.sleep(max(0.0, (then - self.shop.world.now()).total_seconds()))

    async def _send(self, amount: int, *, kind: str = "dollar", street: int = 0) -> None:
        world, shop = self.shop.world, self.shop
        place = world.streets[street]
        to = self.book.address or world.shared_address
        if self.lot.random() < 0.1:
            place.pay_in_vain(to, amount)
        tx = place.pay(kind, to, amount)
        shop.transactions.append(tx)
        world.trace("pay", self.book.reference, kind, amount, tx[:12], place.name)
        await asyncio.sleep(0.5)

    async def _claims(self) -> None:
        """Press the button: with the true transaction, without, with another's, or with junk."""
        lot, shop = self.lot, self.shop
        for _ in range(lot.choice((0, 0, 1, 1, 2, 5))):
            await asyncio.sleep(lot.uniform(0, 50))
            if lot.random() < 0.3:
                await self._until(QUOTE_S - lot.uniform(0.1, 8))
            known = shop.transactions
            what = lot.choice(("nothing", "mine", "another's", "junk", "unknown"))
            named = {
                "nothing": None,
                "mine": known[-1] if known else None,
                "another's": lot.choice(known) if known else None,
                "junk": "paid!!",
                "unknown": f"0x{lot.getrandbits(256):064x}",
            }[what]
            await shop._claim(self.book, named)

    async def _changes_mind(self) -> None:
        lot, shop, book = self.lot, self.shop, self.book
        await asyncio.sleep(lot.uniform(0, 60))
        if lot.random() < 0.5:
            force = lot.random() < 0.3
            await shop.send(
                CancelOrder(
                    idempotency_key=shop.key(), reference=book.reference, reason="no", force=force
                ),
                book.reference,
            )
            return
        amount = max(ONE, book.asked + lot.choice((-5 * ONE, ONE, 60 * ONE)))
        await shop.send(
            AmendOrder(idempotency_key=shop.key(), reference=book.reference, amount=str(amount)),
            book.reference,
        )

    async def _flags_at_the_end(self) -> None:
        """Who has paid and not said so is asked, and says so; also once the order has come back."""
        while True:
            await asyncio.sleep(15.0)
            last = self.book.last
            if self.shop.world.calm and last and Attention.PAID_UNFLAGGED in last.attention:
                await self.shop._claim(self.book, None)
