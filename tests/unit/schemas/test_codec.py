import json
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from schemas.codec import (
    ALL_KINDS,
    COMMAND_KINDS,
    FACT_KINDS,
    UnknownKind,
    UnreadableMessage,
    decode,
    decode_as,
    encode,
)
from schemas.commands import AmendOrder, CancelOrder, PlaceOrder
from schemas.facts import TransferSeen, Watermark
from schemas.values import utc
from tests.parts.scripted_loop import address_number, seen, watermark

SEEN = json.loads(encode(seen(1, address_number(1), 5)))


def bad_transfer(**changes):
    return json.dumps(SEEN | changes).encode()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", ["truncated"]),
        (b"{", ["truncated"]),
        (b"null", ["object", "null"]),
        (b"[]", ["object", "array"]),
        (b"\xff\xfe", ["invalid character"]),
        (b"[" * 100_000, []),
        (bad_transfer(amount=1), ["digits in a string", "int", "$.amount"]),
        (bad_transfer(amount=1.5), ["digits in a string", "float"]),
        (bad_transfer(amount="1e18"), ["1e18"]),
        (bad_transfer(amount="-1"), ["-1"]),
        (bad_transfer(amount=str(2**256)), ["115792089237316195423570985008687907853"]),
        (bad_transfer(first_seen_at="2026-11-30T12:00:00"), ["first_seen_at"]),
        (bad_transfer(found_by="guess"), ["guess", "$.found_by"]),
        (bad_transfer(chain="Ethereum"), ["$.chain"]),
        (
            bad_transfer(block={"height": -1, "hash": "0x", "time": "2026-11-30T12:00:00Z"}),
            ["height"],
        ),
    ],
)
def test_a_message_that_cannot_be_read_says_where_and_why(value, words):
    with pytest.raises(UnreadableMessage) as refused:
        decode("TransferSeen", value, FACT_KINDS)
    for word in words:
        assert word in str(refused.value)


def test_an_unknown_kind_is_named_with_those_that_are_known():
    with pytest.raises(UnknownKind, match=r"CancelOrder.*found 'TransferSeen'"):
        decode("TransferSeen", b"{}", COMMAND_KINDS)


def test_equal_messages_give_equal_bytes_in_whatever_order_they_came():
    value = encode(seen(1, address_number(1), 5))
    shuffled = json.dumps(dict(reversed(SEEN.items())), indent=3).encode()
    assert encode(decode_as(TransferSeen, shuffled)) == value
    assert value == encode(decode_as(TransferSeen, value))


def test_an_instant_of_another_zone_is_the_same_instant_once_it_is_utc():
    moment = datetime(2026, 11, 30, 13, tzinfo=timezone(timedelta(hours=1)))
    assert utc(moment) == moment
    assert utc(moment).tzinfo is UTC
    with pytest.raises(ValueError, match="aware"):
        utc(moment.replace(tzinfo=None))


def test_lines_are_carried_as_they_came():
    value = b'{"idempotency_key":"k","reference":"o","route":"r","lines":[ {"a" : 1.50} ]}'
    order = decode_as(PlaceOrder, value)
    assert bytes(order.lines) == b'[ {"a" : 1.50} ]'
    assert b'[ {"a" : 1.50} ]' in encode(order)


@pytest.mark.parametrize(
    ("lines", "expected"), [(b"", None), (b',"lines":null', None), (b',"lines":[1]', b"[1]")]
)
def test_an_amendment_has_new_lines_or_leaves_them(lines, expected):
    value = b'{"idempotency_key":"k","reference":"o"' + lines + b"}"
    found = decode_as(AmendOrder, value).lines
    assert (None if found is None else bytes(found)) == expected


def test_an_order_without_lines_has_none():
    assert (
        bytes(decode_as(PlaceOrder, b'{"idempotency_key":"k","reference":"o","route":"r"}').lines)
        == b"[]"
    )


def test_a_decision_without_a_reason_is_unreadable():
    value = b'{"idempotency_key":"k","actor":"Ana","reason":"","action":{"action":"undo","decision":"d"}}'
    with pytest.raises(UnreadableMessage, match=r"\$\.reason"):
        decode("Decide", value, COMMAND_KINDS)
    with pytest.raises(UnreadableMessage, match=r"\$\.action"):
        decode(
            "Decide", value.replace(b'"undo"', b'"invent"').replace(b'""', b'"x"'), COMMAND_KINDS
        )


def test_messages_are_frozen():
    with pytest.raises(AttributeError):
        watermark(5).height = 6


def test_a_forced_cancellation_is_a_word_not_a_number():
    value = b'{"idempotency_key":"k","reference":"o","reason":"r","force":1}'
    with pytest.raises(UnreadableMessage, match=r"\$\.force"):
        decode_as(CancelOrder, value)


def test_every_kind_has_a_decoder_of_its_own():
    for kind in set(ALL_KINDS.values()):
        with pytest.raises(UnreadableMessage):
            decode_as(kind, b"[]")
    assert decode_as(Watermark, encode(watermark(5))) == watermark(5)


def test_deep_nesting_is_refused_whatever_pythons_own_limit_is() -> None:
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        with pytest.raises(UnreadableMessage, match="nested deeper"):
            decode("ClaimPaid", b"[" * 100_000, COMMAND_KINDS)
    finally:
        sys.setrecursionlimit(usual)


def test_many_brackets_side_by_side_and_in_text_are_no_nesting() -> None:
    row = b'{"a":"[[[\\"{{"}'
    value = b'{"idempotency_key":"a","reference":"o-1","x":[' + b",".join([row] * 3_000) + b"]}"
    assert decode("ClaimPaid", value, COMMAND_KINDS)
