"""What the referee knows of each order: what was asked, said and decided, each with the log's time.

Written by those who act (shop, customers, operator) and by what the shop hears; read by the referee.
Nothing here asks the service or its code what it thinks.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from schemas.caip import ChainName
from schemas.codes import Phase
from schemas.events import EventKind, PaymentEvent
from tests.simulate.settings import DUST, EXTENSION_S, QUOTE_S, UTXO_DUST


class Book:
    """One order."""

    def __init__(self, reference: str, route: str, asked: int, address: str | None) -> None:
        self.reference, self.route, self.asked, self.address = reference, route, asked, address
        self.purchase: str | None = None
        self.placed_at: datetime | None = None
        self.claimed_at: list[datetime] = []
        self.amended = False
        self.cancel_asked = False
        #: Its order was refused: nobody waits for anything.
        self.refused = False
        #: A person's word bears on it: then only what nobody may do is checked.
        self.touched = False
        self.accepted = False
        self.events: list[PaymentEvent] = []
        self.dues: set[int] = set()

    @property
    def last(self) -> PaymentEvent | None:
        return self.events[-1] if self.events else None

    @property
    def phase(self) -> Phase | None:
        return self.last.phase if self.last else None

    @property
    def has_ended(self) -> bool:
        return self.phase in {Phase.CONFIRMED, Phase.UNDERPAID, Phase.EXPIRED, Phase.CANCELLED}

    def was(self, kind: EventKind) -> bool:
        return any(event.kind is kind for event in self.events)

    @property
    def deadline(self) -> datetime:
        assert self.placed_at is not None
        return self.placed_at + timedelta(seconds=QUOTE_S)

    @property
    def end(self) -> datetime:
        """The end of *open*: one claim in time extends it, once."""
        earned = any(at <= self.deadline for at in self.claimed_at)
        return self.deadline + timedelta(seconds=EXTENSION_S if earned else 0)

    def least_enough(self, due: int) -> int:
        if self.route == "shared":
            return due
        return due - min(due * 5 // 1_000, 2_000_000)


class Books:
    """All orders, and what people decided about transfers."""

    def __init__(self) -> None:
        self.orders: dict[str, Book] = {}
        #: (transaction, order) that a person has ever given money to.
        self.given: set[tuple[str, str]] = set()
        #: Transactions that a person decided about in whatever way.
        self.decided: set[str] = set()
        self.exceptions: dict[str, object] = {}

    def by_address(self, address: str) -> Book | None:
        return next((b for b in self.orders.values() if b.address == address), None)


def is_dust(asset: str, amount: int) -> bool:
    utxo = UTXO_DUST.get(ChainName(asset.partition("/")[0]))
    if utxo is not None:
        return amount < utxo
    return amount < (DUST if "erc20" in asset else 10**12)
