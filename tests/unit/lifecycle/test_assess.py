"""The judge as a table: facts at some minutes, and where the order stands in the end.

Placed at minute 0, due 25, deadline 60, extension 20, final three blocks (0.6 minutes) deep, patience
10 with a retraction and 120 with pending money, tolerance 0.5 % and at most 2.
"""

from __future__ import annotations

import time

import msgspec
import pytest

from reconciler.model.order import Terms
from reconciler.model.policy import FinalityTier, Tolerance
from schemas.amounts import BaseUnits
from schemas.codes import AmountState, Attention, MatchRule, Phase, TransferState
from tests.parts.judging import (
    Step,
    Told,
    claim,
    final,
    given,
    minute,
    money,
    retracted,
    seen,
    tell,
    terms,
    usdt,
)
from tests.parts.world import ETH, POLYGON, USDC, policy

AWAITING, CLAIMED, DETECTED = Phase.AWAITING_PAYMENT, Phase.CLAIMED, Phase.DETECTED
PARTIAL, CONFIRMED, REVERSED = Phase.PARTIALLY_PAID, Phase.CONFIRMED, Phase.REVERSED
UNDERPAID, EXPIRED, CANCELLED = Phase.UNDERPAID, Phase.EXPIRED, Phase.CANCELLED
NONE, SHORT, EXACT, OVER = AmountState.NONE, AmountState.SHORT, AmountState.EXACT, AmountState.OVER
A = Attention

VOLATILE = terms(rules=policy(stable=False))
UNKNOWING = terms(rules=policy(flag_by_address=False, flag_by_reserved_amount=False))
REVIVES = terms(rules=policy(late_revive_within_s=86_400))
SHARED = terms(mode="shared")
EXCESS = terms(rules=policy(tolerance=Tolerance(under_ppm=5_000, excess_max=BaseUnits(usdt(5)))))

PAID = (final(25),)
CONFIRMS = (Step(at=11, transfers=PAID),)


def lost(since: float = 20) -> tuple[object, ...]:
    return (retracted(25, since=since),)


ROWS: list[tuple[str, Terms, tuple[Step, ...], Phase, AmountState, set[Attention]]] = [
    # Phases, the highest that holds.
    ("nothing", terms(), (Step(at=1),), AWAITING, NONE, set()),
    ("a claim", terms(), (Step(at=11, claims=(claim(),)),), CLAIMED, NONE, set()),
    ("seen", terms(), (Step(at=10, transfers=(seen(25),)),), DETECTED, NONE, set()),
    ("included", terms(), (Step(at=10.2, transfers=(money(25),)),), DETECTED, NONE, set()),
    (
        "deep enough but told by a fact, no watermark",
        terms(),
        (Step(at=10.4, transfers=(money(25),), verdicts=False),),
        DETECTED,
        NONE,
        set(),
    ),
    ("final", terms(), (Step(at=10.4, transfers=(money(25),)),), CONFIRMED, EXACT, set()),
    (
        "final but told by a fact, no watermark",
        terms(),
        (Step(at=11, transfers=PAID, verdicts=False),),
        DETECTED,
        EXACT,
        set(),
    ),
    ("part", terms(), (Step(at=11, transfers=(final(10),)),), PARTIAL, SHORT, set()),
    (
        "part and more on the way",
        terms(),
        (Step(at=11, transfers=(final(10), seen(15, name="t2"))),),
        DETECTED,
        SHORT,
        set(),
    ),
    ("expired", terms(), (Step(at=61),), EXPIRED, NONE, set()),
    ("at the deadline, not past it", terms(), (Step(at=60),), AWAITING, NONE, set()),
    ("underpaid", terms(), (Step(at=61, transfers=(final(10),)),), UNDERPAID, SHORT, set()),
    (
        "over time, told by a fact",
        terms(),
        (Step(at=61, verdicts=False),),
        AWAITING,
        NONE,
        set(),
    ),
    # Amounts and tolerance: 0.5 % of 25 is 0.125.
    (
        "one unit more",
        terms(),
        (Step(at=11, transfers=(final(25.000001),)),),
        CONFIRMED,
        OVER,
        {A.OVERPAID},
    ),
    (
        "the whole tolerance",
        terms(),
        (Step(at=11, transfers=(final(24.875),)),),
        CONFIRMED,
        SHORT,
        set(),
    ),
    (
        "one unit less than tolerated",
        terms(),
        (Step(at=11, transfers=(final(24.874999),)),),
        PARTIAL,
        SHORT,
        set(),
    ),
    (
        "tolerance has a most: 2 of 1000",
        terms(1000),
        (Step(at=11, transfers=(final(998),)),),
        CONFIRMED,
        SHORT,
        set(),
    ),
    (
        "one unit below that",
        terms(1000),
        (Step(at=11, transfers=(final(997.999999),)),),
        PARTIAL,
        SHORT,
        set(),
    ),
    (
        "a shared address tolerates nothing",
        SHARED,
        (Step(at=11, transfers=(final(24.999999),)),),
        PARTIAL,
        SHORT,
        set(),
    ),
    (
        "excess within the limit",
        EXCESS,
        (Step(at=11, transfers=(final(30),)),),
        CONFIRMED,
        OVER,
        set(),
    ),
    (
        "excess above the limit",
        EXCESS,
        (Step(at=11, transfers=(final(30.000001),)),),
        CONFIRMED,
        OVER,
        {A.OVERPAID},
    ),
    (
        "paid twice in time: one order, all of it counted",
        terms(),
        (Step(at=11, transfers=(final(25), final(25, name="t2"))),),
        CONFIRMED,
        OVER,
        {A.OVERPAID},
    ),
    # In time, and late.
    (
        "first seen at the deadline",
        terms(),
        (Step(at=61, transfers=(money(25, 60),)),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "first seen a moment later",
        terms(),
        (Step(at=61, transfers=(money(25, 60.01),)),),
        EXPIRED,
        NONE,
        {A.LATE},
    ),
    (
        "mined late but seen in time",
        terms(),
        (
            Step(at=59, transfers=(seen(25, 59),)),
            Step(at=70, transfers=(seen(25, 59),)),
            Step(at=90, transfers=(money(25, 75, first_time=minute(59)),)),
        ),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "in the extension, stable",
        terms(),
        (Step(at=75, transfers=(final(25, 70),), claims=(claim(50),)),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "a claim at the deadline earns it",
        terms(),
        (Step(at=79, claims=(claim(60),)),),
        CLAIMED,
        NONE,
        set(),
    ),
    (
        "it ends with the extension",
        terms(),
        (Step(at=80.1, claims=(claim(60),)),),
        EXPIRED,
        NONE,
        {A.CLAIMED_UNSEEN},
    ),
    (
        "a claim after the deadline earns nothing",
        terms(),
        (Step(at=61, claims=(claim(60.5),)),),
        EXPIRED,
        NONE,
        set(),
    ),
    (
        "in the extension, volatile",
        VOLATILE,
        (Step(at=75, transfers=(final(25, 70),), claims=(claim(50),)),),
        CLAIMED,
        NONE,
        {A.LATE},
    ),
    (
        "in the extension, volatile, of a known claimed transaction",
        VOLATILE,
        (Step(at=75, transfers=(final(25, 70),), claims=(claim(50, known=True, tx="t1"),)),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "in the extension, volatile, of another transaction than the known one",
        VOLATILE,
        (Step(at=75, transfers=(final(25, 70),), claims=(claim(50, known=True, tx="t9"),)),),
        CLAIMED,
        NONE,
        {A.LATE},
    ),
    (
        "in the extension, volatile, claimed after the deadline",
        VOLATILE,
        (
            Step(
                at=75,
                transfers=(final(25, 70),),
                claims=(claim(50), claim(65, known=True, tx="t1")),
            ),
        ),
        CLAIMED,
        NONE,
        {A.LATE},
    ),
    # Dust: 0.01.
    ("dust alone", terms(), (Step(at=11, transfers=(final(0.009999),)),), AWAITING, NONE, set()),
    ("what is no dust", terms(), (Step(at=11, transfers=(final(0.01),)),), PARTIAL, SHORT, set()),
    (
        "dust that completes the sum",
        terms(),
        (Step(at=11, transfers=(final(24.87), final(0.005, name="t2"))),),
        CONFIRMED,
        SHORT,
        set(),
    ),
    (
        "dust that does not",
        terms(),
        (Step(at=11, transfers=(final(24.86), final(0.005, name="t2"))),),
        PARTIAL,
        SHORT,
        set(),
    ),
    (
        "dust that is not needed",
        terms(),
        (Step(at=11, transfers=(final(25), final(0.005, name="t2"))),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "dust is never late",
        terms(),
        (Step(at=61), Step(at=71, transfers=(final(0.005, 70), final(0.005, 10, name="t2")))),
        EXPIRED,
        NONE,
        set(),
    ),
    (
        "nothing but dust, and enough of it",
        terms(0.015),
        (Step(at=11, transfers=(final(0.009), final(0.006, name="t2"))),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "dust that an end left uncounted, judged again",
        terms(),
        (
            Step(at=11, transfers=(final(20), final(0.005, name="t2"))),
            Step(at=75, transfers=(final(20), final(0.005, name="t2"))),
            Step(at=76, transfers=(final(20), final(0.005, name="t2"))),
        ),
        UNDERPAID,
        SHORT,
        set(),
    ),
    (
        "dust that comes late",
        terms(),
        (Step(at=75), Step(at=76, transfers=(final(0.005, 75),))),
        EXPIRED,
        NONE,
        set(),
    ),
    (
        "dust that a person gave",
        terms(),
        (Step(at=11, transfers=(final(0.005, decided=True),)),),
        PARTIAL,
        SHORT,
        set(),
    ),
    # Not believed.
    (
        "a hundred times due",
        terms(),
        (Step(at=11, transfers=(final(2500),)),),
        CONFIRMED,
        OVER,
        {A.OVERPAID},
    ),
    (
        "one unit above that",
        terms(),
        (Step(at=11, transfers=(final(2500.000001),)),),
        AWAITING,
        NONE,
        {A.IMPLAUSIBLE_AMOUNT},
    ),
    (
        "one unit above that, and a person believes it",
        terms(),
        (Step(at=11, transfers=(final(2500.000001, decided=True),)),),
        CONFIRMED,
        OVER,
        {A.OVERPAID},
    ),
    (
        "more than the asset can hold, for a dear order",
        terms(10**8),
        (Step(at=11, transfers=(final(10**9 + 1),)),),
        AWAITING,
        NONE,
        {A.IMPLAUSIBLE_AMOUNT},
    ),
    (
        "more than the asset can hold: nobody can believe it",
        terms(),
        (Step(at=11, transfers=(final(10**9 + 1, decided=True),)),),
        AWAITING,
        NONE,
        {A.IMPLAUSIBLE_AMOUNT},
    ),
    # Other money.
    (
        "another asset",
        terms(),
        (Step(at=11, transfers=(final(25, asset=USDC),)),),
        AWAITING,
        NONE,
        {A.WRONG_ASSET},
    ),
    (
        "another network",
        terms(),
        (Step(at=11, transfers=(money(25, chain=POLYGON),)),),
        AWAITING,
        NONE,
        {A.WRONG_NETWORK},
    ),
    (
        "another asset beside the right one",
        terms(),
        (Step(at=11, transfers=(final(25), final(9, asset=ETH, name="t2"))),),
        CONFIRMED,
        EXACT,
        {A.WRONG_ASSET},
    ),
    (
        "sent back by a person",
        terms(),
        (Step(at=11, transfers=(final(25, disposed=True),)),),
        AWAITING,
        NONE,
        set(),
    ),
    (
        "unknown to every node",
        terms(),
        (Step(at=11, transfers=(money(25, state=TransferState.UNKNOWN),)),),
        AWAITING,
        NONE,
        set(),
    ),
    # Pending money at the end.
    (
        "pending holds the end",
        terms(),
        (Step(at=180, transfers=(seen(25, 59),)),),
        DETECTED,
        NONE,
        set(),
    ),
    (
        "for two hours",
        terms(),
        (Step(at=180.1, transfers=(seen(25, 59),)),),
        EXPIRED,
        NONE,
        {A.PENDING_AT_END},
    ),
    (
        "with a part that is final",
        terms(),
        (Step(at=181, transfers=(final(10), seen(15, 59, name="t2"))),),
        UNDERPAID,
        SHORT,
        {A.PENDING_AT_END},
    ),
    (
        "shown by a node half an hour ago",
        terms(),
        (Step(at=40, transfers=(seen(25, 10, heard_at=10),)),),
        DETECTED,
        NONE,
        set(),
    ),
    (
        "shown by no node for longer",
        terms(),
        (Step(at=40.1, transfers=(seen(25, 10, heard_at=10),)),),
        AWAITING,
        NONE,
        set(),
    ),
    (
        "and forgotten only at a watermark",
        terms(),
        (Step(at=40.1, transfers=(seen(25, 10, heard_at=10),), verdicts=False),),
        DETECTED,
        NONE,
        set(),
    ),
    (
        "what no node shows holds no end",
        terms(),
        (Step(at=89.1, transfers=(seen(25, 20, heard_at=59),)),),
        EXPIRED,
        NONE,
        set(),
    ),
    (
        "what a block once had keeps that block's patience",
        terms(),
        (Step(at=50, transfers=(seen(25, 10, heard_at=15, retracted_at=45),)),),
        DETECTED,
        NONE,
        {A.RETRACTED},
    ),
    (
        "what is mined after that is late",
        terms(),
        (
            Step(at=181, transfers=(seen(25, 59),)),
            Step(at=190, transfers=(final(25, 189, first_time=minute(59)),)),
        ),
        EXPIRED,
        NONE,
        {A.LATE},
    ),
    (
        "what is dropped after that is nothing",
        terms(),
        (
            Step(at=181, transfers=(seen(25, 59),)),
            Step(at=190, transfers=(money(25, 59, TransferState.DROPPED),), verdicts=False),
        ),
        EXPIRED,
        NONE,
        set(),
    ),
    # Retractions.
    (
        "a retraction decides nothing",
        terms(),
        (*CONFIRMS, Step(at=20, transfers=lost(), verdicts=False)),
        CONFIRMED,
        NONE,
        {A.RETRACTED},
    ),
    (
        "nor does a watermark within the patience",
        terms(),
        (*CONFIRMS, Step(at=30, transfers=lost())),
        CONFIRMED,
        NONE,
        {A.RETRACTED},
    ),
    (
        "after it the order is reversed",
        terms(),
        (*CONFIRMS, Step(at=30.1, transfers=lost())),
        REVERSED,
        NONE,
        set(),
    ),
    (
        "waiting in the mempool again does not renew the patience",
        terms(),
        (*CONFIRMS, Step(at=30.1, transfers=(seen(25, retracted_at=20),))),
        REVERSED,
        NONE,
        set(),
    ),
    (
        "dropped: reversed at the next watermark",
        terms(),
        (
            *CONFIRMS,
            Step(at=21, transfers=(money(25, state=TransferState.DROPPED),), verdicts=False),
            Step(at=21.2, transfers=(money(25, state=TransferState.DROPPED),)),
        ),
        REVERSED,
        NONE,
        set(),
    ),
    (
        "taken away by other money in its place",
        terms(),
        (*CONFIRMS, Step(at=21, verdicts=False), Step(at=21.2)),
        REVERSED,
        NONE,
        set(),
    ),
    (
        "included again",
        terms(),
        (
            *CONFIRMS,
            Step(at=20, transfers=lost(), verdicts=False),
            Step(at=22, transfers=(money(25, 21.9, was_final=True),)),
        ),
        CONFIRMED,
        NONE,
        {A.RETRACTED},
    ),
    (
        "and final again",
        terms(),
        (
            *CONFIRMS,
            Step(at=20, transfers=lost(), verdicts=False),
            Step(at=23, transfers=(money(25, 22),)),
        ),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "one of two is lost and the other is enough",
        terms(),
        (
            Step(at=11, transfers=(final(25), final(25, name="t2"))),
            Step(at=31, transfers=(retracted(25), final(25, name="t2"))),
        ),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "one is lost, and the other that carries it now is retracted: patience again",
        terms(),
        (
            Step(at=11, transfers=(final(25),)),
            Step(at=12, transfers=(final(25), final(25, name="t2"))),
            Step(at=31, transfers=(retracted(25), final(25, name="t2"))),
            Step(at=35, transfers=(retracted(25), retracted(25, since=32, name="t2"))),
        ),
        CONFIRMED,
        NONE,
        {A.RETRACTED},
    ),
    (
        "reversed, then restored",
        terms(),
        (
            *CONFIRMS,
            Step(at=31, transfers=lost()),
            Step(at=33, transfers=(money(25, 32, first_time=minute(10)),)),
        ),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "reversed is open for as long as a claim would earn",
        terms(),
        (*CONFIRMS, Step(at=71, transfers=lost(60)), Step(at=91, transfers=lost(60))),
        REVERSED,
        NONE,
        set(),
    ),
    (
        "and then ends as any other",
        terms(),
        (*CONFIRMS, Step(at=71, transfers=lost(60)), Step(at=91.1, transfers=lost(60))),
        EXPIRED,
        NONE,
        set(),
    ),
    (
        "reversed with a hold waits",
        terms(),
        (*CONFIRMS, Step(at=31, transfers=lost(), holds=("eip155:1",))),
        CONFIRMED,
        NONE,
        {A.RETRACTED, A.HELD},
    ),
    (
        "retracted money is pending: no expiry",
        terms(),
        (
            Step(at=58, transfers=(money(25, 57.8),)),
            Step(at=61, transfers=(retracted(25, 57.8, 58),)),
        ),
        DETECTED,
        NONE,
        {A.RETRACTED},
    ),
    (
        "for ten minutes of coverage",
        terms(),
        (
            Step(at=58, transfers=(money(25, 57.8),)),
            Step(at=68.1, transfers=(retracted(25, 57.8, 58),)),
        ),
        EXPIRED,
        NONE,
        set(),
    ),
    (
        "an underpaid order whose money is retracted stays so for the patience",
        terms(),
        (
            Step(at=61, transfers=(final(10),)),
            Step(at=62, transfers=(retracted(10, since=62),), verdicts=False),
            Step(at=70, transfers=(retracted(10, since=62),)),
        ),
        UNDERPAID,
        NONE,
        {A.RETRACTED},
    ),
    (
        "is expired after it",
        terms(),
        (Step(at=61, transfers=(final(10),)), Step(at=73, transfers=(retracted(10, since=62),))),
        EXPIRED,
        NONE,
        set(),
    ),
    (
        "and underpaid again when it comes back",
        terms(),
        (
            Step(at=61, transfers=(final(10),)),
            Step(at=73, transfers=(retracted(10, since=62),)),
            Step(at=75, transfers=(money(10, 74, first_time=minute(10)),)),
        ),
        UNDERPAID,
        SHORT,
        set(),
    ),
    # Flags.
    ("the address alone does not flag", UNKNOWING, CONFIRMS, DETECTED, EXACT, {A.PAID_UNFLAGGED}),
    (
        "it holds the end",
        UNKNOWING,
        (*CONFIRMS, Step(at=600, transfers=PAID)),
        DETECTED,
        EXACT,
        {A.PAID_UNFLAGGED},
    ),
    (
        "a claim flags",
        UNKNOWING,
        (*CONFIRMS, Step(at=600, transfers=PAID, claims=(claim(500),))),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "a person flags",
        UNKNOWING,
        (Step(at=11, transfers=(final(25, rule=MatchRule.DECISION, decided=True),)),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "the reserved amount flags",
        terms(mode="shared", rules=policy(flag_by_address=False)),
        (Step(at=11, transfers=(final(25, rule=MatchRule.RESERVED_AMOUNT),)),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "unless the route says otherwise",
        terms(mode="shared", rules=policy(flag_by_reserved_amount=False)),
        (Step(at=11, transfers=(final(25, rule=MatchRule.RESERVED_AMOUNT),)),),
        DETECTED,
        EXACT,
        {A.PAID_UNFLAGGED},
    ),
    # Claims.
    ("unseen for the patience", terms(), (Step(at=30, claims=(claim(10),)),), CLAIMED, NONE, set()),
    (
        "and past it",
        terms(),
        (Step(at=30.1, claims=(claim(10),)),),
        CLAIMED,
        NONE,
        {A.CLAIMED_UNSEEN},
    ),
    (
        "seen after all",
        terms(),
        (
            Step(at=31, claims=(claim(10),)),
            Step(at=32, claims=(claim(10),), transfers=(seen(25, 32),)),
        ),
        DETECTED,
        NONE,
        set(),
    ),
    # Waits.
    ("held at the end", terms(), (Step(at=61, holds=("own",)),), AWAITING, NONE, {A.HELD}),
    (
        "held when paid",
        terms(),
        (Step(at=11, transfers=PAID, holds=("own",)),),
        DETECTED,
        EXACT,
        {A.HELD},
    ),
    (
        "a hold while nothing is to be decided",
        terms(),
        (Step(at=11, holds=("own",)),),
        AWAITING,
        NONE,
        set(),
    ),
    ("released", terms(), (Step(at=61, holds=("own",)), Step(at=62)), EXPIRED, NONE, set()),
    (
        "not covered at the end",
        terms(),
        (Step(at=61, covered=False),),
        AWAITING,
        NONE,
        {A.NOT_COVERED},
    ),
    (
        "not covered, and paid: money is money",
        terms(),
        (Step(at=11, transfers=PAID, covered=False),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "a fact that cannot be read holds the end",
        terms(),
        (Step(at=61, noted=frozenset({A.UNREADABLE_FACT})),),
        AWAITING,
        NONE,
        {A.UNREADABLE_FACT, A.HELD},
    ),
    (
        "so does a balance that differs",
        terms(),
        (Step(at=61, noted=frozenset({A.BALANCE_DIFFERS})),),
        AWAITING,
        NONE,
        {A.BALANCE_DIFFERS, A.HELD},
    ),
    (
        "ambiguity is shown",
        terms(),
        (Step(at=11, noted=frozenset({A.AMBIGUOUS})),),
        AWAITING,
        NONE,
        {A.AMBIGUOUS},
    ),
    # Late money after each outcome.
    (
        "late after expired",
        terms(),
        (Step(at=61), Step(at=71, transfers=(final(25, 70),))),
        EXPIRED,
        NONE,
        {A.LATE},
    ),
    (
        "late after underpaid",
        terms(),
        (
            Step(at=61, transfers=(final(10),)),
            Step(at=71, transfers=(final(10), final(15, 70, name="t2"))),
        ),
        UNDERPAID,
        SHORT,
        {A.LATE},
    ),
    (
        "late after cancelled",
        terms(),
        (
            Step(at=5, decisions=given(cancelled=True)),
            Step(at=11, transfers=PAID, decisions=given(cancelled=True)),
        ),
        CANCELLED,
        NONE,
        {A.LATE},
    ),
    (
        "late after confirmed",
        terms(),
        (*CONFIRMS, Step(at=71, transfers=(final(25), final(25, 70, name="t2")))),
        CONFIRMED,
        EXACT,
        {A.LATE, A.PAID_TWICE},
    ),
    (
        "late money that is retracted for good is no money",
        terms(),
        (
            Step(at=61),
            Step(at=71, transfers=(final(25, 70),)),
            Step(at=82, transfers=(retracted(25, 70, 71),)),
        ),
        EXPIRED,
        NONE,
        set(),
    ),
    # Revived.
    (
        "by a person, stable",
        terms(),
        (Step(at=61), Step(at=71, transfers=(final(25, 70),), decisions=given(revived=True))),
        CONFIRMED,
        EXACT,
        {A.REVIVED},
    ),
    (
        "by a person, volatile and late",
        VOLATILE,
        (Step(at=61), Step(at=71, transfers=(final(25, 70),), decisions=given(revived=True))),
        EXPIRED,
        NONE,
        {A.LATE},
    ),
    (
        "by a person, volatile and in time by first sight",
        VOLATILE,
        (
            Step(at=181, transfers=(seen(25, 59),)),
            Step(
                at=190,
                transfers=(final(25, 185, first_time=minute(59)),),
                decisions=given(revived=True),
            ),
        ),
        CONFIRMED,
        EXACT,
        {A.REVIVED},
    ),
    (
        "by a person, cancelled before",
        terms(),
        (
            Step(at=5, decisions=given(cancelled=True)),
            Step(at=11, transfers=PAID, decisions=given(cancelled=True, revived=True)),
        ),
        CANCELLED,
        NONE,
        {A.LATE},
    ),
    (
        "by the rule",
        REVIVES,
        (Step(at=61), Step(at=71, transfers=(final(25, 70),))),
        CONFIRMED,
        EXACT,
        {A.REVIVED},
    ),
    (
        "by the rule, while it is not final",
        REVIVES,
        (Step(at=61), Step(at=70, transfers=(money(25, 70),), verdicts=False)),
        DETECTED,
        NONE,
        {A.REVIVED},
    ),
    (
        "by the rule, pending money holds the end from when it came",
        REVIVES,
        (
            Step(at=61),
            Step(at=600, transfers=(seen(25, 600),), verdicts=False),
            Step(at=700, transfers=(seen(25, 600),)),
        ),
        DETECTED,
        NONE,
        {A.REVIVED},
    ),
    (
        "for as long as other pending money does",
        REVIVES,
        (
            Step(at=61),
            Step(at=600, transfers=(seen(25, 600),), verdicts=False),
            Step(at=720.1, transfers=(seen(25, 600),)),
        ),
        EXPIRED,
        NONE,
        {A.PENDING_AT_END},
    ),
    (
        "by the rule, at its last moment",
        REVIVES,
        (Step(at=61), Step(at=1502, transfers=(final(25, 1501),))),
        CONFIRMED,
        EXACT,
        {A.REVIVED},
    ),
    (
        "by the rule, a moment later",
        REVIVES,
        (Step(at=61), Step(at=1502, transfers=(final(25, 1501.01),))),
        EXPIRED,
        NONE,
        {A.LATE},
    ),
    (
        "by the rule, and too little again",
        REVIVES,
        (
            Step(at=61),
            Step(at=71, transfers=(money(10, 70),), verdicts=False),
            Step(at=72, transfers=(money(10, 70),)),
        ),
        UNDERPAID,
        SHORT,
        set(),
    ),
    (
        "the rule's time is not begun anew by that",
        REVIVES,
        (
            Step(at=61),
            Step(at=1400, transfers=(money(10, 1400),), verdicts=False),
            Step(at=1401, transfers=(money(10, 1400),)),
            Step(at=1602, transfers=(final(10, 1400), final(15, 1600, name="t2"))),
        ),
        UNDERPAID,
        SHORT,
        {A.LATE},
    ),
    (
        "the rule, volatile",
        terms(rules=policy(stable=False, late_revive_within_s=86_400)),
        (Step(at=61), Step(at=71, transfers=(final(25, 70),))),
        EXPIRED,
        NONE,
        {A.LATE},
    ),
    # A person's word.
    (
        "late money given",
        terms(),
        (
            Step(at=61),
            Step(at=71, transfers=(final(25, 70, decided=True, rule=MatchRule.DECISION),)),
        ),
        CONFIRMED,
        EXACT,
        {A.REVIVED},
    ),
    (
        "late money given, and too little",
        terms(),
        (Step(at=61), Step(at=71, transfers=(final(5, 70, decided=True),))),
        UNDERPAID,
        SHORT,
        set(),
    ),
    (
        "a part of a transfer",
        terms(),
        (Step(at=11, transfers=(final(100, share=25, decided=True),)),),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "accepted short while open",
        terms(),
        (Step(at=11, transfers=(final(10),), decisions=given(accepted=usdt(10))),),
        CONFIRMED,
        SHORT,
        {A.ACCEPTED_SHORT},
    ),
    (
        "accepted short after the end",
        terms(),
        (
            Step(at=61, transfers=(final(10),)),
            Step(at=71, transfers=(final(10),), decisions=given(accepted=usdt(10))),
        ),
        CONFIRMED,
        SHORT,
        {A.ACCEPTED_SHORT, A.REVIVED},
    ),
    (
        "accepted, and a part of that is lost",
        terms(),
        (
            Step(
                at=11, transfers=(final(6), final(4, name="t2")), decisions=given(accepted=usdt(10))
            ),
            Step(
                at=31,
                transfers=(retracted(6), final(4, name="t2")),
                decisions=given(accepted=usdt(10)),
            ),
        ),
        REVERSED,
        SHORT,
        set(),
    ),
    (
        "accepted, and taken back",
        terms(),
        (
            Step(at=11, transfers=(final(10),), decisions=given(accepted=usdt(10))),
            Step(at=12, transfers=(final(10),)),
        ),
        REVERSED,
        SHORT,
        set(),
    ),
    # Cancelled.
    (
        "cancelled",
        terms(),
        (Step(at=5, decisions=given(cancelled=True), verdicts=False),),
        CANCELLED,
        NONE,
        set(),
    ),
    (
        "cancelled by force with money: it is late at once",
        terms(),
        (
            Step(at=11, transfers=(final(10), seen(5, name="t2"))),
            Step(
                at=12,
                transfers=(final(10), seen(5, name="t2")),
                decisions=given(cancelled=True),
                verdicts=False,
            ),
        ),
        CANCELLED,
        NONE,
        {A.LATE},
    ),
    (
        "a confirmed order cannot be",
        terms(),
        (*CONFIRMS, Step(at=12, transfers=PAID, decisions=given(cancelled=True))),
        CONFIRMED,
        EXACT,
        set(),
    ),
    (
        "an ended order cannot be",
        terms(),
        (Step(at=61), Step(at=62, decisions=given(cancelled=True))),
        EXPIRED,
        NONE,
        set(),
    ),
    (
        "by a sibling",
        terms(),
        (Step(at=5, decisions=given(sibling_confirmed=True)),),
        CANCELLED,
        NONE,
        {A.SIBLING_CONFIRMED},
    ),
    (
        "by a sibling, with money",
        terms(),
        (
            Step(at=11, transfers=(final(10),)),
            Step(at=12, transfers=(final(10),), decisions=given(sibling_confirmed=True)),
        ),
        CANCELLED,
        NONE,
        {A.SIBLING_CONFIRMED, A.LATE, A.PAID_TWICE},
    ),
    (
        "what a person had given before does not bring it back",
        terms(),
        (
            Step(at=11, transfers=(seen(25, decided=True),)),
            Step(at=12, transfers=(seen(25, decided=True),), decisions=given(cancelled=True)),
            Step(
                at=13,
                transfers=(money(25, 12.9, decided=True),),
                decisions=given(cancelled=True),
                verdicts=False,
            ),
            Step(
                at=15, transfers=(final(25, 12.9, decided=True),), decisions=given(cancelled=True)
            ),
        ),
        CANCELLED,
        NONE,
        {A.LATE},
    ),
    (
        "what a person gives after does, pending first",
        terms(),
        (
            Step(at=5, decisions=given(cancelled=True)),
            Step(at=12, transfers=(seen(25, 12, decided=True),), decisions=given(cancelled=True)),
            Step(at=13, transfers=(seen(25, 12, decided=True),), decisions=given(cancelled=True)),
            Step(at=15, transfers=(final(25, 12, decided=True),), decisions=given(cancelled=True)),
        ),
        CONFIRMED,
        EXACT,
        {A.REVIVED},
    ),
    (
        "and when that is taken back it is cancelled",
        terms(),
        (
            Step(at=5, decisions=given(cancelled=True)),
            Step(at=12, transfers=(seen(25, 12, decided=True),), decisions=given(cancelled=True)),
            Step(at=13, decisions=given(cancelled=True)),
        ),
        CANCELLED,
        NONE,
        set(),
    ),
]


@pytest.mark.parametrize(
    ("agreed", "steps", "phase", "amount", "attention"),
    [row[1:] for row in ROWS],
    ids=[row[0].replace(" ", "-") for row in ROWS],
)
def test_story_of_judgements(
    agreed: Terms,
    steps: tuple[Step, ...],
    phase: Phase,
    amount: AmountState,
    attention: set[Attention],
) -> None:
    told = tell(*steps, agreed=agreed)
    assert (told.status.phase, told.status.amount_state, set(told.status.attention)) == (
        phase,
        amount,
        attention,
    )
    check_sums(told)


def check_sums(told: Told) -> None:
    """The numbers of a status say the same as the transfers that it names."""
    status, by_name = told.status, {t.transfer: t for t in told.last.transfers}
    counted = [by_name[name] for name in status.counted]
    assert status.received_final == sum(t.share for t in counted if t.is_final)
    assert status.received_pending == sum(t.share for t in counted if not t.is_final)
    assert not set(status.counted) & set(status.late)
    assert all(t.share <= t.amount for t in counted)


def test_every_attention_code_is_reached() -> None:
    reached = set().union(*(row[5] for row in ROWS))
    assert reached == set(Attention)


def test_every_phase_is_reached() -> None:
    assert {row[3] for row in ROWS} == set(Phase)


def test_every_amount_state_is_reached() -> None:
    assert {row[4] for row in ROWS} == set(AmountState)


def test_short_reorganisation_is_told_as_adjusted_and_nothing_else() -> None:
    told = tell(
        *CONFIRMS,
        Step(at=20, transfers=lost(), verdicts=False),
        Step(at=22, transfers=(money(25, 21.9, was_final=True),), verdicts=False),
        Step(at=23, transfers=(money(25, 21.9, was_final=True),)),
    )
    assert told.kinds == ["awaiting", "detected", "confirmed", "adjusted", "adjusted"]


def test_underpaid_order_survives_that_its_money_is_mined_again() -> None:
    told = tell(
        Step(at=61, transfers=(final(10),)),
        Step(at=62, transfers=(retracted(10, since=62),), verdicts=False),
        Step(at=63, transfers=(money(10, 62.8, first_time=minute(10)),), verdicts=False),
        Step(at=65, transfers=(money(10, 62.8, first_time=minute(10)),)),
    )
    kinds = ["awaiting", "partially_paid", "underpaid", "adjusted", "adjusted", "adjusted"]
    assert told.kinds == kinds


TIERS = (
    FinalityTier(up_to=BaseUnits(usdt(50)), depth=3),
    FinalityTier(up_to=BaseUnits(usdt(500)), depth=12),
    FinalityTier(up_to=None, depth=None),
)
TIERED = policy(tiers=TIERS)
#: due, transfers at minute 10 (block 150), depth and finalized height of coverage, final or not.
TIER_ROWS = [
    ("small, one block short", 25, (money(25),), 2, 0, False),
    ("small", 25, (money(25),), 3, 0, True),
    ("at the tier's edge", 50, (money(50),), 3, 0, True),
    ("one unit above it", 50.000001, (money(50.000001),), 3, 0, False),
    ("middle, one block short", 100, (money(100),), 11, 0, False),
    ("middle", 100, (money(100),), 12, 0, True),
    ("large waits for the chain's own word", 1000, (money(1000),), 400, 149, False),
    ("large and finalized", 1000, (money(1000),), 1, 150, True),
    ("a small part of a dear order", 100, (money(10),), 3, 0, False),
    (
        "the sum counts: split in five",
        60,
        tuple(money(12, name=f"t{n}") for n in range(5)),
        3,
        0,
        False,
    ),
    ("received counts, not only due", 25, (money(25), money(26, name="t2")), 3, 0, False),
    ("all that the transaction pays us", 25, (money(25, tx_total=75),), 3, 0, False),
    ("all that the transaction pays us, deep", 25, (money(25, tx_total=75),), 12, 0, True),
    ("another asset: the strictest", 25, (money(25, asset=USDC),), 400, 149, False),
    ("another asset, finalized", 25, (money(25, asset=USDC),), 1, 150, True),
    ("another network: never here", 25, (money(25, chain=POLYGON),), 400, 500, False),
    ("coinbase at 100", 25, (money(25, coinbase=True),), 100, 0, False),
    ("coinbase at 101", 25, (money(25, coinbase=True),), 101, 0, True),
    ("coinbase, large, not finalized", 1000, (money(1000, coinbase=True),), 101, 149, False),
    (
        "coinbase, large, finalized and not mature",
        1000,
        (money(1000, coinbase=True),),
        100,
        150,
        False,
    ),
    ("coinbase, large, both", 1000, (money(1000, coinbase=True),), 101, 150, True),
    ("not on the line of watermarks", 25, (money(25, on_the_line=False),), 400, 500, False),
    ("held by screening", 25, (money(25, held=True),), 400, 500, False),
    ("above coverage", 25, (money(25),), 0, 500, False),
]


@pytest.mark.parametrize(
    ("due", "transfers", "depth", "finalized", "is_final"),
    [row[1:] for row in TIER_ROWS],
    ids=[row[0].replace(" ", "-") for row in TIER_ROWS],
)
def test_finality_by_tier(due, transfers, depth, finalized, is_final) -> None:
    at = 10 + (depth - 1) / 5
    told = tell(
        Step(at=at, transfers=transfers, finalized=finalized), agreed=terms(due, rules=TIERED)
    )
    names = {t.transfer for t in transfers}
    assert set(told.last.granted) == (names if is_final else set())


def test_finality_once_granted_is_not_taken_back_by_a_higher_tier() -> None:
    agreed = terms(rules=TIERED)
    told = tell(
        Step(at=10.4, transfers=(money(10),)),
        Step(at=11, transfers=(final(10), money(1000, 11, name="t2"))),
        agreed=agreed,
    )
    assert told.status.received_final == usdt(10)
    assert told.status.received_pending == usdt(1000)


@pytest.mark.parametrize(
    ("due", "ppm", "most", "least"),
    [
        (1, 50_000, None, 1),
        (19, 50_000, None, 19),
        (20, 50_000, None, 19),
        (1_000_000, 5_000, None, 995_000),
        (999_999, 5_000, None, 995_000),
        (1_000_000, 5_000, 4_999, 995_001),
        (1_000_000, 0, 4_999, 1_000_000),
        (2**200, 50_000, None, 2**200 - 2**200 * 50_000 // 1_000_000),
    ],
)
def test_tolerated_share_is_rounded_down(due: int, ppm: int, most: int | None, least: int) -> None:
    limit = None if most is None else BaseUnits(most)
    rules = policy(tolerance=Tolerance(under_ppm=ppm, under_max=limit))
    agreed = msgspec.structs.replace(terms(rules=rules), due=BaseUnits(due))
    assert agreed.least_enough == least
    assert due - agreed.least_enough <= due * ppm / 1_000_000 + 1e-9 * due


def test_a_thousand_grains_of_dust_are_added_up_once():
    """Anybody can send them for little: each held against each took seconds at every judgement."""
    grains = tuple(final(0.000001, name=f"t{number}") for number in range(4_000))
    began = time.process_time()
    tell(Step(at=11, transfers=grains))
    assert time.process_time() - began < 1.0
