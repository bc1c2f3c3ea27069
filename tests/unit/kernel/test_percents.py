import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kernel.percents import format_percent, is_percent, parse_percent_ppm


@pytest.mark.parametrize(
    ("text", "ppm"),
    [("0%", 0), ("0.5%", 5_000), ("0.0001%", 1), ("5%", 50_000), ("100%", 1_000_000)],
)
def test_a_percent_is_exact_parts_per_million(text, ppm):
    assert parse_percent_ppm(text) == ppm


@pytest.mark.parametrize(
    "text",
    ["0.5", "%", ".5%", "0,5%", "1e1%", "-1%", "00.5%", "0.00001%", "101%", "100.0001%", "5 %"],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse_percent_ppm(text)


def test_only_the_sign_makes_a_percent():
    assert is_percent("2%")
    assert not is_percent("2")


@given(st.integers(min_value=0, max_value=1_000_000))
def test_every_part_per_million_survives_writing_and_reading(ppm):
    assert parse_percent_ppm(format_percent(ppm)) == ppm
