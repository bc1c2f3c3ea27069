"""Work that was done on another chain's block counts for the one block that it commits to."""

import struct

import pytest
from msgspec.structs import replace

from chains.catalog import CatalogueError
from chains.errors import AnswerRefused
from chains.utxo.block import read_block
from chains.utxo.networks import NETWORKS
from chains.utxo.rules import DOGECOIN, RULES, rules_of
from schemas.caip import ChainName
from tests.parts.utxo_blocks import (
    EASY_DOGECOIN,
    Everything,
    block_of,
    coinbase,
    expected_slot,
    header_over,
    merged_work,
    work_on,
)
from tests.parts.utxo_reference import number, twice

MERGED = 0x0062_0102
ONE = coinbase(9)
BODY = number(1) + ONE.full()
HEADER = header_over(ONE.txid(), version=MERGED)


def read(work: bytes, header: bytes = HEADER):
    return read_block(header + work + BODY, EASY_DOGECOIN, Everything())


@pytest.mark.parametrize("height", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("nonce", [0, 7, 2**32 - 1])
def test_a_parent_s_work_counts(height, nonce):
    assert read(merged_work(HEADER, height=height, nonce=nonce)).txids == [ONE.txid()]


def test_a_parent_s_coinbase_may_have_witnesses_and_old_ones_name_no_chain_merge_mined():
    assert read(merged_work(HEADER, witness=True)).paid
    assert read(merged_work(HEADER, magic=b"", before=b"\x03abc")).paid


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"before": b"\xfa\xbemm"}, "does not commit"),
        ({"magic": b"", "before": b"\x03" * 21}, "does not commit"),
        ({"magic": b"\xfa\xbemm\x00"}, "does not commit"),
        ({"behind": b"\xfa\xbemm"}, "does not commit"),
        ({"size": 8, "nonce": 0}, "does not commit"),
        ({"slot": expected_slot(7, 0x62, 2) ^ 1}, "does not commit"),
        ({"slot": expected_slot(7, 0x62, 2) + 4}, "does not commit"),
        ({"behind": b"", "cut": -1}, "does not commit"),
        ({"parent_version": MERGED}, "of the same chain"),
    ],
)
def test_a_parent_that_could_work_for_two_blocks_is_refused(parts, words):
    with pytest.raises(AnswerRefused, match=words):
        read(merged_work(HEADER, **parts))


def test_work_for_another_block_is_refused():
    other = header_over(twice(b"other"), version=MERGED)
    with pytest.raises(AnswerRefused, match="does not commit"):
        read(merged_work(other))


def test_work_of_another_coinbase_or_parent_is_refused():
    work = merged_work(HEADER)
    with pytest.raises(AnswerRefused, match="not in the parent"):
        read(work[:60] + bytes([work[60] ^ 1]) + work[61:])
    parent = work[-80:]
    with pytest.raises(AnswerRefused, match="not in the parent"):
        read(work[:-80] + work_on(parent[:36] + bytes(32) + parent[68:]))


def test_a_parent_without_the_work_that_our_block_asks_for_is_refused():
    hard = HEADER[:72] + struct.pack("<I", 0x1D00FFFF) + HEADER[76:]
    with pytest.raises(AnswerRefused, match="work is"):
        read(merged_work(hard), hard)


def test_a_place_in_the_parent_other_than_the_first_is_refused():
    work = bytearray(merged_work(HEADER))
    at = len(work) - 80 - 4 - 64 - 1 - 4
    assert work[at : at + 4] == bytes(4)
    work[at] = 4
    with pytest.raises(AnswerRefused, match="not in the parent"):
        read(bytes(work))


def test_branches_of_impossible_length_are_refused():
    work = merged_work(HEADER)
    at = len(work) - 80 - 4 - 64 - 1
    assert work[at] == 2
    with pytest.raises(AnswerRefused, match="too long"):
        read(work[:at] + b"\x1f" + bytes(31 * 32) + work[at + 1 :])


def test_a_header_of_another_chain_is_refused():
    with pytest.raises(AnswerRefused, match="another chain"):
        read_block(block_of([ONE], version=0x0063_0002), EASY_DOGECOIN, Everything())
    assert read_block(block_of([ONE], version=2), EASY_DOGECOIN, Everything()).paid


def test_a_test_network_may_name_any_chain():
    loose = replace(EASY_DOGECOIN, auxpow_strict=False)
    data = block_of([ONE], version=0x0063_0002)
    assert read_block(data, loose, Everything()).paid


def test_every_network_has_its_rules():
    assert set(RULES) == set(NETWORKS)
    for chain, network in NETWORKS.items():
        rules = rules_of(chain)
        assert rules.money_max == network.money_max
        assert rules.segwit == (network.hrp is not None)
        assert (rules.target_max > DOGECOIN.target_max) == ("regtest" in network.name)
    with pytest.raises(CatalogueError, match="eip155:1"):
        rules_of(ChainName("eip155:1"))
