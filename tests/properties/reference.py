"""A second opinion: what must become of an order, worked out from the full list of facts at once.

Knows nothing of rows, batches, journals or what was decided before: it is handed every transfer and
claim there will ever be, walks the watermarks once, and says where the order ends. For stable assets,
three blocks deep, without reorganisations and without people. Amounts are base units, times minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DUST = 10_000
DEPTH = 3
EXTENSION = 20.0
CLAIM_PATIENCE = 20.0
TIMES = 100


@dataclass(frozen=True)
class Money:
    """A transfer that stands in a block for ever."""

    name: str
    amount: int
    height: int
    minute: float
    kind: str = "right"  # or wrong_asset, wrong_network


@dataclass
class Agreed:
    """An order: what is due by when, and what people pressed and paid."""

    due: int
    deadline: float
    exact: bool = False
    claims: list[float] = field(default_factory=list)
    paid: list[Money] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """Where it ends, what counts, and which exceptions stay open, as (kind, what it is about)."""

    phase: str
    received: int
    counted: frozenset[str]
    exceptions: frozenset[tuple[str, str]]


def least_enough(order: Agreed) -> int:
    if order.exact:
        return order.due
    return order.due - min(order.due * 5 // 1000, 2_000_000)


def end_of(order: Agreed) -> float:
    earned = any(minute <= order.deadline for minute in order.claims)
    return order.deadline + (EXTENSION if earned else 0)


def counting(order: Agreed, known: list[Money]) -> list[Money]:
    """Believed money of the right kind and in time; grains only where they complete the sum."""
    good = [
        m
        for m in known
        if m.kind == "right" and m.amount <= TIMES * order.due and m.minute <= end_of(order)
    ]
    whole = [m for m in good if m.amount >= DUST]
    enough = least_enough(order)
    if sum(m.amount for m in whole) < enough <= sum(m.amount for m in good):
        return good
    return whole


def judge(order: Agreed, watermarks: list[tuple[int, float]]) -> Verdict:
    """Walk the watermarks (height, minute) once, then look at the end."""
    phase, frozen = "open", list[Money]()
    for height, minute in watermarks:
        known = [m for m in order.paid if m.height <= height]
        counted = counting(order, known)
        final = [m for m in counted if m.height + DEPTH - 1 <= height]
        if phase == "open" and sum(m.amount for m in final) >= least_enough(order):
            phase = "confirmed"
        if phase == "open" and minute > end_of(order) and len(final) == len(counted):
            phase, frozen = ("underpaid" if final else "expired"), final
    counted = frozen if phase in {"underpaid", "expired"} else counting(order, order.paid)
    return Verdict(
        phase=phase,
        received=sum(m.amount for m in counted),
        counted=frozenset(m.name for m in counted),
        exceptions=frozenset(_exceptions(order, phase, counted)),
    )


def _exceptions(order: Agreed, phase: str, counted: list[Money]) -> list[tuple[str, str]]:
    found = []
    rest = [m for m in order.paid if m not in counted]
    for money in rest:
        if money.amount < DUST:
            found.append(("dust", ""))
        elif money.kind != "right":
            found.append((money.kind, money.name))
        elif money.amount > TIMES * order.due:
            found.append(("implausible_amount", money.name))
        else:
            found.append(("paid_twice" if phase == "confirmed" else "late", money.name))
    received = sum(m.amount for m in counted)
    if phase == "underpaid":
        found.append(("underpaid", "order"))
    if phase == "confirmed" and received > order.due:
        found.append(("overpaid", "order"))
    late = [kind for kind, _ in found if kind in {"late", "paid_twice"}]
    if order.claims and not counted and not late:
        found.append(("claimed_unseen", "order"))
    return found
