"""Which order does a transfer pay: one row a question, the answer last."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from reconciler.matcher import Candidate, MatchQuestion, Reservation, Share, match_transfer
from reconciler.matcher.match import SUGGESTIONS_MAX, reservation_since
from schemas.amounts import BaseUnits
from schemas.codes import ExceptionKind, MatchRule
from schemas.values import OrderReference
from tests.parts.world import ETH, ETHEREUM, POLYGON, START, USDC, USDT

O1, O2, O3 = (OrderReference(f"o-{n}") for n in (1, 2, 3))
AMOUNT = BaseUnits(25_010_000)


def reserved(order: OrderReference, amount: int = AMOUNT, **changes: object) -> Reservation:
    base = Reservation(
        order=order, asset=USDT, chain=ETHEREUM, amount=BaseUnits(amount), since=START
    )
    return msgspec.structs.replace(base, **changes)


def ask(**changes: object) -> MatchQuestion:
    """A transfer to a shared address on which nobody waits."""
    base = MatchQuestion(
        asset=USDT,
        chain=ETHEREUM,
        amount=AMOUNT,
        first_time=START,
        dust=10_000,
        known_asset=True,
        owner=None,
        owner_asset=None,
        owner_chain=None,
        reservations=(),
    )
    return msgspec.structs.replace(base, **changes)


def owned(**changes: object) -> MatchQuestion:
    return ask(owner=O1, owner_asset=USDT, owner_chain=ETHEREUM, **changes)


def claims(*orders: OrderReference) -> tuple[Candidate, ...]:
    return tuple(Candidate(order=order, why="claimed_transaction") for order in orders)


def senders(*orders: OrderReference) -> tuple[Candidate, ...]:
    return tuple(Candidate(order=order, why="named_sender") for order in orders)


K, R = ExceptionKind, MatchRule
#: name, question, rule, orders, exception, suggested orders.
ROWS = [
    ("own address", owned(), R.ADDRESS, [O1], None, []),
    ("own address, any amount", owned(amount=BaseUnits(1)), R.ADDRESS, [O1], None, []),
    (
        "own address, older than everything",
        owned(first_time=START - timedelta(days=9)),
        R.ADDRESS,
        [O1],
        None,
        [],
    ),
    ("own address, another asset", owned(asset=USDC), R.ADDRESS, [O1], K.WRONG_ASSET, []),
    ("own address, the chain's coin", owned(asset=ETH), R.ADDRESS, [O1], K.WRONG_ASSET, []),
    ("own address, another network", owned(chain=POLYGON), R.ADDRESS, [O1], K.WRONG_NETWORK, []),
    ("own address, taken away by a person", owned(rejected=O1), R.NONE, [], K.UNMATCHED, []),
    (
        "own address, a stranger names the transaction",
        owned(candidates=claims(O2)),
        R.ADDRESS,
        [O1],
        None,
        [],
    ),
    ("a person decided", owned(decided=(Share(O2, AMOUNT),)), R.DECISION, [O2], None, []),
    (
        "a person decided in the wrong asset's exception",
        owned(asset=USDC, decided=(Share(O2, AMOUNT),)),
        R.DECISION,
        [O2],
        None,
        [],
    ),
    (
        "a person split it",
        owned(decided=(Share(O1, BaseUnits(10_000)), Share(O2, BaseUnits(25_000_000)))),
        R.DECISION,
        [O1, O2],
        None,
        [],
    ),
    ("nobody waits", ask(), R.NONE, [], K.UNMATCHED, []),
    ("the reserved amount", ask(reservations=(reserved(O1),)), R.RESERVED_AMOUNT, [O1], None, []),
    (
        "the reserved amount among others",
        ask(
            reservations=(
                reserved(O2, AMOUNT + 10_000),
                reserved(O1),
                reserved(O3, AMOUNT - 10_000),
            )
        ),
        R.RESERVED_AMOUNT,
        [O1],
        None,
        [],
    ),
    (
        "one unit more",
        ask(amount=BaseUnits(AMOUNT + 1), reservations=(reserved(O1),)),
        R.NONE,
        [],
        K.UNMATCHED,
        [O1],
    ),
    (
        "one unit less",
        ask(amount=BaseUnits(AMOUNT - 1), reservations=(reserved(O1),)),
        R.NONE,
        [],
        K.UNMATCHED,
        [O1],
    ),
    (
        "at the first moment that may pay it",
        ask(reservations=(reserved(O1, since=START),)),
        R.RESERVED_AMOUNT,
        [O1],
        None,
        [],
    ),
    (
        "older than the order by a moment",
        ask(reservations=(reserved(O1, since=START + timedelta(microseconds=1)),)),
        R.NONE,
        [],
        K.UNMATCHED,
        [O1],
    ),
    (
        "two reservations of one amount cannot be, and if they were nobody would guess",
        ask(reservations=(reserved(O1), reserved(O2))),
        R.NONE,
        [],
        K.UNMATCHED,
        [O1, O2],
    ),
    (
        "the reserved amount, taken away by a person",
        ask(reservations=(reserved(O1),), rejected=O1),
        R.NONE,
        [],
        K.UNMATCHED,
        [O1],
    ),
    (
        "the amount in another asset",
        ask(asset=USDC, reservations=(reserved(O1),)),
        R.NONE,
        [],
        K.WRONG_ASSET,
        [],
    ),
    (
        "the amount on another network",
        ask(chain=POLYGON, reservations=(reserved(O1),)),
        R.NONE,
        [],
        K.WRONG_ASSET,
        [O1],
    ),
    (
        "a foreign asset where some order takes it",
        ask(asset=USDC, reservations=(reserved(O1), reserved(O2, 1, asset=USDC))),
        R.NONE,
        [],
        K.UNMATCHED,
        [O2],
    ),
    ("dust", ask(amount=BaseUnits(9_999)), R.NONE, [], K.DUST, []),
    ("what is no dust", ask(amount=BaseUnits(10_000)), R.NONE, [], K.UNMATCHED, []),
    (
        "one claim suggests and does not decide",
        ask(candidates=claims(O1)),
        R.NONE,
        [],
        K.UNMATCHED,
        [O1],
    ),
    ("two claims are ambiguous", ask(candidates=claims(O2, O1)), R.NONE, [], K.AMBIGUOUS, [O1, O2]),
    (
        "one customer who claims twice is not two",
        ask(candidates=claims(O1, O1)),
        R.NONE,
        [],
        K.UNMATCHED,
        [O1],
    ),
    (
        "a claim does not take what is reserved for another",
        ask(candidates=claims(O2), reservations=(reserved(O1),)),
        R.RESERVED_AMOUNT,
        [O1],
        None,
        [],
    ),
    (
        "a claimed transaction ranks before a sender, a sender before a near amount",
        ask(
            candidates=(*senders(O2), *claims(O3)),
            reservations=(reserved(O1, AMOUNT + 10_000),),
        ),
        R.NONE,
        [],
        K.UNMATCHED,
        [O3, O2, O1],
    ),
    (
        "the nearer amount first, whichever side",
        ask(
            reservations=(
                reserved(O1, AMOUNT + 30_000),
                reserved(O2, AMOUNT - 20_000),
                reserved(O3, AMOUNT + 10_000),
            )
        ),
        R.NONE,
        [],
        K.UNMATCHED,
        [O3, O2, O1],
    ),
    (
        "one order that is both is named once",
        ask(candidates=claims(O1), reservations=(reserved(O1, AMOUNT + 10_000),)),
        R.NONE,
        [],
        K.UNMATCHED,
        [O1],
    ),
]


@pytest.mark.parametrize(
    ("question", "rule", "orders", "exception", "suggested"),
    [row[1:] for row in ROWS],
    ids=[row[0].replace(" ", "-") for row in ROWS],
)
def test_match(question, rule, orders, exception, suggested) -> None:
    match = match_transfer(question)
    assert (match.rule, [s.order for s in match.shares], match.exception) == (
        rule,
        orders,
        exception,
    )
    assert [s.order for s in match.suggestions] == suggested
    assert match.reason
    assert match_transfer(question) == match
    if match.shares:
        assert sum(share.amount for share in match.shares) == question.amount


def test_every_rule_is_reached() -> None:
    assert {row[2] for row in ROWS} == set(MatchRule)


def test_suggestions_have_a_most() -> None:
    many = tuple(reserved(OrderReference(f"o-{n}"), AMOUNT + 10_000 * n) for n in range(1, 50))
    match = match_transfer(ask(reservations=many))
    assert [s.order for s in match.suggestions] == [f"o-{n}" for n in range(1, SUGGESTIONS_MAX + 1)]


def test_answer_does_not_depend_on_the_order_of_what_is_known() -> None:
    known = [reserved(OrderReference(f"o-{n}"), AMOUNT + 10_000 * n) for n in range(1, 9)]
    named = [*senders(O3, O1), *claims(O2)]
    one = match_transfer(ask(reservations=known, candidates=named))
    other = match_transfer(ask(reservations=known[::-1], candidates=named[::-1]))
    assert one == other


def test_order_may_be_paid_by_blocks_a_little_older_than_itself() -> None:
    assert reservation_since(START, 60) == START - timedelta(seconds=60)
