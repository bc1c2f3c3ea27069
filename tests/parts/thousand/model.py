"""The naive model: from a story to its end, with sums and no time but "late".

It knows the rules as a shop's clerk would, and nothing of blocks, lanes or watermarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.parts.thousand.story import CENT, COIN_DUST, USD, USD_DUST, Order, Payment

IMPLAUSIBLE_TIMES = 100
EXCESS_MAX = 5 * USD


@dataclass(frozen=True, kw_only=True)
class End:
    """How an order must end. `attention` are the codes that still stand."""

    phase: str
    received: int
    attention: frozenset[str]


def end_of(order: Order) -> End:
    """Judge an order by what was really sent to it and is still on its chain."""
    there = [p for p in order.payments if p.fate != "lost" and not p.disposed]
    listed = [payment for payment in there if payment.money != "fake"]
    attention = {code for payment in listed if (code := _wrong(order, payment))}
    right = [payment for payment in listed if not _wrong(order, payment)]
    late = [payment for payment in right if payment.when == "late"]
    counted = _counted(order, [payment for payment in right if payment.when != "late"])
    phase = _phase(order, counted)
    if phase == "cancelled":
        counted = 0
    if late:
        attention.add("late")
    if order.sibling_pays:
        attention.add("sibling_confirmed")
    if late and (order.sibling_pays or phase == "confirmed"):
        attention.add("paid_twice")
    if order.claims and not counted and not late:
        attention.add("claimed_unseen")
    if phase == "confirmed" and counted - order.due > _excess_max(order):
        attention.add("overpaid")
    return End(phase=phase, received=counted, attention=frozenset(attention))


def _phase(order: Order, counted: int) -> str:
    if order.cancelled or order.sibling_pays:
        return "cancelled"
    if counted >= _enough(order):
        return "confirmed"
    return "underpaid" if counted else "expired"


def _counted(order: Order, right: Sequence[Payment]) -> int:
    """Add up; grains count only together, and only when they complete the sum."""
    dust = USD_DUST if order.money == "usd" else COIN_DUST
    money = sum(payment.amount for payment in right if payment.amount >= dust)
    grains = sum(payment.amount for payment in right if payment.amount < dust)
    return money + grains if money < _enough(order) <= money + grains else money


def _wrong(order: Order, payment: Payment) -> str | None:
    if payment.chain != order.chain:
        return "wrong_network"
    if payment.money != order.money:
        return "wrong_asset"
    if payment.amount > order.due * IMPLAUSIBLE_TIMES:
        return "implausible_amount"
    return None


def _enough(order: Order) -> int:
    if order.shared or order.money != "usd":
        return order.due
    return order.due - min(order.due * 5 // 1_000, 2 * USD)


def _excess_max(order: Order) -> int:
    return EXCESS_MAX if order.money == "usd" and not order.shared else 0


def due_is_right(order: Order, *, step: int = CENT, steps_max: int = 400) -> bool:
    """On an own address the price is due; on a shared one a little more, and never a round sum."""
    if order.shared:
        more = order.due - order.asked
        return 0 < more <= steps_max * step and order.due % step == 0
    return order.due == (order.amended or order.asked)
