"""Amounts: whole base units, as Python integers in memory and strings of digits on the wire.

JSON numbers stop being exact at 2^53, floats long before money does, so neither is ever used.
"""

from __future__ import annotations

import re
from typing import Final, Self

#: No chain that we watch can hold more: the EVM word.
#: Source: Ethereum Yellow Paper, section 9.1 (256-bit words).
AMOUNT_LIMIT: Final = 2**256

#: 2^256 has 78 digits.
_DIGITS_MAX: Final = 78
_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,77})(?:\.([0-9]{1,77}))?", re.ASCII)

DIGITS_PATTERN: Final = r"^(0|[1-9][0-9]{0,77})$(?!\n)"


class AmountError(ValueError):
    """A text or number is not an amount.

    `code` names the kind of mistake and is one of the rejection codes in `schemas.codes`.
    """

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class BaseUnits(int):
    """An amount of one asset in the integer unit in which its chain counts.

    **Units**: satoshi, wei, 10^-6 USDT on Ethereum, 10^-18 USDT on BSC; 0 <= n < 2^256.
    **Raises**: `AmountError` for anything outside, and for bool, float and Decimal.
    """

    __slots__ = ()

    def __new__(cls, value: int) -> Self:
        """Check and keep the number."""
        if not isinstance(value, int) or isinstance(value, bool):
            sentence = f"expected whole base units, found {type(value).__name__} {value!r}"
            raise AmountError("amount_malformed", sentence)
        if value < 0:
            raise AmountError("amount_negative", f"an amount cannot be negative, found {value}")
        if value >= AMOUNT_LIMIT:
            raise AmountError("amount_too_large", f"an amount is below 2^256, found {value}")
        return super().__new__(cls, value)


ZERO: Final = BaseUnits(0)


def parse_base_units(text: str) -> BaseUnits:
    """Read the wire form: digits only, no sign, no leading zero, no white space.

    **Raises**: `AmountError`, whose code names what is wrong with it.
    """
    # Hot: a dozen of these in every order that is read. Plain string checks beat the pattern.
    if text.isdecimal() and text.isascii() and len(text) <= _DIGITS_MAX:
        value = int(text)
        if (text[0] != "0" or text == "0") and value < AMOUNT_LIMIT:
            return int.__new__(BaseUnits, value)
    raise AmountError(_mistake_in(text), f"expected whole base units, found {text[:100]!r}")


def parse_decimal_amount(text: str, decimals: int) -> BaseUnits:
    """Read what a person writes (`"25.50"`) in the asset's own scale, exactly.

    **Raises**: `AmountError` `amount_fraction` when it is finer than one base unit; never rounds.
    """
    found = _DECIMAL.fullmatch(text)
    if not found:
        code = _mistake_in(text)
        code = "amount_malformed" if code == "amount_fraction" else code
        raise AmountError(code, f"expected a decimal amount, found {text[:100]!r}")
    whole, fraction = found[1], (found[2] or "").rstrip("0")
    if len(fraction) > decimals:
        sentence = f"expected at most {decimals} decimals, found {len(fraction)} in {text[:100]!r}"
        raise AmountError("amount_fraction", sentence)
    return BaseUnits(int(whole + fraction.ljust(decimals, "0")))


def format_decimal_amount(amount_base_units: int, decimals: int) -> str:
    """Write an amount in the asset's scale, with every decimal and no exponent: `25.500000`."""
    sign = "-" if amount_base_units < 0 else ""
    digits = str(abs(amount_base_units)).rjust(decimals + 1, "0")
    if decimals == 0:
        return sign + digits
    return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}"


def _mistake_in(text: str) -> str:
    """Name the kind of mistake, so that a sender knows what to mend."""
    if re.fullmatch(r"-[0-9].*", text):
        return "amount_negative"
    if re.fullmatch(r"\+?[0-9]+(?:\.[0-9]*)?[eE][+-]?[0-9]+", text):
        return "amount_exponent"
    if re.fullmatch(r"[0-9]+[.,][0-9]+", text):
        return "amount_fraction"
    if re.fullmatch(r"[1-9][0-9]{77,}", text, re.ASCII):
        return "amount_too_large"
    return "amount_malformed"
