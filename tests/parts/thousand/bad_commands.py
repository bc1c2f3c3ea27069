"""What a shop must not send: each is refused by name and holds nobody up."""

from __future__ import annotations

from typing import Any

from tests.parts.thousand.book import SHARED_ADDRESS
from tests.parts.thousand.story import address_of


def _place(reference: str, **changes: Any) -> dict[str, Any]:
    return {
        "idempotency_key": f"bad-{reference}",
        "reference": reference,
        "route": "a-usd",
        "amount": "25000000",
        "address": address_of(reference),
        **changes,
    }


#: The code, the kind and the body.
BAD_COMMANDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("amount_negative", "PlaceOrder", _place("bad-1", amount="-5")),
    ("amount_exponent", "PlaceOrder", _place("bad-2", amount="1e6")),
    ("amount_fraction", "PlaceOrder", _place("bad-3", amount="0.5")),
    ("amount_zero", "PlaceOrder", _place("bad-4", amount="0")),
    ("amount_too_large", "PlaceOrder", _place("bad-5", amount=str(2**256))),
    ("amount_below_minimum", "PlaceOrder", _place("bad-6", amount="9")),
    ("amount_missing", "PlaceOrder", _place("bad-7", amount=None)),
    ("unknown_route", "PlaceOrder", _place("bad-8", route="c-usd")),
    ("address_missing", "PlaceOrder", _place("bad-9", address=None)),
    ("address_malformed", "PlaceOrder", _place("bad-10", address="0x12")),
    ("address_in_use", "PlaceOrder", _place("bad-11", address=SHARED_ADDRESS)),
    ("address_not_taken", "PlaceOrder", _place("bad-12", route="b-shared")),
    ("unknown_type", "PleaseOrder", _place("bad-13")),
    ("unreadable", "PlaceOrder", _place("bad-14", amount=25)),
    ("unreadable", "ClaimPaid", {"reference": "bad-15"}),
)
