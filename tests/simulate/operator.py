"""The operator: acts on what is open, mostly sensibly, sometimes not, and takes some of it back."""

from __future__ import annotations

import asyncio
from random import Random

from reconciler.stream.promise import Lane, Outgoing
from reconciler.stream.topics import requests_topic
from schemas.codec import encode, kind_name
from schemas.commands import (
    AcceptShort,
    Action,
    Assign,
    Close,
    Decide,
    Hold,
    Part,
    Reject,
    Release,
    Returned,
    Revive,
    Split,
    Undo,
    WriteOff,
)
from schemas.envelope import Envelope, to_headers
from schemas.events import PaymentException
from schemas.requests import ChainRequest, ReadAgain, ReleaseReorganisation
from schemas.values import OrderReference, TransferName
from tests.simulate.shop import Shop

ACTS_UNTIL_S = 260.0


class Operator:
    """One person at the desk."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.world = shop.world
        self.lot: Random = self.world.lot("operator")
        self._decided: list[str] = []
        self._held: set[str] = set()
        self._requests = 0

    async def work(self) -> None:
        """Act from time to time; in the end let go of everything."""
        every_s = self.world.plan.operator_every_s
        while every_s and self.world.loop.time() < ACTS_UNTIL_S:
            await asyncio.sleep(self.lot.expovariate(1 / every_s))
            action = self._choose()
            if action is not None:
                await self._decide(action)
        for subject in sorted(self._held):
            await self._decide(Release(subject=subject))
        self.world.operator_is_done = True
        await self._agree_to_reorganisations()

    async def _decide(self, action: Action) -> None:
        key = self.shop.key()
        self._decided.append(key)
        self.world.trace("decide", key, action)
        command = Decide(idempotency_key=key, actor="ada", reason="so", action=action)
        reference = getattr(action, "reference", None) or getattr(action, "transfer", "desk")
        await self.shop.send(command, reference)

    def _choose(self) -> Action | None:
        lot = self.lot
        what = lot.choices(
            ("exception", "transfer", "order", "undo", "hold", "release", "again"),
            weights=(6, 4, 3, 2, 1, 2, 2),
        )[0]
        if what == "exception":
            return self._about_exception()
        if what == "transfer":
            return self._about_transfer()
        if what == "order":
            reference = lot.choice(sorted(self.shop.books.orders) or ["o-1"])
            return lot.choice((AcceptShort, Revive))(reference=OrderReference(reference))
        if what == "undo" and self._decided:
            return Undo(decision=lot.choice(self._decided))
        if what == "hold":
            subject = lot.choice((self.world.streets[0].name, "own", "shared"))
            self._held.add(subject)
            return Hold(subject=subject)
        if what == "release" and self._held:
            subject = lot.choice(sorted(self._held))
            self._held.discard(subject)
            return Release(subject=subject)
        if what == "again":
            self.world.do(self._read_again())
        return None

    def _about_exception(self) -> Action | None:
        """Settle what is open: as suggested, or simply close it."""
        found = [e for e in self.shop.books.exceptions.values() if isinstance(e, PaymentException)]
        opened = sorted((e for e in found if e.open), key=lambda e: e.exception)
        if not opened:
            return None
        one = self.lot.choice(opened)
        if one.transfer is None or self.lot.random() < 0.3:
            return Close(exception=one.exception)
        if one.suggestions and self.lot.random() < 0.7:
            return Assign(transfer=one.transfer, reference=one.suggestions[0].order)
        return self._word_on(one.transfer)

    def _about_transfer(self) -> Action | None:
        told = [
            transfer.transfer
            for book in self.shop.books.orders.values()
            if book.last is not None
            for transfer in book.last.transfers
        ]
        return self._word_on(self.lot.choice(sorted(told))) if told else None

    def _word_on(self, transfer: TransferName) -> Action:
        lot = self.lot
        orders = [OrderReference(name) for name in sorted(self.shop.books.orders)]
        what = lot.choice(("assign", "split", "reject", "returned", "write off"))
        if what == "split" and len(orders) > 1:
            amount = self._amount_of(transfer)
            first = lot.randrange(1, max(2, amount))
            parts = [
                Part(reference=reference, amount=str(share))
                for reference, share in zip(
                    lot.sample(orders, 2), (first, amount - first), strict=True
                )
            ]
            return Split(transfer=transfer, parts=tuple(parts))
        if what == "reject":
            return Reject(transfer=transfer)
        if what == "returned":
            return Returned(transfer=transfer, tx="0xback")
        if what == "write off":
            return WriteOff(transfer=transfer)
        return Assign(transfer=transfer, reference=lot.choice(orders))

    def _amount_of(self, transfer: TransferName) -> int:
        tx = transfer.split("/")[1]
        found = [m for street in self.world.streets for m in street.movements.get(tx, ())]
        return found[0].amount if found else 2

    # --- requests ---

    async def _read_again(self) -> None:
        street = self.lot.choice(self.world.streets)
        last = self.lot.randrange(3, street.chain.height + 1)
        self._requests += 1
        request = ReadAgain(
            request=f"again-{self._requests}",
            chain=street.name,
            from_height=max(3, last - self.lot.randrange(6)),
            to_height=last,
            reason="to be sure",
        )
        await self._ask(request)

    async def _agree_to_reorganisations(self) -> None:
        """Whoever waits for a person to agree to a reorganisation hears that a person agrees."""
        while True:
            for street in self.world.streets:
                self._requests += 1
                await self._ask(
                    ReleaseReorganisation(
                        request=f"release-{self._requests}",
                        chain=street.name,
                        actor="ada",
                        reason="both nodes say so",
                    )
                )
            await asyncio.sleep(30.0)

    async def _ask(self, request: ChainRequest) -> None:
        now = self.world.now()
        headers = to_headers(Envelope(id=request.request, type=kind_name(request), time=now))
        lane = Lane(requests_topic(request.chain), 0)
        outgoing = Outgoing(
            lane=lane, key=request.request.encode(), value=encode(request), headers=headers
        )
        self.world.trace("request", request.request, request.chain)
        await self.world.log._land([outgoing])
