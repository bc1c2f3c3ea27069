"""What a story may do: pay, claim, wait for what the shop is told, take blocks back."""

from __future__ import annotations

import asyncio
import itertools
from typing import Final

from reconciler.demo.book import Book, Line, is_unmined
from reconciler.demo.shop import Shop
from reconciler.demo.stage import Money, Stage, StageError, WaitingChain
from reconciler.kernel.clock import Clock
from schemas.codes import Attention, Phase
from schemas.commands import ClaimPaid
from schemas.events import PaymentEvent
from schemas.values import OrderReference

#: A second try at taking back blocks, when a block was mined in between.
TRIES_MAX: Final = 5
LOOK_EVERY_S: Final = 0.1


class Paid:
    """What customers really sent, to compare with what was credited. **Units**: base units."""

    def __init__(self) -> None:
        self.by_tx: dict[str, tuple[Money, int]] = {}
        self.said: dict[str, str] = {}


class Script:
    """Moves the customers of one demo. Waits for conditions, never for time to have passed."""

    def __init__(self, stage: Stage, shop: Shop, clock: Clock) -> None:
        self.stage = stage
        self.shop = shop
        self.paid = Paid()
        self._clock = clock
        self._claims = itertools.count(1)

    @property
    def book(self) -> Book:
        """What the shop knows."""
        return self.shop.book

    async def pause(self, seconds: float) -> None:
        """Let a customer think, so that a person can follow. Nothing depends on it."""
        await self._clock.sleep(seconds)

    def says(self, order: str, text: str, *, in_all: str | None = None) -> None:
        """Show what the customer does; `in_all` is what they did so far, if that is more."""
        self.paid.said[order] = in_all or text
        self.book.add_line(Line(at=self._clock.now(), order=order, text=f"customer: {text}"))

    async def pay(
        self,
        order: str,
        amount: str,
        *,
        money: Money | None = None,
        said: str | None = None,
        in_all: str | None = None,
    ) -> str:
        """Pay to an order's address, in its own asset if no other is given; gives the transaction.

        **Raises**: `AmountError`; `StageError`.
        """
        event = await self.placed(order)
        money = money or self.stage.money(event.asset)
        units = money.units(amount)
        tx = await self._pay(event, money, units)
        self.says(order, said or f"paid {money.words(units)}", in_all=in_all)
        return tx

    async def pay_due(self, order: str) -> str:
        """Pay exactly what the order asks for."""
        event = await self.placed(order)
        money = self.stage.money(event.asset)
        tx = await self._pay(event, money, event.due)
        self.says(order, f"paid {money.words(event.due)}")
        return tx

    async def _pay(self, event: PaymentEvent, money: Money, units: int) -> str:
        tx = await self.stage.chains[money.chain].pay(money, event.address, units)
        self.paid.by_tx[tx] = (money, units)
        return tx

    async def pay_waiting(self, order: str) -> str:
        """Pay what an order asks for so that no miner takes it, and wait until the shop is told of it.

        **Raises**: `StageError`.
        """
        event = await self.placed(order)
        money = self.stage.money(event.asset)
        tx = await self._litecoin.pay_little_fee(event.address, event.due)
        self.paid.by_tx[tx] = (money, event.due)
        self.says(order, f"paid {money.words(event.due)}")
        await self.book.until(lambda: is_unmined(self.book.last(order)))
        return tx

    async def hurry(self, tx: str) -> None:
        """Have the miners take a payment that waits."""
        await self._litecoin.hurry(tx)

    async def replace(self, order: str, tx: str) -> None:
        """Pay what waits to its sender instead."""
        await self._litecoin.replace(tx)
        self.says(order, "took it back, unmined")

    @property
    def _litecoin(self) -> WaitingChain:
        if self.stage.litecoin is None:
            raise StageError("there is no litecoind")
        return self.stage.litecoin

    async def claim(self, order: str, tx: str | None) -> None:
        """Press "I've paid"."""
        key = f"demo-claim-{next(self._claims)}"
        await self.shop.send(
            ClaimPaid(idempotency_key=key, reference=OrderReference(order), transaction=tx)
        )

    async def mined(self, money: Money, tx: str) -> None:
        """Wait until a transaction stands in a block."""
        while not await self.stage.chains[money.chain].depth_of(tx):
            await self._clock.sleep(LOOK_EVERY_S)

    async def take_back(self, money: Money, tx: str) -> None:
        """Replace the blocks from a transaction's on; it never comes back."""
        chain = self.stage.chains[money.chain]
        for attempt in range(TRIES_MAX):
            depth = await chain.depth_of(tx)
            try:
                await chain.reorganise(depth, away=[tx])
            except StageError:
                if attempt + 1 == TRIES_MAX:
                    raise
                await asyncio.sleep(LOOK_EVERY_S)
                continue
            if not await chain.depth_of(tx):
                return

    async def placed(self, order: str) -> PaymentEvent:
        """Wait until an order is placed; gives its last event."""
        await self.book.until(lambda: self.book.last(order) is not None)
        event = self.book.last(order)
        if event is None:
            raise KeyError(order)
        return event

    async def see(self, order: str, *phases: Phase) -> None:
        """Wait until the shop is told one of these phases."""
        await self.book.until(lambda: _phase(self.book.last(order)) in phases)

    async def happened(self, order: str, kind: str) -> None:
        """Wait for an event of this kind."""
        await self.book.until(lambda: kind in self.book.kinds(order))

    async def attention(self, order: str, code: Attention) -> None:
        """Wait until an order bears this attention."""
        await self.book.until(lambda: code in getattr(self.book.last(order), "attention", ()))


def _phase(event: PaymentEvent | None) -> Phase | None:
    return None if event is None else event.phase
