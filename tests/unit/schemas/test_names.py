"""CAIP names, transfer ids, references: what is one and what is not."""

import msgspec
import pytest

from schemas.caip import (
    AssetId,
    CaipError,
    ChainId,
    asset_kind,
    asset_reference,
    chain_of,
    family_of,
    parse_asset,
    parse_chain,
    topic_token,
)
from schemas.values import (
    DecimalText,
    IdempotencyKey,
    Reference,
    TransferId,
    split_transfer_id,
    transfer_id,
)

USDT = "eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7"


@pytest.mark.parametrize(
    "text",
    [
        "eip155:1",
        "bip122:000000000019d6689c085ae165831e93",
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        "tron:0x2b6653dc",
    ],
)
def test_chains_are_kept_as_they_are_written(text):
    assert parse_chain(text) == text


@pytest.mark.parametrize("alias", ["tron:728126428", "tron:mainnet"])
def test_trons_other_names_are_the_same_chain(alias):
    assert parse_chain(alias) == "tron:0x2b6653dc"
    asset = parse_asset(f"{alias}/slip44:195")
    assert asset == "tron:0x2b6653dc/slip44:195"


@pytest.mark.parametrize(
    "text", ["", "eip155", "eip155:", ":1", "EIP155:1", "eip155:1\n", "eip155:1/slip44:60", "ei:1"]
)
def test_what_is_no_chain_is_refused_with_what_was_found(text):
    with pytest.raises(CaipError, match="CAIP-2"):
        parse_chain(text)


@pytest.mark.parametrize("text", ["", "eip155:1", "eip155:1/", USDT + "\n", "USDT", USDT + "/1/2"])
def test_what_is_no_asset_is_refused(text):
    with pytest.raises(CaipError, match="CAIP-19"):
        parse_asset(text)


def test_an_asset_knows_its_chain_kind_and_reference():
    assert parse_asset(USDT) == USDT
    assert chain_of(USDT) == "eip155:1"
    assert asset_kind(USDT) == "erc20"
    assert asset_reference(USDT) == "0xdAC17F958D2ee523a2206206994597C13D831ec7"
    assert (asset_kind("eip155:1/slip44:60"), asset_reference("eip155:1/slip44:60")) == (
        "slip44",
        "60",
    )


def test_evm_chains_are_one_family_and_every_other_chain_its_own():
    assert family_of("eip155:1") == family_of("eip155:137") == "eip155"
    assert family_of("bip122:12a765e31ffd4059bada1e25190f6e98") != family_of("bip122:1a91e3dace36")


def test_a_topic_name_has_no_colon():
    assert topic_token("eip155:1") == "eip155-1"


@pytest.mark.parametrize(
    "position", ["out:3", "log:0", "value", "call:0", "call:0.2", "call:10.0.7", "bal:4"]
)
def test_a_transfers_id_is_its_chain_transaction_and_position(position):
    name = transfer_id("eip155:1", "0xabc", position)
    assert msgspec.convert(name, TransferId) == name
    assert split_transfer_id(name) == ("eip155:1", "0xabc", position)


@pytest.mark.parametrize(
    "name",
    [
        "eip155:1/0xabc",
        "eip155:1/0xabc/log",
        "eip155:1/0xabc/log:-1",
        "eip155:1/0xabc/log:1\n",
        "eip155:1/0xabc/value:1",
        "eip155:1/0xabc/call:0.",
        "eip155:1//value",
        "eip155:1/0x a/value",
        "1/0xabc/value",
        "",
    ],
)
def test_another_text_is_no_transfers_id(name):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(name, TransferId)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ChainId, "eip155:1"),
        (AssetId, USDT),
        (Reference, "ORD-2026.11:30_a@b+c~d"),
        (IdempotencyKey, "any!printable#key"),
        (DecimalText, "46.90"),
    ],
)
def test_a_line_break_behind_a_good_text_makes_it_a_bad_one(kind, text):
    assert msgspec.convert(text, kind) == text
    for bad in (text + "\n", "\n" + text, text + " ", text + "\x00"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(bad, kind)


@pytest.mark.parametrize("text", ["", "a b", "a/b", "é", "x" * 129, "<script>"])
def test_a_reference_can_stand_in_a_log_a_url_and_a_statement(text):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, Reference)
