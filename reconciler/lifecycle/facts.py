"""All that is known of one order: what the judge is handed."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from reconciler.model.order import Claim, OrderDecisions, Terms
from reconciler.model.transfer import OrderTransfer
from schemas.codes import Attention


class OrderFacts(Struct, frozen=True, kw_only=True):
    """All that is known of one order.

    `covered`: its address was searched back to the order's time. `holds`: why verdicts wait.
    `looked_until`: the block time up to which what its address held was explained.
    `noted`: attention that others found (an unreadable fact, a balance that differs, ambiguity).
    """

    terms: Terms
    claims: tuple[Claim, ...]
    transfers: tuple[OrderTransfer, ...]
    decisions: OrderDecisions
    covered: bool
    holds: tuple[str, ...] = ()
    noted: frozenset[Attention] = frozenset()
    looked_until: datetime | None = None
