from __future__ import annotations

import tracemalloc

from chains.watched import RecentBlocks, Watched
from tests.parts.scripted_source import ScriptedSource, StoppedClock, address

BYTES_AN_ADDRESS_MAX = 250


def test_an_address_is_watched_once_and_costs_little():
    addresses = 50_000
    tracemalloc.start()
    watched = Watched()
    for number in range(addresses):
        watched.add(number.to_bytes(20, "big"))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(watched) == addresses
    assert size / addresses <= BYTES_AN_ADDRESS_MAX
    assert address(7) in watched
    assert address(addresses) not in watched
    assert not watched.add(address(7))
    assert watched.add(address(addresses))


def blocks(count: int):
    source = ScriptedSource(StoppedClock())
    source.mine(blocks=count)
    return [source.blocks[name].header for name in source.branch]


def test_recent_blocks_remember_who_was_paid_within_their_bounds():
    recent = RecentBlocks(blocks_max=5, recipients_max=100)
    headers = blocks(9)
    for header in headers:
        recent.add(header, frozenset({address(header.height), address(1_000)}))
    assert recent.first == headers[5]
    assert list(recent.paying({address(7)}, 0, 9)) == [headers[7]]
    assert list(recent.paying({address(1_000)}, 6, 8)) == headers[6:9]
    assert list(recent.paying({address(2)}, 0, 9)) == []
    recent.cut_above(7)
    assert list(recent.headers()) == headers[5:8]


def test_recent_blocks_are_bounded_by_recipients_too():
    recent = RecentBlocks(blocks_max=100, recipients_max=10)
    for header in blocks(9):
        recent.add(header, frozenset(address(header.height * 10 + at) for at in range(4)))
    assert len(list(recent.headers())) == 2


def test_a_block_that_does_not_follow_empties_the_memory():
    recent = RecentBlocks(blocks_max=100, recipients_max=100)
    headers = blocks(5)
    recent.add(headers[1], frozenset())
    recent.add(headers[2], frozenset())
    recent.add(headers[4], frozenset({address(1)}))
    assert list(recent.headers()) == [headers[4]]
