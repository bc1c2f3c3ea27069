"""The collector of cyclic garbage, set for processes that apply batches of small objects."""

from __future__ import annotations

import gc
from typing import Final

#: New objects between two looks at the youngest, and looks before the older are looked at too.
#: Python's own first number is 700; a batch makes some ten thousand, nearly all freed without the
#: collector. Measured: an eighth of the intake's time.
_YOUNG_MAX: Final = 50_000
_LOOKS: Final = 20


def collect_seldom() -> None:
    """Leave what start-up made alone, and look for cycles once every few batches."""
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, _LOOKS, _LOOKS)
