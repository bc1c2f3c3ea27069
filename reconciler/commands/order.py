"""`reconciler order …`: what a shop's backend sends, for a shop that has no client of the log.

Writes one message to `orders`, on Kafka as in the database; the running intake applies or refuses it.
Shows the order's event that answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from cyclopts import App, Parameter
from msgspec import Raw

from chains.registry import parse_transaction_id
from reconciler.commands.common import (
    DEFAULT_CONFIG,
    DONE,
    NOT_WELL,
    BadArgument,
    ConfigFile,
    put,
    say,
)
from reconciler.commands.sending import Answer, Outcome, Sending, message_of, read_wait
from reconciler.config import load_settings
from reconciler.kernel.clock import SystemClock
from reconciler.services.announce import event_id
from reconciler.storage import reads
from reconciler.storage.pages import outbox_by_event
from reconciler.storage.rows import OutboxRow
from reconciler.storage.unit_of_work import Store, Work
from reconciler.stream.topics import PAYMENT_EVENTS
from reconciler.wiring import open_database, open_stream
from schemas.amounts import format_decimal_amount
from schemas.codec import UnreadableMessage, decode_as
from schemas.codes import sentence
from schemas.commands import AmendOrder, CancelOrder, ClaimPaid, PlaceOrder
from schemas.envelope import derived_id
from schemas.events import PaymentEvent
from schemas.values import Message

app = App(
    name="order",
    help="Place an order, or tell what became of one, as a shop does.",
    help_epilogue="""The command is sent to `orders` of the log that the settings name, and the running intake answers.
Accepted: the order's payment event is printed as JSON, for `place` the first one with the address and
the exact amount. Refused, or not answered within --wait: exit code 1. An answer may still come then;
the same command with the same --key asks again, and is never carried out twice.""",
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Sent:
    """How it is sent."""

    key: Annotated[
        str | None,
        Parameter(
            help="Its idempotency key: the same key is the same command. Made up when not given."
        ),
    ] = None
    wait: Annotated[str, Parameter(help="How long to wait for the answer: 10s, 1m.")] = "10s"
    config: ConfigFile = DEFAULT_CONFIG


Reference = Annotated[str, Parameter(help="The order's reference, which is yours to choose.")]
Amount = Annotated[
    str | None, Parameter(help="In base units, digits alone: 25000000 are 25 USDT on Ethereum.")
]
AmountDecimal = Annotated[str | None, Parameter(help="In the asset: 25.00.")]
Lines = Annotated[str | None, Parameter(help="JSON that is carried and never read.")]
HOW: Final = Sent()


@app.command
async def place(
    reference: Reference,
    route: Annotated[str, Parameter(help="The name of one of the settings' routes.")],
    /,
    *,
    amount: Amount = None,
    amount_decimal: AmountDecimal = None,
    address: Annotated[
        str | None, Parameter(help="Where to pay; only on a route whose deposit mode is given.")
    ] = None,
    purchase: Annotated[
        str | None, Parameter(help="A name that orders share which pay for the same thing.")
    ] = None,
    fiat: Annotated[
        str | None,
        Parameter(help="JSON: currency, amount, rate, rate_source, rate_at; kept for finance."),
    ] = None,
    lines: Lines = None,
    how: Sent = HOW,
) -> int:
    """Open an order on a route."""
    fields = {
        "reference": reference,
        "route": route,
        "amount": amount,
        "amount_decimal": amount_decimal,
        "address": address,
        "purchase": purchase,
        "fiat": _json("--fiat", fiat),
        "lines": _json("--lines", lines),
    }
    return await _send(PlaceOrder, fields, how)


@app.command
async def claim(
    reference: Reference,
    /,
    *,
    transaction: Annotated[
        str | None, Parameter(help="The id of the transaction that the customer names.")
    ] = None,
    sender: Annotated[
        str | None, Parameter(help="The address from which the customer says they paid.")
    ] = None,
    how: Sent = HOW,
) -> int:
    """The customer pressed "I've paid"."""
    fields = {"reference": reference, "transaction": transaction, "sender": sender}
    return await _send(ClaimPaid, fields, how)


@app.command
async def cancel(
    reference: Reference,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why, for whoever asks later.")],
    force: Annotated[bool, Parameter(help="Also when money for it was seen.")] = False,
    how: Sent = HOW,
) -> int:
    """Withdraw an order."""
    return await _send(CancelOrder, {"reference": reference, "reason": reason, "force": force}, how)


@app.command
async def amend(
    reference: Reference,
    /,
    *,
    amount: Amount = None,
    amount_decimal: AmountDecimal = None,
    deadline: Annotated[str | None, Parameter(help="A later one: 2026-11-30T12:00:00Z.")] = None,
    lines: Lines = None,
    how: Sent = HOW,
) -> int:
    """Give an order that is not confirmed another amount, a later deadline, or other lines."""
    fields = {
        "reference": reference,
        "amount": amount,
        "amount_decimal": amount_decimal,
        "deadline": deadline,
        "lines": _json("--lines", lines),
    }
    return await _send(AmendOrder, fields, how)


def _json(name: str, text: str | None) -> Raw | None:
    if text is None:
        return None
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise BadArgument(f"{name}: expected JSON: {error}") from None
    return Raw(text.encode())


async def _send(kind: type[Message], fields: dict[str, Any], how: Sent) -> int:
    """Send a command of these fields, show its key, and tell what the intake made of it."""
    settings, clock = load_settings(how.config), SystemClock()
    wait, reference = read_wait(how.wait), str(fields["reference"])
    key = how.key or f"cli-{derived_id(kind.__name__, repr(fields), clock.now().isoformat())}"
    command = _command(kind, fields | {"idempotency_key": key})
    message = message_of(command, reference, settings=settings, clock=clock)
    async with open_database(settings) as engine, open_stream(settings, engine) as stream:
        store = Store(engine)
        places = kind is PlaceOrder
        sending = Sending(store, stream, command, message, waits_for=None if places else reference)
        await sending.send()
        say(f"sent with --key {key}")
        outcome = await sending.outcome(wait, clock)
        if outcome.answer not in {Answer.CARRIED_OUT, Answer.REPEATED}:
            return _without_answer(outcome, reference, how.wait)
        found = await store.read(lambda work: _event(work, reference, first=places))
        return _answered(outcome, found, named=fields.get("transaction"))


async def _event(work: Work, reference: str, *, first: bool) -> bytes | None:
    """Read an order's first or last event, which the relay sends as these bytes."""
    row = (await reads.orders(work, [reference])).get(reference)
    if row is None:
        return None
    name = event_id(reference, 1 if first else row.sequence)
    found = await outbox_by_event(work, OutboxRow, PAYMENT_EVENTS, [name])
    return found[0].value if found else None


def _command(kind: type[Message], fields: dict[str, Any]) -> Message:
    """Make the command, read as the intake reads it. **Raises**: `BadArgument`."""
    said = {name: value for name, value in fields.items() if value is not None}
    try:
        return decode_as(kind, msgspec.json.encode(said))
    except UnreadableMessage as error:
        raise BadArgument(f"not a {kind.__name__}: {error}") from None


def _without_answer(outcome: Outcome, reference: str, wait: str) -> int:
    if outcome.answer is Answer.REFUSED:
        say(f"refused: {outcome.why}")
    elif outcome.answer is Answer.WAITING:
        say(
            f"no order has the reference {reference} yet: the command waits for one to be placed, and "
            "is then carried out, or refused as unknown_order after intake.unknown_reference_patience"
        )
    else:
        say(
            f"the command is sent and may still be carried out: nothing answered within {wait}; "
            "are an intake and a relay running? The same command with the same --key asks again"
        )
    return NOT_WELL


def _answered(outcome: Outcome, found: bytes | None, *, named: str | None) -> int:
    """Print the event, and say where the order stands and what became of a named transaction."""
    word = "accepted" if outcome.answer is Answer.CARRIED_OUT else "already carried out"
    if found is None:
        say(f"{word}")
        return DONE
    event = decode_as(PaymentEvent, found)
    put(found.decode())
    due = format_decimal_amount(event.due, event.decimals)
    say(f"{word}: {event.phase.value}, {due} due to {event.address}. {sentence(event.phase)}")
    if named and parse_transaction_id(event.chain, named) is None:
        say(
            "--transaction: this is no transaction id; it is dropped, and the claim stays without one"
        )
    return DONE
