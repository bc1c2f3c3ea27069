from datetime import UTC, datetime, timedelta, timezone

import pytest

from schemas.envelope import (
    Envelope,
    EnvelopeError,
    derived_id,
    format_instant,
    from_headers,
    to_headers,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def read(*headers):
    return from_headers(tuple(headers), default_time=NOON)


def test_an_envelope_is_read_back_as_it_was_written():
    envelope = Envelope(id="x", type="payment.confirmed", time=NOON, subject="ord-1", sequence=4)
    headers = to_headers(envelope)
    assert dict(headers)["content-type"] == b"application/json"
    assert from_headers(headers, default_time=NOON + timedelta(1)) == envelope


def test_what_is_not_there_is_not_written():
    names = [name for name, _ in to_headers(Envelope(id="x", type="t", time=NOON))]
    assert "ce_subject" not in names
    assert "ce_sequence" not in names


def test_a_shops_client_may_send_no_more_than_the_type():
    assert read(("ce_type", b"PlaceOrder")) == Envelope(id="", type="PlaceOrder", time=NOON)


def test_header_names_have_no_letter_case():
    assert read(("CE_Type", b"PlaceOrder"), ("Ce_Id", b"7")).id == "7"


@pytest.mark.parametrize("headers", [[], [("ce_id", b"1")], [("type", b"PlaceOrder")]])
def test_a_message_without_a_type_is_no_event(headers):
    with pytest.raises(EnvelopeError, match="ce_type"):
        read(*headers)


def test_a_header_that_is_no_utf8_is_refused():
    with pytest.raises(EnvelopeError, match="UTF-8"):
        read(("ce_type", b"\xff"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"2026-11-30T13:00:00Z", NOON + timedelta(hours=1)),
        (b"2026-11-30T13:00:00+01:00", NOON),
        (b"2026-11-30T13:00:00", NOON),
        (b"yesterday", NOON),
        (b"", NOON),
    ],
)
def test_a_time_that_says_nothing_gives_way_to_the_records_own(text, expected):
    found = read(("ce_type", b"t"), ("ce_time", text)).time
    assert found == expected
    assert found.utcoffset() == timedelta()


@pytest.mark.parametrize("text", [b"", b"-1", b"1.5", b"x", "²".encode()])
def test_a_sequence_that_is_no_number_is_none(text):
    assert read(("ce_type", b"t"), ("ce_sequence", text)).sequence is None


def test_an_instant_is_written_in_utc_with_a_z():
    moment = datetime(2026, 11, 30, 13, tzinfo=timezone(timedelta(hours=1)))
    assert format_instant(moment) == "2026-11-30T12:00:00Z"


def test_a_derived_id_depends_on_every_part_and_on_where_parts_end():
    ids = {
        derived_id(),
        derived_id(""),
        derived_id("ab"),
        derived_id("a", "b"),
        derived_id("b", "a"),
    }
    assert len(ids) == 4, "no part and one empty part are the only two that are equal"
    assert derived_id("a", "b") == derived_id("a", "b")
    assert all(len(identity) == 32 for identity in ids)
