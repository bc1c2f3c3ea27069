"""Headers in memory: the median of eleven, heights that fit, targets that may follow each other."""

from __future__ import annotations

import random
import statistics
from datetime import UTC, datetime

import pytest

from chains.errors import AnswerRefused
from chains.utxo.header import may_follow, target_of
from chains.utxo.headers import MEDIAN_SPAN, HeaderMemory, PlacedHeader, told_header
from chains.utxo.mined import MinedLately
from chains.utxo.networks import (
    BITCOIN_REGTEST,
    BITCOIN_SIGNET,
    BITCOIN_TESTNET3,
    DOGECOIN_TESTNET,
    LITECOIN_TESTNET,
)
from chains.utxo.rules import BITCOIN, DOGECOIN, LITECOIN, rules_of

BITS = 0x1701_0000


def line(times: list[int], *, first: int = 100, bits: int = BITS) -> list[PlacedHeader]:
    return [
        PlacedHeader(
            hash=f"{height:064x}",
            parent_hash=f"{height - 1:064x}",
            height=height,
            time_s=time,
            bits=bits,
        )
        for height, time in enumerate(times, first)
    ]


def memory_of(headers: list[PlacedHeader], **more: int) -> HeaderMemory:
    memory = HeaderMemory(BITCOIN, **more)
    for header in headers:
        memory.add(header)
    return memory


def test_coverage_time_is_the_median_of_the_last_eleven_whatever_their_order():
    lot = random.Random(7)
    times = [lot.randrange(2_000_000_000) for _ in range(50)]
    headers = line(times)
    memory = memory_of(headers)
    for at in range(MEDIAN_SPAN - 1, len(headers)):
        found, missing = memory.line_of(headers[at].hash)
        assert missing is None
        told = told_header(found)
        median = statistics.median(times[at - MEDIAN_SPAN + 1 : at + 1])
        assert told.coverage_time == datetime.fromtimestamp(median, UTC)
        assert told.time == datetime.fromtimestamp(times[at], UTC)
        assert (told.height, told.hash) == (headers[at].height, headers[at].hash)


@pytest.mark.parametrize(("length", "place"), [(1, 0), (2, 1), (3, 1), (4, 2), (10, 5), (11, 5)])
def test_a_young_chain_takes_the_median_of_what_there_is(length, place):
    headers = line([1_000 + n for n in range(length)], first=0)
    found, missing = memory_of(headers).line_of(headers[-1].hash)
    assert missing is None
    assert told_header(found).coverage_time.timestamp() == 1_000 + place


def test_what_is_missing_is_named_and_nothing_is_told_without_it():
    headers = line(list(range(20)))
    memory = memory_of([*headers[:5], *headers[6:]])
    found, missing = memory.line_of(headers[-1].hash)
    assert missing is None
    found, missing = memory.line_of(headers[10].hash)
    assert (len(found), missing) == (5, headers[5].hash)


def test_a_header_that_stands_beside_its_parent_is_refused_and_neither_is_kept():
    headers = line(list(range(20)))
    spoilt = PlacedHeader(
        hash=headers[10].hash,
        parent_hash=headers[10].parent_hash,
        height=999,
        time_s=1,
        bits=BITS,
    )
    memory = memory_of([*headers[:10], spoilt])
    with pytest.raises(AnswerRefused, match="said to stand at 999, its parent at 109"):
        memory.line_of(spoilt.hash)
    assert memory.line_of(spoilt.hash) == ([], spoilt.hash)


def test_the_oldest_are_forgotten_first():
    headers = line(list(range(30)))
    memory = memory_of(headers, headers_max=15)
    assert memory.get(headers[14].hash) is None
    assert memory.get(headers[15].hash) is not None


def test_a_target_changes_every_2016_blocks_and_by_four_at_most():
    easier = 0x1704_0000
    for rules in (BITCOIN, LITECOIN):
        assert target_of(easier, rules) == 4 * target_of(BITS, rules)
        assert may_follow(BITS, BITS, 2_017, rules)
        assert not may_follow(BITS - 1, BITS, 2_017, rules)
        assert not may_follow(easier, BITS, 2_017, rules)
        assert may_follow(easier, BITS, 2 * 2_016, rules)
        assert may_follow(BITS - 1, BITS, 2 * 2_016, rules)
        assert not may_follow(easier + 1, BITS, 2 * 2_016, rules)


def test_dogecoins_target_changes_with_every_block_by_half_at_most():
    assert may_follow(0x1701_8000, BITS, 145_001, DOGECOIN)
    assert not may_follow(0x1701_8001, BITS, 145_001, DOGECOIN)
    assert may_follow(0x1704_0000, BITS, 144_999, DOGECOIN)


@pytest.mark.parametrize(
    "network",
    [BITCOIN_REGTEST, BITCOIN_TESTNET3, DOGECOIN_TESTNET, LITECOIN_TESTNET],
    ids=lambda network: network.name,
)
def test_a_test_network_may_fall_to_the_easiest_at_any_block(network):
    assert may_follow(0x1D00_FFFF, BITS, 2_017, rules_of(network.chain))


def test_signets_target_is_held_as_bitcoins():
    assert not may_follow(0x1704_0000, BITS, 2_017, rules_of(BITCOIN_SIGNET.chain))


def test_a_line_whose_target_falls_is_refused():
    headers = [*line(list(range(15))), *line([99], first=115, bits=0x1D00_FFFF)]
    with pytest.raises(AnswerRefused, match="names the target 1d00ffff, after 17010000"):
        memory_of(headers).line_of(headers[-1].hash)


def test_the_blocks_of_a_transaction_are_found_newest_first_and_only_whole_ids_count():
    mined = MinedLately(blocks_max=3)
    first, second, third = (bytes([n]) * 32 for n in (1, 2, 3))
    mined.add("a", [first, second])
    mined.add("b", [third, first])
    assert mined.blocks_of(first.hex()) == ["b", "a"]
    assert mined.blocks_of((b"\x01" * 16 + b"\x02" * 16)[::-1].hex()) == []
    assert mined.blocks_of(bytes(32).hex()) == []
    mined.add("c", [third])
    mined.add("d", [third])
    assert mined.blocks_of(first.hex()) == ["b"]
    mixed = bytes(range(32))
    mined.add("e", [mixed])
    assert mined.blocks_of(mixed[::-1].hex()) == ["e"]
    assert mined.blocks_of(mixed.hex()) == []
