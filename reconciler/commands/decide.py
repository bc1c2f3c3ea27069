"""`reconciler decide …`: what a person decides, sent as a command like any other.

Writes one message to `orders`; the decision is carried out, journalled or refused by intake. Each has
a key, shown when it is sent, by which it can be undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

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
from reconciler.config import Settings, load_settings
from reconciler.kernel.clock import Clock, SystemClock
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Outgoing
from reconciler.wiring import open_database, open_stream
from schemas.codec import UnreadableMessage
from schemas.commands import (
    AcceptShort,
    Action,
    Assign,
    Close,
    Decide,
    Hold,
    Part,
    Reject,
    Release,
    Returned,
    Revive,
    Split,
    Undo,
    WriteOff,
)
from schemas.envelope import derived_id
from schemas.values import OrderReference, TransferName

app = App(
    name="decide",
    help="Tell what a person decided.",
    help_epilogue="""Every decision needs --actor, a name, and --reason; both stand in the journal for ever.
It is sent to the running intake, which carries it out or refuses it; its key, printed first, undoes
it. `reconciler export exceptions` lists what waits for a person. Exit code 0 says that it was carried
out; 1 that it was refused, or that nobody answered in time: it may still be carried out then.""",
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Person:
    """Who decides, why, and how it is sent."""

    actor: Annotated[str, Parameter(help="Who decides.")]
    reason: Annotated[str, Parameter(help="Why, in words that hold years later.")]
    key: Annotated[
        str | None,
        Parameter(help="Its key: the same key is the same decision. Made up when not given."),
    ] = None
    wait: Annotated[
        str, Parameter(help="How long to wait for the outcome: 10s, 1m. It is sent in any case.")
    ] = "10s"
    config: ConfigFile = DEFAULT_CONFIG


Transfer = Annotated[TransferName, Parameter(help="A transfer, by its id: eip155:1/0x5c50…/log:0.")]
Order = Annotated[OrderReference, Parameter(help="An order's reference.")]
Subject = Annotated[str, Parameter(help="A chain, an asset or a route.")]


@app.command
async def assign(transfer: Transfer, order: Order, /, *, person: Person) -> int:
    """This transfer pays this order."""
    return await _send(Assign(transfer=transfer, reference=order), order, person)


@app.command
async def split(
    transfer: Transfer,
    parts: Annotated[list[str], Parameter(help="ORDER=AMOUNT, in base units, two or more.")],
    /,
    *,
    person: Person,
) -> int:
    """This transfer pays several orders; the parts add up to it exactly."""
    made = tuple(_part(text) for text in parts)
    return await _send(Split(transfer=transfer, parts=made), transfer, person)


@app.command
async def accept_short(order: Order, /, *, person: Person) -> int:
    """What came is enough for this order."""
    return await _send(AcceptShort(reference=order), order, person)


@app.command
async def revive(order: Order, /, *, person: Person) -> int:
    """Count late money for an order that ended expired or underpaid."""
    return await _send(Revive(reference=order), order, person)


@app.command
async def reject(transfer: Transfer, /, *, person: Person) -> int:
    """This transfer does not pay the order that it was given to."""
    return await _send(Reject(transfer=transfer), transfer, person)


@app.command
async def returned(
    transfer: Transfer,
    transaction: Annotated[str, Parameter(help="The transaction that sent it back.")],
    /,
    *,
    person: Person,
) -> int:
    """The money was sent back, by this transaction."""
    return await _send(Returned(transfer=transfer, tx=transaction), transfer, person)


@app.command
async def write_off(transfer: Transfer, /, *, person: Person) -> int:
    """Nobody will claim this transfer."""
    return await _send(WriteOff(transfer=transfer), transfer, person)


@app.command
async def close(
    exception: Annotated[str, Parameter(help="An exception's id.")], /, *, person: Person
) -> int:
    """This exception is settled."""
    return await _send(Close(exception=exception), exception, person)


@app.command
async def undo(
    decision: Annotated[str, Parameter(help="The key of an earlier decision.")],
    /,
    *,
    person: Person,
) -> int:
    """Take an earlier decision back."""
    return await _send(Undo(decision=decision), decision, person)


@app.command
async def hold(subject: Subject, /, *, person: Person) -> int:
    """Let facts flow, but neither confirm nor expire on this chain, asset or route."""
    return await _send(Hold(subject=subject), subject, person)


@app.command
async def release(subject: Subject, /, *, person: Person) -> int:
    """End a hold."""
    return await _send(Release(subject=subject), subject, person)


def _part(text: str) -> Part:
    order, equals, amount = text.partition("=")
    if not equals:
        raise BadArgument(f"expected ORDER=AMOUNT, found {text[:200]!r}")
    return Part(reference=OrderReference(order), amount=amount)


async def _send(action: Action, subject: str, person: Person) -> int:
    """Send the decision, show its key, and wait for its outcome."""
    settings, clock = load_settings(person.config), SystemClock()
    wait = read_wait(person.wait)
    key = person.key or f"cli-{derived_id(person.actor, repr(action), clock.now().isoformat())}"
    command = Decide(idempotency_key=key, actor=person.actor, reason=person.reason, action=action)
    message = _message_of(command, subject, settings, clock)
    async with open_database(settings) as engine, open_stream(settings, engine) as stream:
        sending = Sending(Store(engine), stream, command, message)
        await sending.send()
        put(key)
        return _told(await sending.outcome(wait, clock), person.wait)


def _message_of(command: Decide, subject: str, settings: Settings, clock: Clock) -> Outgoing:
    """Write a decision as a message to `orders`. **Raises**: `BadArgument` for one that is none."""
    for name in command.blanks:
        where = "TRANSACTION" if name == "transaction" else f"--{name}"
        raise BadArgument(f"{where}: expected words that hold years later, found none")
    try:
        return message_of(command, subject, settings=settings, clock=clock)
    except UnreadableMessage as error:
        if str(error).endswith("`$.action.transfer`"):
            expected = (
                "a transfer's id such as eip155:1/0x5c50…/log:0, which `export transfers` lists"
            )
            raise BadArgument(f"expected {expected}") from None
        raise BadArgument(f"not a decision: {error}") from None


def _told(outcome: Outcome, wait: str) -> int:
    """Say what became of a decision, and give the exit code: 0 only for one that holds."""
    if outcome.answer is Answer.REFUSED:
        say(f"refused: {outcome.why}")
        return NOT_WELL
    if outcome.answer is Answer.CARRIED_OUT:
        say("carried out")
        return DONE
    if outcome.answer is Answer.REPEATED:
        say("this key was used before; the same decision again changes nothing")
        return DONE
    say(
        f"the decision is sent and may still be carried out: nothing answered within {wait}; "
        "are an intake and a relay running? The same command with --key and the key above asks again"
    )
    return NOT_WELL
