"""Spans of time as people write them: a whole number and its unit, `60m`, `24h`, `250ms`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, Self

_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_SPAN = re.compile(r"([1-9][0-9]{0,8})(ms|s|m|h|d)", re.ASCII)

#: Longer ones are slips of the keyboard, and would leave the range of a date when added to one.
SPAN_MAX: Final = timedelta(days=3_660)


class Span(timedelta):
    """A length of time above zero that a person wrote, as settings hold it."""

    @classmethod
    def of(cls, span: timedelta) -> Self:
        """Make one of any length of time."""
        return cls(days=span.days, seconds=span.seconds, microseconds=span.microseconds)


def parse_span(text: str) -> Span:
    """Read a span. A bare number is refused, for nobody can tell seconds from minutes.

    **Raises**: ValueError with a sentence.
    """
    found = _SPAN.fullmatch(text)
    if not found:
        message = f"expected a span such as 250ms, 30s, 60m, 24h or 30d, found {text[:40]!r}"
        raise ValueError(message)
    number, unit = int(found[1]), _UNITS[found[2]]
    if number > SPAN_MAX / unit:
        message = f"expected a span of at most {SPAN_MAX.days}d, found {text!r}"
        raise ValueError(message)
    return Span.of(number * unit)


def format_span(span: timedelta) -> str:
    """Write a span in the largest unit that holds it exactly: 90 minutes are `90m`, 2 hours `2h`."""
    for name, unit in reversed(_UNITS.items()):
        if span % unit == timedelta():
            return f"{span // unit}{name}"
    return f"{span / _UNITS['ms']}ms"
