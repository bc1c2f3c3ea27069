"""What people type: hashes among other words. Pure."""

from __future__ import annotations

import re
from typing import Final

_TYPED_MAX: Final = 2_000
_HASH: Final = re.compile(r"(?<![0-9a-fA-F])(?:0[xX])?([0-9a-fA-F]{64})(?![0-9a-fA-F])")


def find_hash(text: str) -> str | None:
    """Find the one 32-byte hash in what a person typed: any case, with 0x or without, in a URL.

    Gives 64 lower-case digits; None when there is none, or several.
    """
    found = {match.lower() for match in _HASH.findall(text[:_TYPED_MAX])}
    return found.pop() if len(found) == 1 else None
