from datetime import timedelta

import pytest

from reconciler.kernel.spans import Span, format_span, parse_span


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("1s", timedelta(seconds=1)),
        ("60m", timedelta(hours=1)),
        ("24h", timedelta(days=1)),
        ("30d", timedelta(days=30)),
    ],
)
def test_a_span_is_a_number_and_its_unit(text, expected):
    assert parse_span(text) == expected
    assert isinstance(parse_span(text), Span)


@pytest.mark.parametrize(
    "text",
    ["60", "1.5h", "0m", "-5m", "+5m", "5 m", "5M", "", "m", "1h30m", "٣m", "1e3s", "PT5M", " 5m"],
)
def test_anything_else_is_refused_with_what_was_found(text):
    with pytest.raises(ValueError, match="expected a span"):
        parse_span(text)


def test_a_span_longer_than_ten_years_is_a_slip():
    assert parse_span("3660d").days == 3660
    with pytest.raises(ValueError, match="at most 3660d"):
        parse_span("3661d")


@pytest.mark.parametrize("text", ["250ms", "59s", "90m", "2h", "30d"])
def test_a_span_is_written_as_it_was_read(text):
    assert format_span(parse_span(text)) == text


def test_the_largest_exact_unit_is_written():
    assert format_span(timedelta(minutes=120)) == "2h"
    assert format_span(timedelta(seconds=61)) == "61s"
