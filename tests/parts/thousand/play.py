"""Plays a book: the shop places, customers claim and pay, chains mine, and time passes on them.

Chains go on only when they are told to, so a slow machine makes a run longer and changes no story.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from random import Random
from typing import Any

from tests.parts.thousand.bad_commands import BAD_COMMANDS
from tests.parts.thousand.book import Book
from tests.parts.thousand.model import end_of
from tests.parts.thousand.shop import Shop
from tests.parts.thousand.story import ChainLetter, Order, Payment
from tests.parts.thousand.street import Street

#: Blocks in which customers pay in time; every one is a second of the chain.
SLOTS = 26
LATE_SLOTS = 4
#: At these slots a branch is found that is better, so many blocks deep.
REORGANISED = {"a": (18, 5), "b": (22, 4)}
PACE_S = 0.7
LATE_PACE_S = 1.0
#: Nothing that we wait for takes longer, however slow the machine.
PATIENCE_S = 120.0
SENDS_AT_ONCE = 8
#: So many exceptions of a kind a person settles at the end.
SETTLED = 4


class Stuck(AssertionError):
    """What had to happen did not."""


class Play:
    """One run of a book."""

    def __init__(self, book: Book, streets: dict[ChainLetter, Street], shop: Shop) -> None:
        self.book = book
        self.streets = streets
        self.shop = shop
        self.random = Random(f"play {book.seed}")
        self._slots: dict[tuple[ChainLetter, int], list[Payment]] = defaultdict(list)
        self.progress = 0.0
        self._claimed: set[str] = set()
        self._cancelled: set[str] = set()
        self._schedule()

    # The plan

    def _schedule(self) -> None:
        """Give every payment its block; what belongs to one transaction gets one block."""
        together: dict[str, int] = {}
        for payment in self.book.payments:
            slot = self._slot_of(payment)
            if payment.together:
                slot = together.setdefault(payment.together, slot)
            self._slots[payment.chain, slot].append(payment)

    def _slot_of(self, payment: Payment) -> int:
        random = self.random
        if payment.when == "early":
            return 0
        if payment.when == "late":
            return SLOTS + 1 + random.randrange(LATE_SLOTS)
        slot, depth = REORGANISED[payment.chain]
        if payment.fate != "kept":
            return slot - random.randrange(depth)
        if payment.when == "second":
            return random.randrange(SLOTS * 2 // 3, SLOTS + 1)
        return random.randrange(1, SLOTS * 2 // 3)

    # The acts

    async def in_time(self) -> None:
        """Place everything while customers begin to pay, then let the rest be paid in time."""
        begun = int(time.time())
        for street in self.streets.values():
            await asyncio.to_thread(self._mine, street, 0, begun)
        async with asyncio.TaskGroup() as tasks:
            placing = tasks.create_task(self._place_all())
            for slot in range(1, SLOTS + 1):
                if slot == SLOTS // 2:
                    await placing
                    await self._until(self._all_are_known, "every order is placed")
                await self._slot(slot)
        await self._until(
            lambda: not self._open_siblings(), "siblings are cancelled", mining=self._mine_in_time
        )

    async def late(self, is_over: Callable[[], bool]) -> None:
        """Let the time to pay pass, pay late, and go on until every order has its end."""
        told = self.shop.told
        over = max(
            _instant(told.events[order.reference][-1]["open_until"]) for order in self.book.orders
        )
        await self._until(lambda: time.time() > over + 1, "the time to pay is over", timeout_s=300)
        for slot in range(SLOTS + 1, SLOTS + LATE_SLOTS + 1):
            await self._slot(slot, at=int(time.time()))
            await self._listen(LATE_PACE_S)
        deadline = time.monotonic() + PATIENCE_S
        while not (is_over() and not self.differing()):
            if time.monotonic() > deadline:
                raise Stuck("not every order ended as it must")
            await self._mine_all(at=int(time.time()))
            await self._listen(LATE_PACE_S)

    async def settle(self) -> None:
        """A person sends late money back and writes strays off."""
        told = self.shop.told
        late = [e for e in told.open_exceptions if e["kind"] == "late"][:SETTLED]
        strays = [e for e in told.open_exceptions if e["kind"] == "unmatched"][:SETTLED]
        assert late
        assert strays
        for number, exception in enumerate([*late, *strays]):
            action = {"action": "write_off", "transfer": exception["transfer"]}
            if exception in late:
                action |= {"action": "returned", "tx": f"0x{number:064x}"}
                self._payment_of(exception).disposed = True
            body = {
                "idempotency_key": f"settle-{number}",
                "actor": "Ada",
                "reason": "nobody will explain it",
                "action": action,
            }
            await self.shop.send("Decide", f"settle-{number}", body)
        settled = [exception["exception"] for exception in (*late, *strays)]
        await self._until(
            lambda: (
                not any(told.exceptions[one]["open"] for one in settled) and not self.differing()
            ),
            "what a person settled is settled",
            mining=self._mine_all,
        )

    def _payment_of(self, exception: dict[str, Any]) -> Payment:
        tx = exception["transfer"].split("/")[1]
        order = self.book.order(exception["order"])
        return next(payment for payment in order.payments if payment.tx == tx)

    async def rest(self) -> None:
        """Hear what still comes once nothing more happens."""
        for _ in range(3):
            await self._mine_all(at=int(time.time()))
            await self._listen(LATE_PACE_S)

    def differing(self) -> list[Order]:
        """Name the orders that do not stand where the model says."""
        return [order for order in self.book.orders if self.difference(order)]

    def difference(self, order: Order) -> str:
        """Say how an order differs from the model; empty when it does not."""
        last = self.shop.told.last(order.reference)
        if last is None:
            return "nothing was told of it"
        end = end_of(order)
        found = {
            "phase": (end.phase, last["phase"]),
            "received_final": (end.received, int(last["received_final"])),
            "received_pending": (0, int(last["received_pending"])),
            "missing": (max(0, order.due - end.received), int(last["missing"])),
            "excess": (max(0, end.received - order.due), int(last["excess"])),
            "attention": (sorted(end.attention), sorted(last["attention"])),
        }
        return "; ".join(
            f"{name}: expected {expected}, found {said}"
            for name, (expected, said) in found.items()
            if expected != said
        )

    # The shop

    async def _place_all(self) -> None:
        gate = asyncio.Semaphore(SENDS_AT_ONCE)

        async def place(order: Order) -> None:
            async with gate:
                for kind, body in _commands(order):
                    await self.shop.send(kind, order.reference, body)

        async def send_bad(kind: str, key: str, body: dict[str, Any]) -> None:
            async with gate:
                await self.shop.send(kind, key, body)

        async with asyncio.TaskGroup() as tasks:
            for order in self.book.orders:
                tasks.create_task(place(order))
            for _, kind, body in BAD_COMMANDS:
                tasks.create_task(send_bad(kind, str(body.get("reference", "bad")), body))

    async def _claim_by_name(self) -> None:
        """Name transactions as soon as their payers know them."""
        for order in self.book.orders:
            if order.reference in self._claimed or not order.claims:
                continue
            name = order.claims[0]
            paid = order if name == "own" else self.book.find(name)
            if paid is None or not self._is_known(order) or not paid.payments[0].tx:
                continue
            self._claimed.add(order.reference)
            body = _claim(order, paid.payments[0].tx)
            await self.shop.send("ClaimPaid", order.reference, body)

    async def _cancel_in_vain(self) -> None:
        """Cancel where money was seen: it must be refused."""
        for order in self.book.orders:
            if not order.cancel_when_seen or order.reference in self._cancelled:
                continue
            last = self.shop.told.last(order.reference)
            if last is not None and last["phase"] in {"detected", "confirmed"}:
                self._cancelled.add(order.reference)
                await self.shop.send("CancelOrder", order.reference, _cancel(order))

    # The chains

    async def _slot(self, slot: int, at: int | None = None) -> None:
        self.progress = slot / (SLOTS + LATE_SLOTS)
        for letter, street in self.streets.items():
            if slot <= SLOTS:
                assert self._is_in_time(street), "the chain runs ahead of the stories"
            await asyncio.to_thread(self._mine, street, slot, at)
            where, depth = REORGANISED[letter]
            if slot == where:
                await self._reorganise(letter, street, depth)
        await self._claim_by_name()
        await self._cancel_in_vain()
        await self._listen(PACE_S)

    def _is_in_time(self, street: Street) -> bool:
        """Tell whether a story in time still is, in the next block."""
        deadlines = [events[0]["deadline"] for events in self.shop.told.events.values()]
        return not deadlines or street.time + 2 < _instant(min(deadlines))

    async def _mine_in_time(self) -> None:
        """Let chains go on no further than all stories allow: then it is only waited."""
        for street in self.streets.values():
            if self._is_in_time(street):
                await asyncio.to_thread(street.mine)

    async def _reorganise(self, letter: ChainLetter, street: Street, depth: int) -> None:
        """Take blocks back, once a payment in them was final for somebody."""
        where, _ = REORGANISED[letter]
        deep = {
            payment.order
            for slot in range(where - depth + 1, where - 1)
            for payment in self._slots[letter, slot]
            if payment.fate == "lost"
        }
        if deep:
            await self._until(
                lambda: any(self._phase(order) == "confirmed" for order in deep),
                "a payment is final before its block is taken back",
            )
        if letter == "a":
            await asyncio.to_thread(street.reorganise, depth, self.random)
        else:
            await asyncio.to_thread(street.roll_back, depth)
            for _ in range(depth):
                await asyncio.to_thread(street.mine)

    def _mine(self, street: Street, slot: int, at: int | None) -> None:
        letter = next(letter for letter, one in self.streets.items() if one is street)
        ready, waiting = [], []
        for payment in self._slots[letter, slot]:
            (ready if self._is_ready(payment) else waiting).append(payment)
        assert not waiting or slot < SLOTS, "customers never learnt what to pay"
        self._slots[letter, slot + 1] += waiting
        self._slots[letter, slot] = ready
        street.pay(ready)
        street.mine(at)

    async def _mine_all(self, at: int | None = None) -> None:
        for street in self.streets.values():
            await asyncio.to_thread(street.mine, at)

    def _is_ready(self, payment: Payment) -> bool:
        """Tell whether its customer knows what to pay, and fix the amount when so."""
        if not payment.order:
            payment.amount = payment.plus
            return True
        order = self.book.order(payment.order)
        if not order.shared and order.amended is None:
            order.due = order.asked
        elif not self._is_known(order):
            return False
        payment.amount = payment.amount_for(order.due)
        return True

    # What was told

    def _is_known(self, order: Order) -> bool:
        """Tell whether the order's own terms were told, and note what is due."""
        last = self.shop.told.last(order.reference)
        if last is None or (order.amended is not None and int(last["due"]) != order.amended):
            return False
        order.due = int(last["due"])
        return True

    def _all_are_known(self) -> bool:
        return all(self._is_known(order) for order in self.book.orders)

    def _phase(self, reference: str) -> str:
        last = self.shop.told.last(reference)
        return last["phase"] if last else ""

    def _open_siblings(self) -> list[Order]:
        return [
            order
            for order in self.book.orders
            if order.sibling_pays and self._phase(order.reference) != "cancelled"
        ]

    async def _listen(self, span_s: float) -> None:
        until = time.monotonic() + span_s
        while True:
            await self.shop.listen()
            left_s = until - time.monotonic()
            if left_s <= 0:
                return
            await asyncio.sleep(min(0.1, left_s))

    async def _until(
        self,
        condition: Callable[[], bool],
        what: str,
        *,
        timeout_s: float = PATIENCE_S,
        mining: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                message = f"waited {timeout_s:.0f} s in vain until {what}"
                raise Stuck(message)
            await self._listen(PACE_S)
            if mining is not None:
                await mining()


def _commands(order: Order) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give what the shop sends for an order, in order."""
    place = {
        "idempotency_key": f"place-{order.reference}",
        "reference": order.reference,
        "route": order.route,
        "amount": str(order.asked),
        "purchase": order.purchase,
        "lines": [{"lot": order.story, "days": 7}],
    }
    if not order.shared:
        place["address"] = order.address
    told = [claim for claim in order.claims if claim is None or " " in claim]
    claims = [("ClaimPaid", _claim(order, claim)) for claim in told]
    if order.claims_first:
        yield from claims
    yield "PlaceOrder", place
    if order.placed_twice:
        yield "PlaceOrder", place
    if not order.claims_first:
        yield from claims
    if order.amended is not None:
        key = f"amend-{order.reference}"
        yield (
            "AmendOrder",
            {
                "idempotency_key": key,
                "reference": order.reference,
                "amount": str(order.amended),
            },
        )
    if order.cancelled:
        yield "CancelOrder", _cancel(order)


def _claim(order: Order, transaction: str | None) -> dict[str, Any]:
    return {
        "idempotency_key": f"claim-{order.reference}",
        "reference": order.reference,
        "transaction": transaction,
    }


def _cancel(order: Order) -> dict[str, Any]:
    return {
        "idempotency_key": f"cancel-{order.reference}",
        "reference": order.reference,
        "reason": "out of stock",
    }


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
