"""Which order does this transfer pay, and why.

Pure. Rules strongest first; the first that leaves exactly one candidate wins; two equally good
candidates are a person's decision.
"""

from reconciler.matcher.amounts import ReservedAmountError, candidate_amounts
from reconciler.matcher.match import (
    Candidate,
    Match,
    MatchQuestion,
    Reservation,
    Share,
    match_transfer,
)

__all__ = [
    "Candidate",
    "Match",
    "MatchQuestion",
    "Reservation",
    "ReservedAmountError",
    "Share",
    "candidate_amounts",
    "match_transfer",
]
