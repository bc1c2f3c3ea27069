from decimal import Decimal

import pytest

from schemas.amounts import (
    AMOUNT_LIMIT,
    AmountError,
    BaseUnits,
    format_decimal_amount,
    parse_base_units,
    parse_decimal_amount,
)
from schemas.codes import Rejection

MALFORMED, NEGATIVE = "amount_malformed", "amount_negative"
FRACTION, EXPONENT, TOO_LARGE = "amount_fraction", "amount_exponent", "amount_too_large"

BASE_UNITS = [
    ("0", 0),
    ("1", 1),
    ("51040000", 51_040_000),
    ("9007199254740993", 2**53 + 1),
    (str(AMOUNT_LIMIT - 1), AMOUNT_LIMIT - 1),
    (str(AMOUNT_LIMIT), TOO_LARGE),
    ("9" * 78, TOO_LARGE),
    ("9" * 79, TOO_LARGE),
    ("-1", NEGATIVE),
    ("-0", NEGATIVE),
    ("1.5", FRACTION),
    ("1.0", FRACTION),
    ("1,5", FRACTION),
    ("1e6", EXPONENT),
    ("1E6", EXPONENT),
    ("1.5e6", EXPONENT),
    ("1e-6", EXPONENT),
    ("", MALFORMED),
    ("01", MALFORMED),
    ("00", MALFORMED),
    ("+1", MALFORMED),
    (" 1", MALFORMED),
    ("1 ", MALFORMED),
    ("1\n", MALFORMED),
    ("1_000", MALFORMED),
    ("0x10", MALFORMED),
    ("١", MALFORMED),
    ("1", 1),
    ("NaN", MALFORMED),
    ("Infinity", MALFORMED),
    ("null", MALFORMED),
]


@pytest.mark.parametrize(("text", "expected"), BASE_UNITS)
def test_base_units_are_digits_and_nothing_else(text, expected):
    if isinstance(expected, int) and text.isascii():
        assert parse_base_units(text) == expected
        return
    with pytest.raises(AmountError) as refused:
        parse_base_units(text)
    if isinstance(expected, str):
        assert refused.value.code == expected
    assert refused.value.code in set(Rejection)


DECIMALS = [
    ("25.50", 6, 25_500_000),
    ("25.5", 6, 25_500_000),
    ("25", 6, 25_000_000),
    ("0.000001", 6, 1),
    ("0.0000010", 6, 1),
    ("0", 6, 0),
    ("0.0", 0, 0),
    ("7", 0, 7),
    ("1.000000000000000001", 18, 10**18 + 1),
    ("0.0000001", 6, FRACTION),
    ("7.5", 0, FRACTION),
    ("-25.50", 6, NEGATIVE),
    ("2.55e1", 6, EXPONENT),
    ("25,50", 6, MALFORMED),
    (".5", 6, MALFORMED),
    ("5.", 6, MALFORMED),
    ("1.2.3", 6, MALFORMED),
    ("025", 6, MALFORMED),
    ("25.50 USDT", 6, MALFORMED),
    ("25.50\n", 6, MALFORMED),
    ("9" * 78, 18, TOO_LARGE),
]


@pytest.mark.parametrize(("text", "decimals", "expected"), DECIMALS)
def test_a_decimal_amount_is_exact_or_refused(text, decimals, expected):
    if isinstance(expected, int):
        assert parse_decimal_amount(text, decimals) == expected
        return
    with pytest.raises(AmountError) as refused:
        parse_decimal_amount(text, decimals)
    assert refused.value.code == expected


@pytest.mark.parametrize("value", [1.0, True, "1", Decimal(1), None, 0.1 + 0.2])
def test_only_whole_numbers_become_base_units(value):
    with pytest.raises(AmountError) as refused:
        BaseUnits(value)
    assert refused.value.code == MALFORMED


@pytest.mark.parametrize(("value", "code"), [(-1, NEGATIVE), (AMOUNT_LIMIT, TOO_LARGE)])
def test_numbers_outside_the_chains_range_are_refused_never_clamped(value, code):
    with pytest.raises(AmountError) as refused:
        BaseUnits(value)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("amount", "decimals", "expected"),
    [
        (25_500_000, 6, "25.500000"),
        (1, 18, "0.000000000000000001"),
        (0, 6, "0.000000"),
        (7, 0, "7"),
        (-2_500_000, 6, "-2.500000"),
        (-1, 6, "-0.000001"),
    ],
)
def test_an_amount_is_written_with_every_decimal(amount, decimals, expected):
    assert format_decimal_amount(amount, decimals) == expected
