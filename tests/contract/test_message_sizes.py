"""The largest message that anybody can make us send fits into its topic, and is what was promised.

A message that the log does not take would stand before every other one of its relay.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from sqlalchemy import select

from reconciler.config.tables import Intake, RouteTable
from reconciler.matcher.match import SUGGESTIONS_MAX
from reconciler.services.announce import TRANSFERS_TOLD_MAX
from reconciler.storage import tables
from reconciler.stream.checks import message_bytes
from reconciler.stream.promise import MESSAGE_BYTES_MAX, Lane, Outgoing
from reconciler.stream.topics import (
    ORDERS,
    ORDERS_REJECTED,
    PAYMENT_EVENTS,
    PAYMENT_EXCEPTIONS,
    topic_specs,
)
from schemas.amounts import AMOUNT_LIMIT, BaseUnits
from schemas.codec import decode_as, encode
from schemas.codes import (
    AmountState,
    Attention,
    ClaimEnd,
    ExceptionKind,
    MatchRule,
    Phase,
    TransferState,
)
from schemas.commands import CancelOrder, ClaimPaid, Close, Part, Split
from schemas.envelope import Envelope, to_headers
from schemas.events import (
    CoverageSeen,
    EventClaim,
    EventKind,
    EventTransfer,
    PaymentEvent,
    PaymentException,
    Suggestion,
)
from schemas.values import BlockRef, FiatTerms, Message
from tests.parts.world import SHARED, START, World, address


def limit_of(table: type, setting: str) -> int:
    """Give the most that a setting may be."""
    hint = get_type_hints(table, include_extras=True)[setting]
    (meta,) = (each for each in get_args(hint) if isinstance(each, msgspec.Meta))
    assert isinstance(meta.le, int)
    return meta.le


#: JSON writes a control character in six bytes, and nothing in more.
WORST = "\x01"
SHORT, LONG = WORST * 256, WORST * 2_000
MOST = BaseUnits(AMOUNT_LIMIT - 1)
CHAIN = f"{'c' * 8}:{'C' * 32}"
ASSET = f"{CHAIN}/{'a' * 8}:{'A' * 128}"
TRANSFER = f"{CHAIN}/{'t' * 128}/call:{'7' * 80}"[:256]
REFERENCE = "r" * 128
HEIGHT = 2**63 - 1
LINES_BYTES_MAX = limit_of(Intake, "lines_bytes_max")
#: One without a word, then each named transaction and each named sender.
CLAIMS_MAX = 1 + 2 * limit_of(RouteTable, "claims_max")


def largest_event() -> PaymentEvent:
    block = BlockRef(height=HEIGHT, hash="h" * 256, time=START)  # a chain's word, in plain letters
    transfer = EventTransfer(
        transfer=TRANSFER,
        asset=ASSET,
        amount=MOST,
        counted=MOST,
        state=max(TransferState, key=len),
        block=block,
        depth=HEIGHT,
        depth_required=HEIGHT,
        in_time=False,
        rule=max(MatchRule, key=len),
        reason=SHORT,
    )
    claim = EventClaim(claimed_at=START, transaction=SHORT, end=max(ClaimEnd, key=len))
    decimal = f"{'9' * 78}.{'9' * 77}"
    return PaymentEvent(
        order=REFERENCE,
        purchase=SHORT,
        sequence=HEIGHT,
        kind=max(EventKind, key=len),
        phase=max(Phase, key=len),
        amount_state=max(AmountState, key=len),
        attention=tuple(Attention),
        route=SHORT,
        chain=CHAIN,
        asset=ASSET,
        decimals=HEIGHT,
        due=MOST,
        received_final=MOST,
        received_pending=MOST,
        missing=MOST,
        excess=MOST,
        address=SHORT,
        payment_uri=LONG,
        page_token=SHORT,
        deadline=START,
        open_until=START,
        transfers=(transfer,) * TRANSFERS_TOLD_MAX,
        claims=(claim,) * CLAIMS_MAX,
        coverage=CoverageSeen(chain=CHAIN, height=HEIGHT, time=START),
        restores=HEIGHT,
        reason=SHORT,
        occurred_at=START,
        fiat=FiatTerms(
            currency="EUR", amount=decimal, rate=decimal, rate_source=SHORT, rate_at=START
        ),
        lines=msgspec.Raw(b'"' + b"x" * (LINES_BYTES_MAX - 2) + b'"'),
    )


def largest_exception() -> PaymentException:
    return PaymentException(
        exception=SHORT,
        kind=max(ExceptionKind, key=len),
        subject=SHORT,
        open=False,
        revision=HEIGHT,
        sentence=LONG,
        chain=CHAIN,
        asset=ASSET,
        amount=MOST,
        transfer=TRANSFER,
        order=REFERENCE,
        suggestions=(Suggestion(order=REFERENCE, reason=LONG),) * SUGGESTIONS_MAX,
        opened_at=START,
        closed_at=START,
        closed_by=LONG,
    )


@pytest.mark.parametrize(
    ("topic", "largest"),
    [(PAYMENT_EVENTS, largest_event()), (PAYMENT_EXCEPTIONS, largest_exception())],
    ids=["event", "exception"],
)
def test_the_largest_message_that_a_schema_and_the_settings_allow_fits(
    topic: str, largest: Message
) -> None:
    assert decode_as(type(largest), encode(largest)) == largest
    envelope = Envelope(
        id="i" * 32, type="payment.partially_paid", time=START, subject=SHORT, sequence=HEIGHT
    )
    message = Outgoing(
        lane=Lane(topic, 0),
        key=REFERENCE.encode(),
        value=encode(largest),
        headers=to_headers(envelope),
    )
    assert message_bytes(message) < MESSAGE_BYTES_MAX


@pytest.fixture
async def world():
    made = await World.open()
    yield made
    await made.close()


async def outbox(world: World, topic: str) -> list[Outgoing]:
    columns = tables.outbox.c
    async with world.engine.connect() as connection:
        found = await connection.execute(
            select(columns.key, columns.value, columns.headers)
            .where(columns.topic == topic)
            .order_by(columns.id)
        )
        return [
            Outgoing(
                lane=Lane(topic, 0),
                key=key,
                value=value,
                headers=tuple(msgspec.msgpack.decode(headers, type=list[tuple[str, bytes]])),
            )
            for key, value, headers in found
        ]


async def test_an_order_of_the_largest_lines_paid_by_hundreds_of_transfers(world: World) -> None:
    world.context.lines_bytes_max = LINES_BYTES_MAX
    lines = msgspec.Raw(json.dumps("x" * (LINES_BYTES_MAX - 2)).encode())
    to = await world.place("o-1", lines=lines)
    tx = f"0x{'1' * 64}"
    for start in range(0, TRANSFERS_TOLD_MAX + 50, 50):
        seen = [
            world.ethereum.seen(to, 1_000_000, tx=tx, position=f"log:{number}")
            for number in range(start, start + 50)
        ]
        await world.mine(1, *seen)
    for number in range(5):
        claim = {"transaction": f"0x{number:064x}", "sender": address(number + 100)}
        await world.commands(ClaimPaid(idempotency_key=world.key(), reference="o-1", **claim))
    await world.mine(4)
    sent = await outbox(world, PAYMENT_EVENTS)
    events = [decode_as(PaymentEvent, message.value or b"") for message in sent]
    assert events[-1].phase is Phase.CONFIRMED
    assert len(events[-1].transfers) == TRANSFERS_TOLD_MAX
    assert max(message_bytes(message) for message in sent) < MESSAGE_BYTES_MAX


async def test_the_longest_words_of_a_shop_and_of_a_person_are_cut_to_what_is_promised(
    world: World,
) -> None:
    to = await world.place("o-1")
    await world.place("o-2", amount=1_000_000)
    await world.place("o-3", route="shared")
    stray = world.ethereum.seen(SHARED, 2_000_000)
    await world.mine(4, world.ethereum.seen(to, 30_000_000), stray)
    exceptions = await world.open_exceptions()
    assert {"overpaid", "unmatched"} <= set(exceptions)
    longest: dict[str, Any] = {"actor": "A" + WORST * 199, "reason": "R" + LONG[1:]}
    await world.decide(Close(exception=exceptions["overpaid"].exception), **longest)
    parts = tuple(Part(reference=order, amount="1000000") for order in ("o-1", "o-2"))
    await world.decide(Split(transfer=stray.transfer, parts=parts), **longest)
    cancel = CancelOrder(idempotency_key=world.key(), reference="o-3", reason=LONG)
    await world.commands(cancel)
    await world.mine(2)
    events = await world.events()
    assert events[-1].order in {"o-1", "o-2", "o-3"}
    (cancelled,) = [e for e in events if e.kind is EventKind.CANCELLED]
    assert cancelled.reason == f"{LONG[:255]}…"
    assert any(t.rule is MatchRule.DECISION for e in events for t in e.transfers)
    closed_by = {e.kind.value: e.closed_by for e in await world.exceptions() if e.closed_by}
    assert len(closed_by["overpaid"]) == 2_000


REJECTED_BYTES_MAX = next(
    spec.message_bytes_max for spec in topic_specs({}, []) if spec.name == ORDERS_REJECTED
)


async def test_the_largest_message_that_orders_takes_is_given_back_whole(world: World) -> None:
    lane = Lane(ORDERS, 0)
    record = world.raw(lane, "PlaceOrder", b"", key="k" * 2_000)
    plain = Outgoing(lane=lane, key=record.key, value=b"", headers=record.headers)
    room = MESSAGE_BYTES_MAX - message_bytes(plain)
    record = msgspec.structs.replace(record, value=b"x" * room)
    await world.command_records([record])
    (sent,) = await outbox(world, ORDERS_REJECTED)
    assert (sent.key, sent.value) == (record.key, record.value)
    assert sent.headers[: len(record.headers)] == record.headers
    assert "rejected_bytes" not in dict(sent.headers)
    assert message_bytes(sent) < REJECTED_BYTES_MAX


@pytest.mark.parametrize("what", ["value", "key", "one header", "many headers", "type"])
async def test_a_refused_message_that_is_too_large_is_cut_and_says_so(
    world: World, what: str
) -> None:
    """A log that packs messages takes larger ones than it would give back."""
    large = b"x" * (3 * MESSAGE_BYTES_MAX)
    plain = world.raw(Lane(ORDERS, 0), "PlaceOrder", b"not a command")
    changes = {
        "value": {"value": large},
        "key": {"key": large},
        "one header": {"headers": (("trace", large), *plain.headers)},
        "many headers": {
            "headers": (*plain.headers, *((f"h{n}", b"x" * 99) for n in range(9_999)))
        },
        "type": {"headers": to_headers(Envelope(id="", type="T" * 3_000_000, time=START))},
    }
    record = msgspec.structs.replace(plain, **changes[what])
    await world.command_records([record])
    (sent,) = await outbox(world, ORDERS_REJECTED)
    assert message_bytes(sent) < REJECTED_BYTES_MAX
    headers = dict(sent.headers)
    assert headers["rejected_bytes"] == str(len(record.value or b"")).encode()
    assert headers["rejected_sha256"] == hashlib.sha256(record.value or b"").hexdigest().encode()
    assert (record.value or b"").startswith(sent.value or b"")
    assert record.key.startswith(sent.key)
