"""The smallest words of the service: clock, checks, spans, percents, refusals.

Reads and writes nothing; imports no other room.
"""

from reconciler.kernel.checks import InvariantBroken, check
from reconciler.kernel.clock import Clock, ManualClock, SystemClock
from reconciler.kernel.percents import parse_percent_ppm
from reconciler.kernel.refusals import Refusal
from reconciler.kernel.spans import Span, format_span, parse_span

__all__ = [
    "Clock",
    "InvariantBroken",
    "ManualClock",
    "Refusal",
    "Span",
    "SystemClock",
    "check",
    "format_span",
    "parse_percent_ppm",
    "parse_span",
]
