"""Every pair of phases, with and without a person's word: the event that tells of it, or none can be."""

from __future__ import annotations

import itertools

import pytest

from reconciler.lifecycle.transitions import (
    TABLE,
    ImpossibleTransition,
    event_of_change,
    events_between,
)
from reconciler.model.status import Status
from schemas.codes import Attention, Phase
from schemas.events import EventKind
from schemas.values import TransferName

STAYS, NEVER = "stays", "never"

#: from, to, what a fact alone makes of it, what a person's word makes of it.
ROWS = """
awaiting_payment  awaiting_payment  stays           stays
awaiting_payment  claimed           claimed         claimed
awaiting_payment  detected          detected        detected
awaiting_payment  partially_paid    partially_paid  partially_paid
awaiting_payment  confirmed         never           confirmed
awaiting_payment  reversed          never           never
awaiting_payment  underpaid         never           underpaid
awaiting_payment  expired           expired         expired
awaiting_payment  cancelled         cancelled       cancelled
claimed           awaiting_payment  never           never
claimed           claimed           stays           stays
claimed           detected          detected        detected
claimed           partially_paid    partially_paid  partially_paid
claimed           confirmed         never           confirmed
claimed           reversed          never           never
claimed           underpaid         never           underpaid
claimed           expired           expired         expired
claimed           cancelled         cancelled       cancelled
detected          awaiting_payment  withdrawn       withdrawn
detected          claimed           withdrawn       withdrawn
detected          detected          stays           stays
detected          partially_paid    partially_paid  partially_paid
detected          confirmed         confirmed       confirmed
detected          reversed          withdrawn       withdrawn
detected          underpaid         underpaid       underpaid
detected          expired           expired         expired
detected          cancelled         cancelled       cancelled
partially_paid    awaiting_payment  withdrawn       withdrawn
partially_paid    claimed           withdrawn       withdrawn
partially_paid    detected          detected        detected
partially_paid    partially_paid    stays           stays
partially_paid    confirmed         confirmed       confirmed
partially_paid    reversed          withdrawn       withdrawn
partially_paid    underpaid         underpaid       underpaid
partially_paid    expired           expired         expired
partially_paid    cancelled         cancelled       cancelled
confirmed         awaiting_payment  never           never
confirmed         claimed           never           never
confirmed         detected          never           never
confirmed         partially_paid    never           never
confirmed         confirmed         stays           stays
confirmed         reversed          reversed        reversed
confirmed         underpaid         never           never
confirmed         expired           never           never
confirmed         cancelled         never           never
reversed          awaiting_payment  never           never
reversed          claimed           never           never
reversed          detected          detected        detected
reversed          partially_paid    partially_paid  partially_paid
reversed          confirmed         confirmed       confirmed
reversed          reversed          stays           stays
reversed          underpaid         underpaid       underpaid
reversed          expired           expired         expired
reversed          cancelled         cancelled       cancelled
underpaid         awaiting_payment  never           never
underpaid         claimed           never           never
underpaid         detected          never           detected
underpaid         partially_paid    never           partially_paid
underpaid         confirmed         never           confirmed
underpaid         reversed          never           never
underpaid         underpaid         stays           stays
underpaid         expired           expired         expired
underpaid         cancelled         never           never
expired           awaiting_payment  never           never
expired           claimed           never           never
expired           detected          never           detected
expired           partially_paid    never           partially_paid
expired           confirmed         never           confirmed
expired           reversed          never           never
expired           underpaid         underpaid       underpaid
expired           expired           stays           stays
expired           cancelled         never           never
cancelled         awaiting_payment  never           never
cancelled         claimed           never           never
cancelled         detected          never           detected
cancelled         partially_paid    never           partially_paid
cancelled         confirmed         never           confirmed
cancelled         reversed          never           never
cancelled         underpaid         never           underpaid
cancelled         expired           never           never
cancelled         cancelled         stays           stays
"""
TABLE_ROWS = [
    (Phase(before), Phase(after), by_fact, by_decision)
    for before, after, by_fact, by_decision in (line.split() for line in ROWS.strip().splitlines())
]


def test_every_pair_of_phases_has_a_row() -> None:
    pairs = [(before, after) for before, after, _, _ in TABLE_ROWS]
    assert sorted(pairs) == sorted(itertools.product(Phase, Phase))
    assert len(pairs) == 81
    assert sorted(TABLE) == sorted(pairs)


@pytest.mark.parametrize(("before", "after", "by_fact", "by_decision"), TABLE_ROWS)
def test_pair_of_phases(before: Phase, after: Phase, by_fact: str, by_decision: str) -> None:
    for decided, expected in ((False, by_fact), (True, by_decision)):
        if expected == NEVER:
            with pytest.raises(ImpossibleTransition, match=f"{before.value} to {after.value}"):
                event_of_change(before, after, by_decision=decided)
            continue
        kind = event_of_change(before, after, by_decision=decided)
        assert kind == (None if expected == STAYS else EventKind(expected))


T1, T2 = TransferName("eip155:1/0x1/log:0"), TransferName("eip155:1/0x2/log:0")
BETWEEN = [
    ("a first status", None, Status(phase=Phase.AWAITING_PAYMENT), ["awaiting"]),
    (
        "a first status that is more already",
        None,
        Status(phase=Phase.CANCELLED),
        ["awaiting", "cancelled"],
    ),
    (
        "nothing changed",
        Status(phase=Phase.EXPIRED),
        Status(phase=Phase.EXPIRED, reason="in other words"),
        [],
    ),
    (
        "a first claim on money that is seen",
        Status(phase=Phase.DETECTED),
        Status(phase=Phase.DETECTED, claims_seen=1),
        ["claimed"],
    ),
    (
        "a second claim",
        Status(phase=Phase.DETECTED, claims_seen=1),
        Status(phase=Phase.DETECTED, claims_seen=2),
        [],
    ),
    (
        "a first claim on an ended order",
        Status(phase=Phase.EXPIRED),
        Status(phase=Phase.EXPIRED, claims_seen=1),
        [],
    ),
    (
        "late money",
        Status(phase=Phase.EXPIRED),
        Status(phase=Phase.EXPIRED, late=(T1,), attention=(Attention.LATE,)),
        ["late"],
    ),
    (
        "more late money",
        Status(phase=Phase.EXPIRED, late=(T1,)),
        Status(phase=Phase.EXPIRED, late=(T1, T2)),
        ["late"],
    ),
    (
        "late money that went away",
        Status(phase=Phase.EXPIRED, late=(T1,), attention=(Attention.LATE,)),
        Status(phase=Phase.EXPIRED),
        ["adjusted"],
    ),
    (
        "a cancellation with money",
        Status(phase=Phase.PARTIALLY_PAID),
        Status(phase=Phase.CANCELLED, late=(T1,)),
        ["cancelled", "late"],
    ),
    (
        "a hold",
        Status(phase=Phase.DETECTED),
        Status(phase=Phase.DETECTED, attention=(Attention.HELD,)),
        ["adjusted"],
    ),
    (
        "new terms",
        Status(phase=Phase.AWAITING_PAYMENT),
        Status(phase=Phase.AWAITING_PAYMENT, terms_version=2),
        ["adjusted"],
    ),
]


@pytest.mark.parametrize(
    ("before", "after", "kinds"), [row[1:] for row in BETWEEN], ids=[row[0] for row in BETWEEN]
)
def test_events_between_two_statuses(
    before: Status | None, after: Status, kinds: list[str]
) -> None:
    assert [k.value for k in events_between(before, after, by_decision=False)] == kinds
