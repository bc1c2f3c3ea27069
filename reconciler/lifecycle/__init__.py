"""From terms, claims, transfers, decisions and coverage to a status, and from two statuses to events.

Pure: reads its arguments, writes nothing, never awaits.
"""

from reconciler.lifecycle.assess import Assessment, assess
from reconciler.lifecycle.facts import OrderFacts
from reconciler.lifecycle.transitions import ImpossibleTransition, events_between

__all__ = ["Assessment", "ImpossibleTransition", "OrderFacts", "assess", "events_between"]
