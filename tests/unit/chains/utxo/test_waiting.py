"""What is remembered of a mempool between two looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from chains.utxo.loose import LooseTransaction, read_loose
from chains.utxo.rules import BITCOIN
from chains.utxo.waiting import Waiting
from tests.parts.utxo_blocks import P2PKH, P2SH, P2TR, outpoint, pay

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=1)
OURS, THEIRS = P2PKH, P2TR
WATCHED = frozenset({OURS})


def loose(number: int, *scripts: bytes, spends: bytes | None = None) -> LooseTransaction:
    spent = spends or outpoint(number)
    return read_loose(pay(spent, to=[(number, one) for one in scripts]).full(), BITCOIN)


def told(waiting: Waiting) -> list[tuple[str, int, datetime]]:
    return [(one.paid.txid, one.paid.index, one.at) for one in waiting.sights]


def test_each_output_to_us_is_told_as_long_as_it_is_listed():
    waiting, two, other = Waiting(), loose(5, OURS, THEIRS, OURS), loose(6, THEIRS)
    waiting.listed([two.txid, other.txid], WATCHED)
    assert waiting.next_unread(10) == [two.txid, other.txid]
    for one in (two, other):
        waiting.take(one, NOON, WATCHED, ())
    assert told(waiting) == [(two.txid, 0, NOON), (two.txid, 2, NOON)]
    waiting.listed([two.txid, other.txid], WATCHED)
    assert waiting.next_unread(10) == []
    assert len(told(waiting)) == 2
    waiting.listed([other.txid], WATCHED)
    assert told(waiting) == []
    waiting.listed([two.txid], WATCHED)
    assert waiting.next_unread(10) == [two.txid]


def test_an_address_that_is_watched_later_finds_what_waits_with_its_first_sight():
    waiting, one, two = Waiting(), loose(5, THEIRS), loose(6, OURS, P2SH)
    names = [one.txid, two.txid]
    waiting.listed(names, WATCHED)
    for each in (one, two):
        waiting.take(each, NOON, WATCHED, ())
    more = WATCHED | {THEIRS, P2SH}
    waiting.listed(names, more)
    assert sorted(waiting.next_unread(10)) == sorted(names)
    for each in (one, two):
        waiting.take(each, LATER, more, ())
    assert sorted(told(waiting)) == sorted(
        [(one.txid, 0, NOON), (two.txid, 0, NOON), (two.txid, 1, NOON)]
    )
    waiting.listed(names, more)
    assert waiting.next_unread(10) == []


def test_what_is_new_is_read_before_what_has_waited_for_its_reading():
    waiting = Waiting()
    old = [loose(number, THEIRS).txid for number in range(1, 5)]
    waiting.listed(old, WATCHED)
    assert waiting.next_unread(1) == old[:1]
    waiting.put_back(old[:1])
    new = loose(9, OURS).txid
    waiting.listed([*old, new], WATCHED)
    assert waiting.next_unread(2)[0] == new
    # What could not be read is tried again at the next listing.
    waiting.next_unread(10)
    waiting.listed([*old, new], WATCHED)
    assert set(waiting.next_unread(10)) == {*old, new}


def test_who_spends_what_was_asked_about_is_told_while_it_waits():
    waiting = Waiting()
    first = loose(5, OURS, spends=outpoint(1))
    waiting.listed([first.txid], WATCHED)
    waiting.take(first, NOON, WATCHED, ())
    asked = first.spends
    assert waiting.rivals(asked) == {}
    second = loose(6, THEIRS, spends=outpoint(1))
    waiting.listed([second.txid], WATCHED)
    waiting.take(second, NOON, WATCHED, asked)
    assert waiting.rivals(asked) == {asked[0]: second.txid}
    assert waiting.rivals(()) == {}
    waiting.listed([], WATCHED)
    assert waiting.rivals(asked) == {}


def test_first_sight_of_what_paid_us_outlives_its_waiting():
    waiting, ours, theirs = Waiting(), loose(5, OURS), loose(6, THEIRS)
    waiting.listed([ours.txid, theirs.txid], WATCHED)
    for each in (ours, theirs):
        waiting.take(each, NOON, WATCHED, ())
    assert waiting.first_sight(ours.txid) == NOON
    waiting.listed([], WATCHED)
    assert waiting.first_sight(ours.txid) == NOON
    assert waiting.first_sight(theirs.txid) is None
    assert waiting.first_sight("12" * 32) is None


def test_first_sights_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr("chains.utxo.waiting.LEFT_MAX", 2)
    waiting, many = Waiting(), [loose(number, OURS) for number in range(1, 5)]
    for each in many:
        waiting.listed([each.txid], WATCHED)
        waiting.take(each, NOON, WATCHED, ())
    waiting.listed([], WATCHED)
    assert [waiting.first_sight(each.txid) for each in many] == [None, None, NOON, NOON]
