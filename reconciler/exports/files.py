"""Rows as CSV (RFC 4180) and as JSON lines. Pure.

Amounts are digits of base units, and beside them in the asset's scale; nothing is rounded. Text that
came from a chain or a customer cannot become a formula of a spreadsheet.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from schemas.envelope import format_instant
from schemas.values import encode_hook

Format = Literal["csv", "jsonl"]
Row = Mapping[str, Any]

#: A cell that begins with one of these is a formula to Excel, LibreOffice and Google Sheets; the full
#: width ones are to Excel in East Asian settings. Source: OWASP, "CSV Injection".
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

_encoder: Final = msgspec.json.Encoder(enc_hook=encode_hook)


def head(columns: Sequence[str], form: Format) -> str:
    """Give what stands above the rows."""
    return _csv_line(list(columns)) if form == "csv" else ""


def line(row: Row, form: Format) -> str:
    """Write one row."""
    if form == "jsonl":
        return _encoder.encode(row).decode() + "\n"
    return _csv_line([_cell(value) for value in row.values()])


def _csv_line(cells: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, Raw):
        return _harmless(bytes(value).decode())
    if isinstance(value, list | tuple):
        return _harmless(";".join(_cell(inner) for inner in value))
    return _harmless(str(value))


def _harmless(text: str) -> str:
    """Let a spreadsheet show a text that it would calculate."""
    return f"'{text}" if text.startswith(_FORMULA) else text
