import csv
import io
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from reconciler.exports.files import head, line
from schemas.amounts import BaseUnits
from schemas.codes import Phase

ROW = {
    "reference": "o-1",
    "phase": Phase.CONFIRMED,
    "due": BaseUnits(2**255),
    "placed_at": datetime(2026, 11, 30, 12, tzinfo=UTC),
    "purchase": None,
    "attention": ["late", "held"],
    "open": True,
    "lines": Raw(b'[{"lot": "a,b"}]'),
}


def read(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def test_a_row_of_csv_is_rfc_4180():
    text = head(list(ROW), "csv") + line(ROW, "csv")
    assert text.count("\r\n") == 2
    names, cells = read(text)
    assert dict(zip(names, cells, strict=True)) == {
        "reference": "o-1",
        "phase": "confirmed",
        "due": str(2**255),
        "placed_at": "2026-11-30T12:00:00Z",
        "purchase": "",
        "attention": "late;held",
        "open": "true",
        "lines": '[{"lot": "a,b"}]',
    }


def test_a_json_line_keeps_amounts_as_digits_and_lines_as_they_came():
    text = line(ROW, "jsonl")
    assert text.endswith("\n")
    assert head(list(ROW), "jsonl") == ""
    found = json.loads(text)
    assert found["due"] == str(2**255)
    assert found["lines"] == [{"lot": "a,b"}]
    assert found["purchase"] is None


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=x", '=HYPERLINK("x")'])
def test_text_of_a_stranger_is_no_formula(text):
    ((cell,),) = read(line({"reason": text}, "csv"))
    assert cell == "'" + text
    ((cell,),) = read(line({"pays": [text, "b"]}, "csv"))
    assert cell.startswith("'")


@given(st.text(max_size=40).filter(lambda text: "\r" not in text and "\x00" not in text))
def test_any_text_is_one_cell_that_is_no_formula(text):
    written = line({"a": text, "b": "end"}, "csv")
    ((cell, end),) = read(written)
    assert end == "end"
    assert cell.removeprefix("'") == text.removeprefix("'")
    assert not cell.startswith(("=", "+", "-", "@", "\t"))
