"""What goes onto the wire comes back equal, whatever it is."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.amounts import (
    AMOUNT_LIMIT,
    AmountError,
    BaseUnits,
    format_decimal_amount,
    parse_base_units,
    parse_decimal_amount,
)
from schemas.caip import ASSET_PATTERN, CHAIN_PATTERN, chain_of, parse_asset, parse_chain
from schemas.codec import ALL_KINDS, UnreadableMessage, decode, decode_as, encode
from schemas.envelope import Envelope, derived_id, from_headers, to_headers
from schemas.facts import Evidence, FoundBy, Leg, TransferSeen, Watermark
from schemas.values import BlockRef, split_transfer_id, transfer_id

amounts = st.integers(0, AMOUNT_LIMIT - 1).map(BaseUnits)
GENESIS = datetime(2009, 1, 3, tzinfo=UTC)

texts = st.text(max_size=40)
instants = st.datetimes(
    min_value=GENESIS.replace(tzinfo=None),
    max_value=(GENESIS + timedelta(days=36_500)).replace(tzinfo=None),
    timezones=st.just(UTC),
)
chains = st.from_regex(CHAIN_PATTERN, fullmatch=True)
assets = st.from_regex(ASSET_PATTERN, fullmatch=True)
transactions = st.from_regex(r"[^/ ]{1,64}", fullmatch=True)
numbers = st.integers(0, 10**6)
positions = st.one_of(
    st.just("value"),
    st.builds("log:{}".format, numbers),
    st.builds("out:{}".format, numbers),
    st.builds("bal:{}".format, numbers),
    st.lists(numbers, min_size=1, max_size=6).map(lambda way: "call:" + ".".join(map(str, way))),
)
blocks = st.builds(BlockRef, height=st.integers(0, 2**63), hash=texts, time=instants)
legs = st.builds(Leg, position=texts, sender=texts, to=texts, amount=amounts)
seen = st.builds(
    TransferSeen,
    transfer=st.builds(transfer_id, chains, transactions, positions),
    chain=chains,
    asset=assets,
    sender=texts,
    to=texts,
    amount=amounts,
    block=st.none() | blocks,
    first_seen_at=instants,
    evidence=st.builds(
        Evidence,
        method=texts,
        node=texts,
        block_log_index=st.none() | numbers,
        gross_legs=st.lists(legs, max_size=3).map(tuple),
    ),
    found_by=st.sampled_from(FoundBy),
    spends=st.lists(texts, max_size=3).map(tuple),
    nonce_of=st.none() | texts,
    coinbase=st.booleans(),
)


@given(amounts)
def test_every_amount_survives_the_wire(amount):
    assert parse_base_units(str(int(amount))) == amount


@given(st.integers(AMOUNT_LIMIT, AMOUNT_LIMIT * 1_000) | st.integers(max_value=-1))
def test_no_amount_outside_the_range_is_taken_or_clamped(number):
    with pytest.raises(AmountError):
        parse_base_units(str(number))


@given(amounts, st.integers(0, 36))
def test_an_amount_is_read_back_from_what_people_see(amount, decimals):
    assert parse_decimal_amount(format_decimal_amount(amount, decimals), decimals) == amount


@given(st.text(max_size=90))
def test_a_text_is_an_amount_or_a_refusal_by_name(text):
    try:
        amount = parse_base_units(text)
    except AmountError as refusal:
        code = refusal.code
    else:
        code = "amount_" if str(int(amount)) == text else "another amount"
    assert code.startswith("amount_")


@given(st.text(max_size=90), st.integers(0, 36))
def test_a_decimal_text_never_becomes_another_amount(text, decimals):
    try:
        amount = parse_decimal_amount(text, decimals)
    except AmountError:
        return
    whole, _, fraction = format_decimal_amount(amount, decimals).partition(".")
    their_whole, _, their_fraction = text.partition(".")
    assert their_whole == whole
    assert their_fraction.rstrip("0") == fraction.rstrip("0")


@given(seen)
def test_a_transfer_survives_the_wire_and_gives_the_same_bytes(transfer):
    value = encode(transfer)
    assert decode_as(TransferSeen, value) == transfer
    assert encode(decode_as(TransferSeen, value)) == value
    assert isinstance(decode_as(TransferSeen, value).amount, BaseUnits)


@given(seen)
def test_no_number_on_the_wire_is_an_amount(transfer):
    tree = msgspec.json.decode(encode(transfer))
    assert tree["amount"] == str(int(transfer.amount))
    assert all(isinstance(leg["amount"], str) for leg in tree["evidence"]["gross_legs"])


@given(st.binary(max_size=300), st.sampled_from(sorted(ALL_KINDS)))
def test_any_bytes_are_a_message_or_a_refusal(value, kind):
    try:
        said = repr(decode(kind, value, ALL_KINDS))
    except UnreadableMessage as refusal:
        said = str(refusal)
    assert said


@given(seen, st.data())
def test_a_damaged_message_is_another_message_or_a_refusal(transfer, data):
    value = bytearray(encode(transfer))
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] = data.draw(st.integers(0, 255))
    try:
        found = decode_as(TransferSeen, bytes(value))
    except UnreadableMessage:
        return
    assert 0 <= found.amount < AMOUNT_LIMIT


@given(
    st.builds(
        Envelope,
        id=texts,
        type=texts,
        time=instants,
        subject=st.none() | texts,
        sequence=st.none() | st.integers(0, 10**9),
    )
)
def test_an_envelope_survives_its_headers(envelope):
    later = envelope.time + timedelta(days=1)
    assert from_headers(to_headers(envelope), default_time=later) == envelope


@given(instants, st.integers(-14, 14))
def test_the_zone_of_a_header_changes_nothing(moment, hours):
    there = moment.astimezone(timezone(timedelta(hours=hours)))
    envelope = Envelope(id="x", type="t", time=there)
    assert to_headers(envelope) == to_headers(Envelope(id="x", type="t", time=moment))


@given(st.lists(st.text(alphabet="ab", max_size=3), max_size=4))
def test_a_derived_id_is_a_function_of_its_parts(parts):
    assert derived_id(*parts) == derived_id(*list(parts))
    assert derived_id(*parts) != derived_id(*parts, "more")


@given(chains)
def test_a_canonical_chain_stays_itself(chain):
    assert parse_chain(parse_chain(chain)) == parse_chain(chain)


@given(assets)
def test_an_asset_lives_on_the_chain_that_it_names(asset):
    assert parse_asset(asset).startswith(chain_of(parse_asset(asset)) + "/")


@given(chains, transactions, positions)
def test_a_transfer_id_is_taken_apart_as_it_was_put_together(chain, transaction, position):
    name = transfer_id(chain, transaction, position)
    assert split_transfer_id(name) == (chain, transaction, position)


@given(instants, st.integers(0, 2**63))
def test_a_watermark_survives_the_wire(moment, height):
    mark = Watermark(
        chain="eip155:1",
        from_height=height,
        height=height,
        hash="0x1",
        parent_hash="0x0",
        time=moment,
        finalized_height=0,
        read_at=moment,
        log_id="l",
        watchlist_upto=0,
    )
    assert decode_as(Watermark, encode(mark)) == mark
