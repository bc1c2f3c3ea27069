"""Amounts that tell orders on one shared address apart: due, rounded up, plus 1…N steps.

An order's candidates start at a keyed hash of its reference, so that a replay picks the same.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator

from reconciler.kernel.percents import PPM
from schemas.amounts import AMOUNT_LIMIT, BaseUnits


class ReservedAmountError(ValueError):
    """The step cannot tell amounts apart."""


def is_power_of_ten(step: int) -> bool:
    """Tell whether a step, in base units, can tell amounts apart."""
    return step > 0 and str(step).rstrip("0") == "1"


def steps_within(due: int, step: int, steps_max: int, *, more_ppm: int) -> int:
    """Say how many steps above a price may be asked for: `steps_max`, and never more than a share
    of the price, to which rounding it up to a step belongs. Zero when not even one fits.
    """
    rounding_up = -due % step
    return max(0, min(steps_max, (due * more_ppm // PPM - rounding_up) // step))


def candidate_amounts(
    due: int, step: int, steps_max: int, *, reference: str, key: bytes
) -> Iterator[BaseUnits]:
    """Give the amounts an order may be asked for, best first, each once; none for no steps.

    `step` is a power of ten of base units and every candidate is a multiple of it whose last digit
    (in steps) is not zero. A wallet that rounds to fewer decimals therefore always lands on an amount
    that is never given out: not on the round price, and not on another live one.

    **Raises**: `ReservedAmountError` when the step is no power of ten.
    """
    if not is_power_of_ten(step):
        message = f"expected a step that is a power of ten of base units, found {step}"
        raise ReservedAmountError(message)
    if steps_max < 1:
        return
    base = -(-due // step)
    digest = hmac.new(key, reference.encode(), hashlib.sha256).digest()
    start = int.from_bytes(digest[:8], "big") % steps_max
    for turn in range(steps_max):
        in_steps = base + 1 + (start + turn) % steps_max
        amount = in_steps * step
        if in_steps % 10 != 0 and amount < AMOUNT_LIMIT:
            yield BaseUnits(amount)
