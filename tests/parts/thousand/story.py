"""What customers do in a run: orders, the payments that they get, and nothing about the service.

A plan is all that the naive model and the players know. Amounts that only the service can name (what
is due on a shared address) are left as shares of what will be due.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from eth_utils.address import to_checksum_address

#: Early: before the watcher knows the address. Late: when the time to pay is over.
When = Literal["early", "first", "second", "late"]
#: Kept where it was mined, mined again in another block, or lost with its block.
Fate = Literal["kept", "moved", "lost"]
Money = Literal["usd", "twin", "fake", "coin"]
ChainLetter = Literal["a", "b"]

USD = 10**6
CENT = 10**4
COIN = 10**18
#: Below these the catalogue of a run calls money dust.
USD_DUST = CENT
COIN_DUST = 10**12


def address_of(text: str) -> str:
    return to_checksum_address("0x" + hashlib.sha256(text.encode()).hexdigest()[:40])


@dataclass(kw_only=True)
class Payment:
    """One movement: a share of what is due, and something more."""

    order: str
    chain: ChainLetter
    money: Money
    to: str
    percent: int = 0
    plus: int = 0
    when: When = "first"
    fate: Fate = "kept"
    #: Payments of one name travel in one transaction; without one it stands alone or in a crowd.
    together: str | None = None
    alone: bool = False
    #: A person sent it back, or wrote it off.
    disposed: bool = False
    #: What was really sent, in base units; known once it was.
    amount: int = 0
    tx: str = ""

    def amount_for(self, due: int) -> int:
        return due * self.percent // 100 + self.plus


@dataclass(kw_only=True)
class Order:
    """One order and everything that its customer does."""

    reference: str
    story: str
    chain: ChainLetter
    money: Money
    shared: bool
    address: str
    asked: int
    payments: list[Payment] = field(default_factory=list)
    purchase: str | None = None
    amended: int | None = None
    cancelled: bool = False
    #: Another order of its purchase is paid.
    sibling_pays: bool = False
    claims: list[str | None] = field(default_factory=list)
    #: The customer claims before the shop has placed the order.
    claims_first: bool = False
    #: The shop tries to cancel when it sees money, and must not succeed.
    cancel_when_seen: bool = False
    placed_twice: bool = False
    #: What the customer really has to pay, as `awaiting` said.
    due: int = 0

    @property
    def route(self) -> str:
        return f"{self.chain}-{'shared' if self.shared else self.money}"

    def pay(self, percent: int = 0, *, plus: int = 0, **more: object) -> Payment:
        values: dict[str, object] = {"chain": self.chain, "money": self.money, "to": self.address}
        payment = Payment(order=self.reference, percent=percent, plus=plus, **(values | more))
        self.payments.append(payment)
        return payment
