"""What must be true at the end of a run, whatever happened in it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from schemas.codec import Line
from tests.parts.processes import run_command
from tests.parts.thousand.bad_commands import BAD_COMMANDS
from tests.parts.thousand.book import SHARED_ADDRESS, Book
from tests.parts.thousand.model import due_is_right, end_of
from tests.parts.thousand.play import Play
from tests.parts.thousand.shop import EVENTS, EXCEPTIONS, Told
from tests.parts.thousand.story import ChainLetter, Money
from tests.parts.thousand.street import Street

LISTED: tuple[Money, ...] = ("usd", "twin", "coin")


async def check_the_end(play: Play, config: Path) -> None:
    """Read everything once more as a new consumer would, and hold it to the stories."""
    told = await play.shop.hear_all_again()
    assert told.events == play.shop.told.events
    assert not play.differing()
    check_sequences(play.book, told)
    check_never_too_good(play.book, told)
    check_rejections(play.book, told)
    check_exceptions(play.book, told)
    await check_balances(play.book, told, play.streets, config)
    await check_journal(config)
    await check_replay(told, config)


def check_sequences(book: Book, told: Told) -> None:
    """Every event once and in sequence."""
    assert set(told.events) == {order.reference for order in book.orders}
    for reference, events in told.events.items():
        sequences = [event["sequence"] for event in events]
        assert sequences == list(range(1, len(events) + 1)), f"{reference} has {sequences}"
        assert events[0]["kind"] == "awaiting"
    for exception, revisions in told.exception_revisions.items():
        assert all(a < b for a, b in pairwise(revisions)), f"{exception} has {revisions}"


def check_never_too_good(book: Book, told: Told) -> None:
    """Nobody is told `confirmed` whose money did not come, but who lost it with its block."""
    for order in book.orders:
        kinds = [event["kind"] for event in told.events[order.reference]]
        paid = end_of(order).phase == "confirmed"
        lost = any(payment.fate == "lost" for payment in order.payments)
        assert paid or lost or "confirmed" not in kinds, f"{order.reference}: {kinds}"
        assert due_is_right(order), f"{order.reference}: {order.asked} became {order.due}"
        if lost and "confirmed" in kinds:
            assert kinds.index("reversed") > kinds.index("confirmed")
    shared = [order.due for order in book.orders if order.shared]
    assert len(set(shared)) == len(shared), "two orders were asked for one amount"


def check_rejections(book: Book, told: Told) -> None:
    """What was wrong came back with its reason, and nothing else did."""
    found = Counter(code for code, _ in told.rejected)
    vain = sum(order.cancel_when_seen for order in book.orders)
    assert found.pop("money_pending", 0) + found.pop("order_confirmed", 0) == vain
    assert found == Counter(code for code, _, _ in BAD_COMMANDS)
    bodies = [json.loads(value) for _, value in told.rejected]
    assert all(body in bodies for _, _, body in BAD_COMMANDS)


def check_exceptions(book: Book, told: Told) -> None:
    """Who named another customer's transaction is known, and so is money without an order."""
    thieves = {o.reference for o in book.orders if o.story == "claims another's" and not o.payments}
    used = [e["order"] for e in told.open_exceptions if e["kind"] == "claim_already_used"]
    assert set(used) == thieves
    strays = {stray.amount: stray for stray in book.strays}
    found = [e for e in told.exceptions.values() if e["transfer"] and not e["order"]]
    assert sorted(int(e["amount"]) for e in found) == sorted(strays)
    for exception in found:
        # Before anybody waits for dollars on the address, the twin is as good as any money.
        twin = strays[int(exception["amount"])].money == "twin"
        assert exception["kind"] in ({"wrong_asset", "unmatched"} if twin else {"unmatched"})


async def check_balances(
    book: Book, told: Told, streets: dict[ChainLetter, Street], config: Path
) -> None:
    """Credits, open exceptions and what was disposed of are what the chains say that we hold."""
    code, written, said = await run_command(
        "export", "transfers", "--format", "jsonl", config=config
    )
    assert code == 0, said.decode()
    transfers = [json.loads(line) for line in written.splitlines()]
    explained = _credits(told)
    for asset, amount in _open(told):
        explained[asset] += amount
    for asset, amount in _dust_and_disposed(told, transfers):
        explained[asset] += amount
    ours = [SHARED_ADDRESS, *(order.address for order in book.orders)]
    for street in streets.values():
        standing = street.standing()
        for money in LISTED:
            asset = street.asset(money)
            held = street.balance(money, ours)
            sent = sum(payment.amount for payment in standing if payment.money == money)
            assert held == sent, f"{asset}: the test itself lost count"
            assert explained[asset] == held, f"{asset}: the chain holds {held}"


def _credits(told: Told) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for events in told.events.values():
        last = events[-1]
        if last["phase"] == "confirmed":
            for transfer in last["transfers"]:
                found[transfer["asset"]] += int(transfer["counted"])
    return found


def _open(told: Told) -> Iterable[tuple[str, int]]:
    """Give open exceptions about a transfer, and what came for orders that got too little."""
    for exception in told.open_exceptions:
        if exception["transfer"] or exception["kind"] == "underpaid":
            yield exception["asset"], int(exception["amount"])


def _dust_and_disposed(told: Told, transfers: list[dict[str, Any]]) -> Iterable[tuple[str, int]]:
    """Dust is told in one exception an asset and day, without an amount: its rows have it."""
    dusty = {
        exception["asset"] for exception in told.open_exceptions if exception["kind"] == "dust"
    }
    used = {
        transfer["transfer"]
        for events in told.events.values()
        for transfer in events[-1]["transfers"]
        if int(transfer["counted"])
    }
    for transfer in transfers:
        if (
            transfer["disposed"]
            or transfer["exception"] == "dust"
            or (
                transfer["asset"] in dusty
                and _is_dust(transfer)
                and transfer["transfer"] not in used
            )
        ):
            yield transfer["asset"], int(transfer["amount"])


def _is_dust(transfer: dict[str, Any]) -> bool:
    least = 10**12 if transfer["decimals"] == 18 else 10**4
    return int(transfer["amount"]) < least


async def check_journal(config: Path) -> None:
    code, written, said = await run_command("audit", "verify", config=config)
    assert code == 0, written.decode() + said.decode()


async def check_replay(told: Told, config: Path) -> None:
    """The recording of the run, in an empty database, says the same again, byte for byte."""
    recording = config.with_name("messages.jsonl")
    code, _, said = await run_command(
        "export", "messages", "--output", str(recording), config=config
    )
    assert code == 0, said.decode()
    code, written, said = await run_command("replay", str(recording), config=config, timeout_s=400)
    assert code == 0, said.decode()
    again: dict[str, list[bytes]] = defaultdict(list)
    for text in written.splitlines():
        line = msgspec.json.decode(text, type=Line)
        if line.topic in {EVENTS, EXCEPTIONS}:
            again[line.key].append(bytes(line.value))
    for order, values in told.event_bytes.items():
        assert again[order] == values, f"{order}: replayed otherwise, see {recording}"
    for exception, values in told.exception_bytes.items():
        # The topic is compacted: what it still has was said again, and the last word is the same.
        assert again[exception][-1] == values[-1], f"{exception}: see {recording}"
        assert set(values) <= set(again[exception]), f"{exception}: see {recording}"
    assert set(again) == {*told.event_bytes, *told.exception_bytes}
