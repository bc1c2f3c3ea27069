"""Percents as people write them, held as whole parts per million: no float comes near an amount."""

from __future__ import annotations

import re
from typing import Final

#: A million parts are the whole; one percent is 10,000 of them.
PPM: Final = 1_000_000

_PERCENT = re.compile(r"(0|[1-9][0-9]{0,2})(?:\.([0-9]{1,4}))?%", re.ASCII)


def is_percent(text: str) -> bool:
    """Tell a percent from an amount: only the sign `%` makes it one."""
    return text.endswith("%")


def parse_percent_ppm(text: str) -> int:
    """Read `0.5%` as 5,000 parts per million, exactly.

    **Raises**: ValueError for anything without `%`, above 100 %, or finer than one part per million.
    """
    found = _PERCENT.fullmatch(text)
    if not found:
        message = f"expected a percent such as 0.5%, with at most 4 decimals, found {text[:40]!r}"
        raise ValueError(message)
    parts = int(found[1] + (found[2] or "").ljust(4, "0"))
    if parts > PPM:
        message = f"expected at most 100%, found {text!r}"
        raise ValueError(message)
    return parts


def format_percent(ppm: int) -> str:
    """Write parts per million as a percent: 5,000 is `0.5%`."""
    whole, rest = divmod(ppm, PPM // 100)
    fraction = f"{rest:04d}".rstrip("0")
    return f"{whole}.{fraction}%" if fraction else f"{whole}%"
