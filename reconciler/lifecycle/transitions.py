"""The table of allowed phase changes, as data, and the events that tell of them.

Every pair of phases stands in the table. An impossible one raises: it would be a bug that moves money.
"""

from __future__ import annotations

from typing import Final

from reconciler.kernel.checks import InvariantBroken
from reconciler.model.status import ENDS, Status
from schemas.codes import Phase
from schemas.events import EventKind


class ImpossibleTransition(InvariantBroken):
    """No fact leads from the one phase to the other."""


A, C, D, P, K, R, U, E, X = (
    Phase.AWAITING_PAYMENT,
    Phase.CLAIMED,
    Phase.DETECTED,
    Phase.PARTIALLY_PAID,
    Phase.CONFIRMED,
    Phase.REVERSED,
    Phase.UNDERPAID,
    Phase.EXPIRED,
    Phase.CANCELLED,
)
#: One word a pair: the event that tells of it. `.` is no change of phase, `-` cannot happen,
#: a word in capitals needs a person's decision (or the route's own rule to revive).
_ROWS: Final = """
from   A         C         D          P               K           R          U           E         X
A      .         claimed   detected   partially_paid  CONFIRMED   -          UNDERPAID   expired   cancelled
C      -         .         detected   partially_paid  CONFIRMED   -          UNDERPAID   expired   cancelled
D      withdrawn withdrawn .          partially_paid  confirmed   withdrawn  underpaid   expired   cancelled
P      withdrawn withdrawn detected   .               confirmed   withdrawn  underpaid   expired   cancelled
K      -         -         -          -               .           reversed   -           -         -
R      -         -         detected   partially_paid  confirmed   .          underpaid   expired   cancelled
U      -         -         DETECTED   PARTIALLY_PAID  CONFIRMED   -          .           expired   -
E      -         -         DETECTED   PARTIALLY_PAID  CONFIRMED   -          underpaid   .         -
X      -         -         DETECTED   PARTIALLY_PAID  CONFIRMED   -          UNDERPAID   -         .
"""
_LETTERS: Final = dict(zip("ACDPKRUEX", (A, C, D, P, K, R, U, E, X), strict=True))


def _read_table() -> dict[tuple[Phase, Phase], str]:
    lines = [line.split() for line in _ROWS.strip().splitlines()]
    columns = lines[0][1:]
    return {
        (_LETTERS[line[0]], _LETTERS[column]): word
        for line in lines[1:]
        for column, word in zip(columns, line[1:], strict=True)
    }


TABLE: Final = _read_table()


def event_of_change(before: Phase, after: Phase, *, by_decision: bool) -> EventKind | None:
    """Name the event of a change of phase; None when the phase stays.

    **Raises**: `ImpossibleTransition`, naming both.
    """
    word = TABLE[before, after]
    if word == ".":
        return None
    if word == "-" or (word.isupper() and not by_decision):
        message = f"no fact leads from {before.value} to {after.value}"
        raise ImpossibleTransition(message)
    return EventKind(word.lower())


def events_between(
    before: Status | None, after: Status, *, by_decision: bool
) -> tuple[EventKind, ...]:
    """Give the events that tell the shop of the difference, in order; none when there is none.

    A first status is `awaiting`, followed by what is already more than that. A person may lead from
    any outcome to any other.
    """
    if before is None:
        first = Status(phase=A, missing=after.missing, terms_version=after.terms_version)
        return (EventKind.AWAITING, *events_between(first, after, by_decision=by_decision))
    change = event_of_change(before.phase, after.phase, by_decision=by_decision)
    more_late = bool(set(after.late) - set(before.late))
    kinds: list[EventKind] = []
    if change is not None:
        kinds.append(change)
    elif after.claims_seen > 0 == before.claims_seen and after.phase not in ENDS:
        kinds.append(EventKind.CLAIMED)
    if more_late:
        kinds.append(EventKind.LATE)
    if not kinds and _visible(before) != _visible(after):
        kinds.append(EventKind.ADJUSTED)
    return tuple(kinds)


def _visible(status: Status) -> tuple[object, ...]:
    """Take what a shop can see change without a new phase."""
    return (
        status.amount_state,
        status.attention,
        status.received_final,
        status.received_pending,
        status.missing,
        status.excess,
        status.terms_version,
    )
