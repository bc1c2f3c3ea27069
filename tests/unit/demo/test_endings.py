"""What is wrong with an ending is named, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.demo.book import Book
from reconciler.demo.devnet_stage import make_stage
from reconciler.demo.endings import has_ended, told, wrong_with, wrong_with_credits
from reconciler.demo.script import Paid
from reconciler.demo.stories import Ask, Ending, Story
from schemas.amounts import BaseUnits
from schemas.caip import AssetName
from schemas.codec import decode_as
from schemas.codes import Attention, ExceptionKind, Phase
from schemas.events import EventKind, PaymentEvent, PaymentException

EXAMPLES = Path(__file__).parents[3] / "schemas" / "examples"
CONTRACT = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
STAGE = make_stage(
    None, None, dollar=CONTRACT, look_alike=CONTRACT, birch_dollar=CONTRACT, time=None
)
DOLLAR = STAGE.dollar
ENDING = Ending(
    order="o-1", phase=Phase.CONFIRMED, kinds=("awaiting", "confirmed"), counted="25.00"
)


def event(sequence: int, kind: EventKind, phase: Phase, received: int = 0) -> PaymentEvent:
    example = decode_as(PaymentEvent, (EXAMPLES / "payment.confirmed.json").read_bytes())
    transfer = replace(
        example.transfers[0],
        transfer=f"{DOLLAR.chain}/0xaa/log:0",
        asset=DOLLAR.asset,
        amount=BaseUnits(received),
        counted=BaseUnits(received),
    )
    return replace(
        example,
        order="o-1",
        sequence=sequence,
        kind=kind,
        phase=phase,
        chain=DOLLAR.chain,
        asset=AssetName(DOLLAR.asset),
        decimals=6,
        due=BaseUnits(25_000_000),
        received_final=BaseUnits(received),
        received_pending=BaseUnits(0),
        excess=BaseUnits(0),
        attention=(),
        transfers=(transfer,) if received else (),
        claims=(),
    )


def exception(kind: ExceptionKind) -> PaymentException:
    example = decode_as(PaymentException, (EXAMPLES / "PaymentException.json").read_bytes())
    return replace(example, kind=kind, order="o-1", open=True)


def book_of(*events: PaymentEvent) -> Book:
    book = Book()
    for one in events:
        book.add_event(one)
    return book


def story_of(ending: Ending = ENDING) -> Story:
    async def nothing(_script: object) -> None: ...

    return Story(
        number=1,
        title="One",
        asks=(Ask(order="o-1", route="dollar", amount="25.00"),),
        act=nothing,
        endings=(ending,),
        sentence="{counted} of {due} came.",
    )


PLACED = event(1, EventKind.AWAITING, Phase.AWAITING_PAYMENT)
CONFIRMED = event(2, EventKind.CONFIRMED, Phase.CONFIRMED, 25_000_000)


def test_nothing_is_wrong_with_a_right_ending():
    book = book_of(PLACED, CONFIRMED)
    assert has_ended(ENDING, book)
    assert wrong_with(story_of(), book, STAGE) == []
    assert told(story_of(), book, STAGE) == "25.00 DUSD of 25.00 DUSD came."


@pytest.mark.parametrize(
    ("ending", "events", "exceptions", "says"),
    [
        ({}, (), (), "expected events, found none"),
        ({}, (PLACED,), (), "expected the phase confirmed, found awaiting_payment"),
        ({}, (PLACED, replace(CONFIRMED, sequence=3)), (), "without gaps"),
        ({"kinds": ("awaiting", "late")}, (PLACED, CONFIRMED), (), "expected awaiting, late"),
        ({"counted": "24.00"}, (PLACED, CONFIRMED), (), "expected 24000000 base units"),
        ({"attention": frozenset({Attention.LATE})}, (PLACED, CONFIRMED), (), "attention late"),
        ({}, (PLACED, CONFIRMED), (ExceptionKind.OVERPAID,), "exceptions none, found overpaid"),
        (
            {"exceptions": frozenset({ExceptionKind.OVERPAID})},
            (PLACED, CONFIRMED),
            (),
            "exceptions overpaid, found none",
        ),
    ],
)
def test_what_is_wrong_is_named(ending, events, exceptions, says: str):
    book = book_of(*events)
    for kind in exceptions:
        book.add_exception(exception(kind))
    found = wrong_with(story_of(replace(ENDING, **ending)), book, STAGE)
    assert any(says in sentence for sentence in found), found


def test_money_that_is_credited_to_two_orders_is_found():
    paid = Paid()
    paid.by_tx["0xaa"] = (DOLLAR, 25_000_000)
    book = book_of(PLACED, CONFIRMED)
    assert wrong_with_credits(book, paid) == []
    book.add_event(replace(CONFIRMED, order="o-2"))
    assert "50000000 is credited of the 25000000" in wrong_with_credits(book, paid)[0]


def test_money_that_nobody_sent_is_found():
    assert "of the 0 that was sent" in wrong_with_credits(book_of(PLACED, CONFIRMED), Paid())[0]
