"""Every command that is refused, by name: the bytes come back as they came, others are not touched.

Each bad one stands in a batch between two good ones; then all in one batch, on both databases.
"""

from __future__ import annotations

import json
from datetime import timedelta

import msgspec
import pytest
from sqlalchemy import select

from reconciler.services.apply_commands import reject_parked
from reconciler.services.context import PARKED_FOR
from reconciler.storage import tables
from reconciler.stream.promise import Lane, Record
from reconciler.stream.topics import ORDERS
from schemas.commands import AcceptShort, CancelOrder, ClaimPaid, PlaceOrder
from schemas.envelope import Envelope, to_headers
from tests.parts.world import SHARED, World, address

LANE = Lane(ORDERS, 0)
GOOD = {
    "idempotency_key": "bad",
    "reference": "o-9",
    "route": "own",
    "amount": "25000000",
    "address": address(9),
}
MANY_DIGITS = "9" * 78


def place(**changes: object) -> bytes:
    fields = {**GOOD, **changes}
    return json.dumps({k: v for k, v in fields.items() if v is not ...}).encode()


def decide(**action: object) -> bytes:
    body = {"idempotency_key": "bad", "actor": "ada", "reason": "r", "action": action}
    return json.dumps(body).encode()


def decide_by(**changes: str) -> bytes:
    body = json.loads(decide(action="hold", subject="eip155:1")) | changes
    return json.dumps(body).encode()


def order_command(**fields: object) -> bytes:
    return json.dumps({"idempotency_key": "bad", "reference": "o-1", **fields}).encode()


NO_TRANSFER = "eip155:1/0x00/log:0"
#: name, type, bytes, code. `o-1` is there and open, with nothing paid.
ROWS = [
    # Amounts.
    ("negative", "PlaceOrder", place(amount="-1"), "amount_negative"),
    ("negative, large", "PlaceOrder", place(amount="-" + MANY_DIGITS), "amount_negative"),
    ("fraction of a base unit", "PlaceOrder", place(amount="25.5"), "amount_fraction"),
    ("fraction with a comma", "PlaceOrder", place(amount="25,5"), "amount_fraction"),
    (
        "finer than the asset",
        "PlaceOrder",
        place(amount=..., amount_decimal="0.0000001"),
        "amount_fraction",
    ),
    ("exponent", "PlaceOrder", place(amount="1e6"), "amount_exponent"),
    ("exponent, capital, signed", "PlaceOrder", place(amount="25E+6"), "amount_exponent"),
    (
        "exponent in decimals",
        "PlaceOrder",
        place(amount=..., amount_decimal="1E-7"),
        "amount_exponent",
    ),
    ("zero", "PlaceOrder", place(amount="0"), "amount_zero"),
    ("zero in decimals", "PlaceOrder", place(amount=..., amount_decimal="0.000000"), "amount_zero"),
    ("leading zero", "PlaceOrder", place(amount="025000000"), "amount_malformed"),
    ("a plus", "PlaceOrder", place(amount="+25000000"), "amount_malformed"),
    ("digits of another script", "PlaceOrder", place(amount="٢٥٠٠٠٠٠٠"), "amount_malformed"),
    ("full-width digits", "PlaceOrder", place(amount="\uff12\uff15"), "amount_malformed"),
    ("empty", "PlaceOrder", place(amount=""), "amount_malformed"),
    ("a blank", "PlaceOrder", place(amount=" 25000000"), "amount_malformed"),
    ("a line break", "PlaceOrder", place(amount="25000000\n"), "amount_malformed"),
    ("hexadecimal", "PlaceOrder", place(amount="0x17d7840"), "amount_malformed"),
    ("underscores", "PlaceOrder", place(amount="25_000_000"), "amount_malformed"),
    ("not a number", "PlaceOrder", place(amount="NaN"), "amount_malformed"),
    ("below the minimum by one", "PlaceOrder", place(amount="9999"), "amount_below_minimum"),
    (
        "above what the asset holds by one",
        "PlaceOrder",
        place(amount="1000000000000001"),
        "amount_too_large",
    ),
    ("2^256 - 1", "PlaceOrder", place(amount=str(2**256 - 1)), "amount_too_large"),
    ("2^256", "PlaceOrder", place(amount=str(2**256)), "amount_too_large"),
    ("78 nines", "PlaceOrder", place(amount=MANY_DIGITS), "amount_too_large"),
    ("79 nines", "PlaceOrder", place(amount=MANY_DIGITS + "9"), "amount_too_large"),
    ("256 digits", "PlaceOrder", place(amount="9" * 256), "amount_too_large"),
    ("5,000 digits", "PlaceOrder", place(amount="9" * 5_000), "unreadable"),
    ("a JSON number", "PlaceOrder", place(amount=25000000), "unreadable"),
    ("a JSON float", "PlaceOrder", place(amount=25e6), "unreadable"),
    ("a JSON bool", "PlaceOrder", place(amount=True), "unreadable"),
    ("a JSON list", "PlaceOrder", place(amount=["25000000"]), "unreadable"),
    ("JSON null", "PlaceOrder", place(amount=None), "amount_missing"),
    ("no amount", "PlaceOrder", place(amount=...), "amount_missing"),
    ("both amounts", "PlaceOrder", place(amount_decimal="25"), "amount_missing"),
    # Addresses.
    (
        "wrong checksum",
        "PlaceOrder",
        place(address="0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"),
        "address_checksum",
    ),
    (
        "bech32",
        "PlaceOrder",
        place(address="bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
        "address_wrong_chain",
    ),
    (
        "bech32m",
        "PlaceOrder",
        place(address="bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"),
        "address_wrong_chain",
    ),
    (
        "tron",
        "PlaceOrder",
        place(address="TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
        "address_wrong_chain",
    ),
    (
        "base58",
        "PlaceOrder",
        place(address="1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"),
        "address_wrong_chain",
    ),
    ("short by one", "PlaceOrder", place(address=address(9)[:-1]), "address_malformed"),
    ("long by one", "PlaceOrder", place(address=address(9) + "0"), "address_malformed"),
    ("empty", "PlaceOrder", place(address=""), "address_malformed"),
    ("a name", "PlaceOrder", place(address="shop.eth"), "address_malformed"),
    ("the zero address", "PlaceOrder", place(address="0x" + "0" * 40), "address_malformed"),
    (
        "the token's own contract",
        "PlaceOrder",
        place(address="0xdAC17F958D2ee523a2206206994597C13D831ec7"),
        "address_malformed",
    ),
    ("another order's", "PlaceOrder", place(address=address(1)), "address_in_use"),
    (
        "another order's, in capitals",
        "PlaceOrder",
        place(address=address(1).upper().replace("0X", "0x")),
        "address_in_use",
    ),
    ("one that orders share", "PlaceOrder", place(address=SHARED), "address_in_use"),
    ("none", "PlaceOrder", place(address=...), "address_missing"),
    ("one where the route chooses", "PlaceOrder", place(route="shared"), "address_not_taken"),
    ("a JSON number", "PlaceOrder", place(address=9), "unreadable"),
    # The rest of an order.
    ("unknown route", "PlaceOrder", place(route="usdt-mars"), "unknown_route"),
    ("known reference", "PlaceOrder", place(reference="o-1"), "reference_in_use"),
    ("no reference", "PlaceOrder", place(reference=...), "unreadable"),
    ("a reference with a slash", "PlaceOrder", place(reference="o/9"), "unreadable"),
    ("a reference of 129", "PlaceOrder", place(reference="o" * 129), "unreadable"),
    ("no key", "PlaceOrder", place(idempotency_key=...), "unreadable"),
    ("an empty key", "PlaceOrder", place(idempotency_key=""), "unreadable"),
    ("a used key", "PlaceOrder", place(idempotency_key="good-1"), "idempotency_conflict"),
    (
        "a used key, for another command",
        "CancelOrder",
        order_command(idempotency_key="good-1", reason="r"),
        "idempotency_conflict",
    ),
    ("lines of 16 kB and more", "PlaceOrder", place(lines=["x" * 16_384]), "lines_too_large"),
    (
        "lines that are no UTF-8",
        "PlaceOrder",
        place(lines=["?"]).replace(b'"?"', b'"\xff"'),
        "unreadable",
    ),
    (
        "lines nested 10,000 deep",
        "PlaceOrder",
        place(lines=7).replace(b"7}", b"[" * 10_000 + b"]" * 10_000 + b"}"),
        "unreadable",
    ),
    ("a purchase with a NUL", "PlaceOrder", place(purchase="a\0b"), "unreadable"),
    (
        "a price with an exponent",
        "PlaceOrder",
        place(
            fiat={
                "currency": "EUR",
                "amount": "1e2",
                "rate": "1",
                "rate_source": "x",
                "rate_at": "2026-11-30T12:00:00Z",
            }
        ),
        "unreadable",
    ),
    (
        "a price of no zone",
        "PlaceOrder",
        place(
            fiat={
                "currency": "EUR",
                "amount": "1",
                "rate": "1",
                "rate_source": "x",
                "rate_at": "2026-11-30T12:00:00",
            }
        ),
        "unreadable",
    ),
    # Bytes.
    ("no bytes", "PlaceOrder", b"", "unreadable"),
    ("no JSON", "PlaceOrder", b"\xff\xfe\x00", "unreadable"),
    ("half of it", "PlaceOrder", place()[:40], "unreadable"),
    ("a list", "PlaceOrder", b"[]", "unreadable"),
    ("nested 100,000 deep", "PlaceOrder", b"[" * 100_000, "unreadable"),
    (
        "half a surrogate",
        "CancelOrder",
        order_command(reason="?").replace(b"?", rb"\ud800"),
        "unreadable",
    ),
    ("a NUL", "CancelOrder", order_command(reason="a\0b"), "unreadable"),
    ("a megabyte", "CancelOrder", order_command(reason="x" * 1_000_000), "unreadable"),
    ("unknown type", "PlaceOrders", place(), "unknown_type"),
    ("a type with a NUL", "Place\0Order", place(), "unknown_type"),
    ("a fact's type", "TransferSeen", place(), "unknown_type"),
    # Other commands.
    ("cancel with no reason", "CancelOrder", order_command(), "unreadable"),
    ("amend nothing", "AmendOrder", order_command(), "nothing_to_amend"),
    (
        "amend to an earlier deadline",
        "AmendOrder",
        order_command(deadline="2026-11-30T12:30:00Z"),
        "deadline_not_later",
    ),
    (
        "amend to the same deadline",
        "AmendOrder",
        order_command(deadline="2026-11-30T13:00:00Z"),
        "deadline_not_later",
    ),
    (
        "amend to the end of the calendar",
        "AmendOrder",
        order_command(deadline="9999-12-31T23:59:59Z"),
        "deadline_too_far",
    ),
    (
        "amend to before its beginning",
        "AmendOrder",
        order_command(deadline="0001-01-01T00:00:00+14:00"),
        "deadline_too_far",
    ),
    (
        "amend to a time of no zone",
        "AmendOrder",
        order_command(deadline="2026-12-01T00:00:00"),
        "unreadable",
    ),
    ("amend to zero", "AmendOrder", order_command(amount="0"), "amount_zero"),
    ("amend below the minimum", "AmendOrder", order_command(amount="9999"), "amount_below_minimum"),
    (
        "amend to both amounts",
        "AmendOrder",
        order_command(amount="30000000", amount_decimal="30"),
        "amount_missing",
    ),
    (
        "amend to too many lines",
        "AmendOrder",
        order_command(lines=["x" * 16_384]),
        "lines_too_large",
    ),
    # Decisions.
    (
        "no such transfer",
        "Decide",
        decide(action="assign", transfer=NO_TRANSFER, reference="o-1"),
        "unknown_transfer",
    ),
    ("no transfer id", "Decide", decide(action="reject", transfer="0x00"), "unreadable"),
    ("no such order", "Decide", decide(action="accept_short", reference="o-99"), "unknown_order"),
    (
        "nothing to accept",
        "Decide",
        decide(action="accept_short", reference="o-1"),
        "nothing_to_accept",
    ),
    ("revive an open order", "Decide", decide(action="revive", reference="o-1"), "not_revivable"),
    ("nobody decides", "Decide", decide_by(actor=" \u200b "), "actor_missing"),
    ("nobody knows why", "Decide", decide_by(reason="\t"), "reason_missing"),
    (
        "sent back by nothing",
        "Decide",
        decide(action="returned", transfer=NO_TRANSFER, tx=" "),
        "transaction_missing",
    ),
    ("no such decision", "Decide", decide(action="undo", decision="nothing"), "unknown_decision"),
    (
        "no such exception",
        "Decide",
        decide(action="close", exception="nothing"),
        "unknown_exception",
    ),
    (
        "hold what is nothing",
        "Decide",
        decide(action="hold", subject="mars"),
        "decision_not_possible",
    ),
    (
        "release what nothing holds",
        "Decide",
        decide(action="release", subject="own"),
        "decision_not_possible",
    ),
    ("an action that is none", "Decide", decide(action="forget"), "unreadable"),
    (
        "nobody decides",
        "Decide",
        decide(action="hold", subject="own").replace(b'"ada"', b'""'),
        "unreadable",
    ),
]


def raw(world: World, type_name: str, value: bytes, key: str = "o-9") -> Record:
    return world.raw(LANE, type_name, value, key=key)


async def good(world: World, number: int) -> Record:
    command = PlaceOrder(
        idempotency_key=f"good-{number}",
        reference=f"o-{number}",
        route="own",
        amount="25000000",
        address=address(number),
    )
    return world.record(LANE, f"o-{number}", command)


@pytest.mark.parametrize(
    ("type_name", "value", "code"),
    [row[1:] for row in ROWS],
    ids=[f"{row[1]}-{row[0]}".replace(" ", "-").replace("\0", "0") for row in ROWS],
)
async def test_bad_command_is_refused_by_name(
    quick_world: World, type_name: str, value: bytes, code: str
) -> None:
    world = quick_world
    await world.command_records([await good(world, 1)])
    bad = raw(world, type_name, value)
    done = await world.command_records([await good(world, 2), bad, await good(world, 3)])
    assert (done.applied, done.rejected) == (2, 1)
    assert await world.rejections() == [(code, value)]
    for order in ("o-1", "o-2", "o-3"):
        assert await world.kinds(order) == ["awaiting"]
    assert await world.events("o-9") == []


async def test_all_bad_commands_in_one_batch_and_the_good_ones_between_are_applied(
    world: World,
) -> None:
    await world.command_records([await good(world, 1)])
    records = []
    for number, (_, type_name, value, _) in enumerate(ROWS, start=100):
        records += [raw(world, type_name, value), await good(world, number)]
    done = await world.command_records(records)
    assert (done.applied, done.rejected) == (len(ROWS), len(ROWS))
    assert await world.rejections() == [(row[3], row[2]) for row in ROWS]
    assert len(await world.events()) == len(ROWS) + 1


async def test_refusal_keeps_key_headers_and_says_where_it_stood(world: World) -> None:
    headers = (*to_headers(Envelope(id="x", type="PlaceOrder", time=world.now)), ("shop", b"\xff"))
    record = Record(
        lane=LANE, offset=7, key=b"\x00\xff", value=b"{", headers=headers[:-1], time=world.now
    )
    world._offsets[LANE.name] = 8
    await world.command_records([record])
    async with world.engine.connect() as connection:
        row = (await connection.execute(select(tables.outbox))).one()
    assert (row.topic, row.key, row.value) == ("orders-rejected", b"\x00\xff", b"{")


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("ce_type", b"\xff"),),
        (("ce_id", b"1"),),
        (("ce_type", b"PlaceOrder"), ("ce_time", b"0001-01-01T00:00:00+14:00")),
        (("ce_type", b"PlaceOrder"), ("ce_sequence", b"9" * 5_000)),
    ],
    ids=["none", "no text", "no type", "a time before the calendar", "a number of 5,000 digits"],
)
async def test_strange_headers_stop_nothing(world: World, headers) -> None:
    record = Record(lane=LANE, offset=0, key=b"k", value=b"{", headers=headers, time=world.now)
    world._offsets[LANE.name] = 1
    done = await world.command_records([record, await good(world, 1)])
    assert (done.applied, done.rejected) == (1, 1)
    assert await world.rejections() == [("unreadable", b"{")]


async def test_same_key_and_content_is_a_repeat_and_other_content_a_conflict(world: World) -> None:
    claim = ClaimPaid(idempotency_key="c", reference="o-1")
    other = ClaimPaid(idempotency_key="c", reference="o-1", transaction="0x" + "ab" * 32)
    done = await world.command_records(
        [
            await good(world, 1),
            world.record(LANE, "o-1", claim),
            world.record(LANE, "o-1", claim),
            world.record(LANE, "o-1", other),
        ]
    )
    assert (done.applied, done.repeated, done.rejected) == (2, 1, 1)
    done = await world.commands(claim, claim)
    assert (done.applied, done.repeated) == (0, 2)
    assert [code for code, _ in await world.rejections()] == ["idempotency_conflict"]
    assert await world.kinds("o-1") == ["awaiting", "claimed"]


async def test_refused_key_is_free_again(world: World) -> None:
    await world.command_records([raw(world, "PlaceOrder", place(amount="0"))])
    await world.command_records([raw(world, "PlaceOrder", place())])
    assert await world.kinds("o-9") == ["awaiting"]


# Parked


async def test_command_waits_for_its_order(world: World) -> None:
    done = await world.commands(ClaimPaid(idempotency_key="c", reference="o-1"))
    assert done.parked == 1
    world.now += PARKED_FOR
    await world.command_records([await good(world, 1)])
    assert await world.kinds("o-1") == ["awaiting", "claimed"]


async def test_command_waits_no_longer_than_ten_minutes(world: World) -> None:
    await world.commands(ClaimPaid(idempotency_key="c", reference="o-1"))
    world.now += PARKED_FOR + timedelta(microseconds=1)
    await world.command_records([await good(world, 1)])
    assert await world.kinds("o-1") == ["awaiting"]
    assert [code for code, _ in await world.rejections()] == ["unknown_order"]


async def test_commands_wait_in_order_and_a_repeat_among_them_is_one(world: World) -> None:
    claim = ClaimPaid(idempotency_key="c", reference="o-1")
    cancel = CancelOrder(idempotency_key="x", reference="o-1", reason="r")
    await world.commands(claim, claim, cancel)
    await world.command_records([await good(world, 1)])
    assert await world.kinds("o-1") == ["awaiting", "claimed", "cancelled"]
    assert await world.rejections() == []


async def test_command_whose_order_never_comes_is_rejected_once(world: World) -> None:
    await world.commands(ClaimPaid(idempotency_key="c", reference="o-1"))
    await world.commands(ClaimPaid(idempotency_key="d", reference="o-2"))
    assert await reject_parked(world.store, world.context, before=world.now) == 0
    later = world.now + timedelta(microseconds=1)
    assert await reject_parked(world.store, world.context, before=later, limit=1) == 1
    assert await reject_parked(world.store, world.context, before=later) == 1
    assert await reject_parked(world.store, world.context, before=later) == 0
    assert [code for code, _ in await world.rejections()] == ["unknown_order"] * 2


# What an order's story refuses


async def test_confirmed_order_can_be_neither_amended_nor_cancelled(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, 25_000_000))
    await world.command_records(
        [
            raw(world, "CancelOrder", order_command(reason="r", force=True)),
            raw(world, "AmendOrder", order_command(amount="30000000", idempotency_key="b")),
        ]
    )
    assert [code for code, _ in await world.rejections()] == ["order_confirmed"] * 2
    await world.decide(AcceptShort(reference="o-1"))
    assert (await world.rejections())[-1][0] == "nothing_to_accept"


async def test_ended_order_can_be_neither_amended_nor_cancelled(world: World) -> None:
    await world.place()
    await world.pass_time(timedelta(minutes=61))
    await world.command_records(
        [
            raw(world, "CancelOrder", order_command(reason="r", force=True)),
            raw(world, "AmendOrder", order_command(amount="30000000", idempotency_key="b")),
        ]
    )
    assert [code for code, _ in await world.rejections()] == ["order_ended"] * 2


async def test_cancel_with_money_seen_is_refused_unless_forced(world: World) -> None:
    to = await world.place()
    await world.facts(world.ethereum.seen(to, 1_000_000, height=None))
    await world.commands(CancelOrder(idempotency_key="a", reference="o-1", reason="r"))
    assert [code for code, _ in await world.rejections()] == ["money_pending"]
    await world.commands(CancelOrder(idempotency_key="b", reference="o-1", reason="r", force=True))
    assert await world.kinds("o-1") == ["awaiting", "detected", "cancelled", "late"]


async def test_fourth_named_transaction_is_refused_and_a_fourth_press_is_not(world: World) -> None:
    await world.place()
    for number in range(4):
        await world.commands(
            ClaimPaid(
                idempotency_key=f"c-{number}",
                reference="o-1",
                transaction="0x" + f"{number:02x}" * 32,
            )
        )
    for number in range(20):
        await world.commands(ClaimPaid(idempotency_key=f"p-{number}", reference="o-1"))
    assert [code for code, _ in await world.rejections()] == ["too_many_claims"]
    assert len((await world.state("o-1")).claims) == 3


async def test_no_free_amount(world: World) -> None:
    for number in range(100, 100 + 90):
        await world.commands(
            PlaceOrder(
                idempotency_key=world.key(),
                reference=f"o-{number}",
                route="shared",
                amount="25000000",
            )
        )
    assert await world.rejections() == []
    await world.command_records([raw(world, "PlaceOrder", place(route="shared", address=...))])
    assert [code for code, _ in await world.rejections()] == ["no_free_amount"]
    assert await world.events("o-9") == []


async def test_customer_of_a_shared_address_is_never_asked_for_much_more(world: World) -> None:
    """One percent of 10.00 are ten steps of 0.01, of which nine can be told apart from a rounded one."""
    routes = world.context.routes
    routes["shared"] = msgspec.structs.replace(routes["shared"], steps_max=999, more_ppm=10_000)
    for number in range(100, 109):
        await world.place(f"o-{number}", amount=10_000_000, route="shared")
    dues = {int(event.due) for event in await world.events()}
    assert len(dues) == 9
    assert max(dues) <= 10_100_000
    for number, price in ((109, 10_000_000), (110, 500_000)):
        await world.place(f"o-{number}", amount=price, route="shared")
    found = await world.rejections()
    assert [code for code, _ in found] == ["no_free_amount"] * 2
