"""Column types that keep amounts and instants exact on both databases."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlalchemy import NUMERIC, DateTime, Dialect, LargeBinary, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from schemas.amounts import BaseUnits

#: 2^256 - 1 has 78 digits; padded to that, text sorts and compares as the number does.
_DIGITS = 78


class BaseUnitsType(TypeDecorator[BaseUnits]):
    """An amount: NUMERIC(78,0) on PostgreSQL, zero-padded text on SQLite.

    SQLite turns large NUMERICs into floats (measured), so it never sees one. Values outside
    0 … 2^256 - 1 are refused on the way in and on the way out, never clamped.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column's own type."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(NUMERIC(_DIGITS, 0, asdecimal=True))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: BaseUnits | None, dialect: Dialect) -> Any:
        """Check and write."""
        if value is None:
            return None
        amount = BaseUnits(value)
        if dialect.name == "postgresql":
            return Decimal(int(amount))
        return pad(amount)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> BaseUnits | None:
        """Read and check."""
        return None if value is None else BaseUnits(int(value))


def pad(amount: int) -> str:
    """Write an amount so that SQLite sorts and compares it as a number."""
    return str(int(BaseUnits(amount))).rjust(_DIGITS, "0")


class InstantType(TypeDecorator[datetime]):
    """An aware instant in UTC: TIMESTAMPTZ on PostgreSQL, fixed-width text on SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column's own type."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Check that it is aware, and write it in UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            message = f"expected an aware instant, found {value!r}"
            raise ValueError(message)
        return value.astimezone(UTC) if dialect.name == "postgresql" else instant_text(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        """Read as UTC."""
        if value is None:
            return None
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        return datetime.fromisoformat(value).astimezone(UTC)


@lru_cache(maxsize=1_024)  # the entries of a batch share a few instants
def instant_text(value: datetime) -> str:
    """Write an instant so that text sorts as time: microseconds always there, always UTC."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")


Bytes = LargeBinary
