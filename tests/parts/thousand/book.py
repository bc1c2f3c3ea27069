"""The book of a run: a thousand orders of mixed stories, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.parts.thousand.story import (
    CENT,
    COIN_DUST,
    USD,
    USD_DUST,
    ChainLetter,
    Money,
    Order,
    Payment,
    address_of,
)

#: One wallet that many orders share, on both chains.
SHARED_ADDRESS = address_of("the shared address")
SHARED_STEP = CENT
SHARED_STEPS_MAX = 400


@dataclass(kw_only=True)
class Book:
    """Everything that happens, in the order in which the shop places it."""

    seed: int
    orders: list[Order] = field(default_factory=list)
    #: Money on the shared address that no order explains.
    strays: list[Payment] = field(default_factory=list)

    def order(self, reference: str) -> Order:
        return self._by_reference[reference]

    def find(self, reference: str | None) -> Order | None:
        return self._by_reference.get(reference or "")

    def __post_init__(self) -> None:
        self._by_reference: dict[str, Order] = {}

    def add(self, order: Order) -> Order:
        self.orders.append(order)
        self._by_reference[order.reference] = order
        return order

    @property
    def payments(self) -> list[Payment]:
        return [*(p for order in self.orders for p in order.payments), *self.strays]


def make_book(seed: int, count: int = 1_000) -> Book:
    """Make a book; `count` is a multiple of 200, so that every story is told."""
    writer = _Writer(seed)
    for story, share in STORIES.items():
        for _ in range(share * count // 1_000):
            TELLERS[story](writer, story)
    book = writer.book
    writer.random.shuffle(book.orders)
    for number in range(8):
        book.strays.append(
            Payment(
                order="",
                chain="a",
                money="twin" if number < 3 else "usd",
                to=SHARED_ADDRESS,
                plus=5_000 * USD + number,
            )
        )
    return book


class _Writer:
    """Makes orders, one number after the other."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"book {seed}")
        self.book = Book(seed=seed)

    def order(
        self,
        story: str,
        *,
        money: Money | None = None,
        chain: ChainLetter | None = None,
        shared: bool = False,
        **more: Any,
    ) -> Order:
        random = self.random
        number = len(self.book.orders) + 1
        where: ChainLetter = chain or random.choice(("a", "b"))
        what: Money = money or random.choice(("usd", "usd", "usd", "coin"))
        if what == "usd":
            asked = random.randrange(10_00, 200_00) * CENT
        else:
            asked = random.randrange(1_000, 50_000) * 10**13
        reference = f"order-{number:04}"
        return self.book.add(
            Order(
                reference=reference,
                story=story,
                chain=where,
                money=what,
                shared=shared,
                address=SHARED_ADDRESS if shared else address_of(f"{self.book.seed}/{reference}"),
                asked=asked,
                placed_twice=random.random() < 0.05,
                **more,
            )
        )


def _exact(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    early = writer.random.random() < 0.1
    order.pay(100, when="early" if early else "first", alone=writer.random.random() < 0.2)


def _moved(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    order.pay(100, fate="moved", alone=writer.random.random() < 0.5)


def _lost(writer: _Writer, story: str) -> None:
    """Small, so that three blocks are deep enough: confirmed, and then taken away."""
    order = writer.order(story, money="usd")
    order.asked = writer.random.randrange(10_00, 45_00) * CENT
    order.pay(100, fate="lost", alone=True)


def _two_parts(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    order.pay(40)
    order.pay(60, plus=10, when="second")


def _topped_up(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    order.pay(90)
    order.pay(15, when="second", alone=True)


def _underpaid(writer: _Writer, story: str) -> None:
    writer.order(story).pay(writer.random.randrange(20, 95))


def _tolerated(writer: _Writer, story: str) -> None:
    """Half a percent less than due, and at most two, is enough on the routes in dollars."""
    writer.order(story, money="usd").pay(100, plus=-4 * CENT)


def _nothing(writer: _Writer, story: str) -> None:
    writer.order(story)


def _overpaid(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    order.pay(100, plus=(20 * USD if order.money == "usd" else order.asked))


def _late(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    order.pay(100, when="late")


def _late_top_up(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    order.pay(50)
    order.pay(50, when="late")


def _claimed_early(writer: _Writer, story: str) -> None:
    order = writer.order(story, claims=[None])
    order.claims_first = writer.random.random() < 0.2
    order.pay(100)


def _claimed_by_name(writer: _Writer, story: str) -> None:
    """The customer names the transaction that pays."""
    order = writer.order(story, claims=["own"])
    order.pay(100, alone=True)


def _claimed_junk(writer: _Writer, story: str) -> None:
    order = writer.order(story, claims=["see my wallet"])
    if writer.random.random() < 0.5:
        order.pay(100)


def _names_what_another_paid(writer: _Writer, story: str) -> None:
    """Transaction ids are public: a stranger names the payment of another customer."""
    honest = writer.order(story)
    honest.pay(100, alone=True)
    thief = writer.order(story, chain=honest.chain, money=honest.money)
    thief.claims.append(honest.reference)


def _look_alike(writer: _Writer, story: str) -> None:
    order = writer.order(story, money="usd")
    order.pay(100, money="fake")
    if writer.random.random() < 0.3:
        order.pay(100, when="second")


def _wrong_asset(writer: _Writer, story: str) -> None:
    order = writer.order(story, money="usd")
    if writer.random.random() < 0.5:
        order.pay(100, money="twin")
    else:
        order.pay(plus=10**17, money="coin")


def _wrong_network(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    other: ChainLetter = "b" if order.chain == "a" else "a"
    order.pay(100, chain=other)


def _shared(writer: _Writer, story: str) -> None:
    order = writer.order(story, money="usd", shared=True)
    turn = writer.random.random()
    if turn < 0.7:
        order.pay(100)
    elif turn < 0.8:
        order.pay(100, when="late")


def _shared_moved(writer: _Writer, story: str) -> None:
    writer.order(story, money="usd", shared=True).pay(100, fate="moved")


def _two_in_one(writer: _Writer, story: str) -> None:
    """One transaction pays two orders, and one of them twice."""
    first = writer.order(story)
    second = writer.order(story, chain=first.chain)
    name = f"together-{first.reference}"
    first.pay(100, together=name)
    second.pay(50, together=name)
    second.pay(50, plus=10, together=name)


def _amended(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    order.amended = order.asked * writer.random.choice((80, 110, 130)) // 100
    if writer.random.random() < 0.8:
        order.pay(100)


def _cancelled(writer: _Writer, story: str) -> None:
    order = writer.order(story, cancelled=True)
    if writer.random.random() < 0.3:
        order.pay(100, when="late")


def _cancelled_in_vain(writer: _Writer, story: str) -> None:
    writer.order(story, cancel_when_seen=True).pay(100)


def _siblings(writer: _Writer, story: str) -> None:
    first = writer.order(story)
    first.purchase = f"purchase-{first.reference}"
    first.pay(100)
    second = writer.order(story, purchase=first.purchase, sibling_pays=True)
    if writer.random.random() < 0.4:
        second.pay(100, when="late")


def _dust(writer: _Writer, story: str) -> None:
    order = writer.order(story)
    dust = USD_DUST if order.money == "usd" else COIN_DUST
    turn = writer.random.randrange(3)
    if turn == 0:
        order.pay(plus=dust // 2)
    elif turn == 1:
        order.pay(100)
        order.pay(plus=dust // 3, when="second")
    else:
        order.pay(50)
        order.pay(plus=dust - 1, when="second")


def _dust_completes(writer: _Writer, story: str) -> None:
    """Coins have no tolerance: the last grain completes the sum."""
    order = writer.order(story, money="coin")
    order.pay(100, plus=-(COIN_DUST // 2))
    order.pay(plus=COIN_DUST // 2, when="second")


def _implausible(writer: _Writer, story: str) -> None:
    order = writer.order(story, money="usd")
    order.asked = 10 * USD
    order.pay(plus=1_001 * USD)


#: Story: how many of a thousand orders begin one; those of two orders count once.
STORIES: dict[str, int] = {
    "exact": 185,
    "moved": 60,
    "lost": 20,
    "two parts": 60,
    "topped up": 40,
    "underpaid": 50,
    "tolerated": 20,
    "nothing": 50,
    "overpaid": 40,
    "late": 40,
    "late top-up": 20,
    "claimed early": 40,
    "claimed by name": 20,
    "claimed junk": 20,
    "claims another's": 10,
    "look-alike": 20,
    "wrong asset": 20,
    "wrong network": 20,
    "shared": 80,
    "shared moved": 10,
    "two in one": 20,
    "amended": 30,
    "cancelled": 20,
    "cancelled in vain": 10,
    "siblings": 20,
    "dust": 10,
    "dust completes": 10,
    "implausible": 5,
}
TELLERS: dict[str, Callable[[_Writer, str], None]] = {
    "exact": _exact,
    "moved": _moved,
    "lost": _lost,
    "two parts": _two_parts,
    "topped up": _topped_up,
    "underpaid": _underpaid,
    "tolerated": _tolerated,
    "nothing": _nothing,
    "overpaid": _overpaid,
    "late": _late,
    "late top-up": _late_top_up,
    "claimed early": _claimed_early,
    "claimed by name": _claimed_by_name,
    "claimed junk": _claimed_junk,
    "claims another's": _names_what_another_paid,
    "look-alike": _look_alike,
    "wrong asset": _wrong_asset,
    "wrong network": _wrong_network,
    "shared": _shared,
    "shared moved": _shared_moved,
    "two in one": _two_in_one,
    "amended": _amended,
    "cancelled": _cancelled,
    "cancelled in vain": _cancelled_in_vain,
    "siblings": _siblings,
    "dust": _dust,
    "dust completes": _dust_completes,
    "implausible": _implausible,
}
