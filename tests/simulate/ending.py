"""What must be true when the faults are over and everything came to rest.

Reads the database once, as finance would, and compares it with the chains: every unit that came to us
is credited once, or an exception, or dust; nothing is credited that the chain does not have; orders
whose story leaves no doubt ended as that story says; the log tells the chain's own line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.model.status import Status
from reconciler.services.state import decode_state
from reconciler.storage.journal import entry_hash
from reconciler.stream.promise import Lane
from reconciler.stream.topics import ORDERS, transfers_topic
from schemas.codec import decode_as
from schemas.codes import Attention, Phase, TransferState
from schemas.events import EventKind, PaymentException
from schemas.facts import Watermark
from tests.simulate.books import Book, is_dust
from tests.simulate.referee import Referee
from tests.simulate.street import Movement, Street
from tests.simulate.world import START, Violation, World

OPEN = frozenset(
    {Phase.AWAITING_PAYMENT, Phase.CLAIMED, Phase.DETECTED, Phase.PARTIALLY_PAID, Phase.REVERSED}
)
ON_CHAIN = frozenset({TransferState.INCLUDED, TransferState.FINAL})
#: Clocks of miners, nodes and ours differ: closer to the end of *open* both answers are right.
EDGE = timedelta(seconds=30)


def is_at_rest(world: World, referee: Referee) -> bool:
    """Tell whether there is nothing left to decide or to send: all orders have ended."""
    if world.database.holder is not None or not world.operator_is_done:
        return False
    rows = world.database.raw.execute
    if rows("SELECT 1 FROM unsent LIMIT 1").fetchone():
        return False
    if rows("SELECT 1 FROM orders WHERE is_open = 1 LIMIT 1").fetchone():
        return False
    if rows(
        "SELECT 1 FROM orders WHERE due_time IS NOT NULL OR due_height IS NOT NULL "
        "OR due_finalized IS NOT NULL LIMIT 1"
    ).fetchone():
        return False
    books = referee.books.orders.values()
    waiting = (book.last for book in books if not book.refused)
    return not any(last is None or last.phase in OPEN for last in waiting)


def is_read(world: World) -> bool:
    """Tell whether the chains were read to their heads, and the log to its ends."""
    rows = world.database.raw.execute
    for street in world.streets:
        head = street.chain.world.tree.head
        for (hash_,) in rows("SELECT hash FROM lanes WHERE chain = ?", (street.name,)).fetchall():
            if hash_ != street.hash_of(head):
                return False
    held = dict(rows("SELECT lane, next_offset FROM positions").fetchall())
    topics = {ORDERS, *(transfers_topic(street.name) for street in world.streets)}
    return all(
        held.get(lane.name, 0) == end
        for lane, end in world.log.next.items()
        if lane.topic in topics
    )


def check_ending(world: World, referee: Referee) -> None:
    """Compare everything with everything. **Raises**: `Violation`."""
    ending = Ending(world, referee)
    ending.check_transfers()
    ending.check_orders()
    ending.check_accounts()
    ending.check_lines()
    ending.check_journal()


class Ending:
    """The end of one run."""

    def __init__(self, world: World, referee: Referee) -> None:
        self.world, self.referee = world, referee
        rows = world.database.raw.execute
        names = [c[1] for c in rows("PRAGMA table_info(transfers)").fetchall()]
        found = rows("SELECT * FROM transfers").fetchall()
        self.transfers: dict[str, dict[str, Any]] = {
            row["transfer"]: row for row in (dict(zip(names, r, strict=True)) for r in found)
        }
        self.states = {
            reference: decode_state(state)
            for reference, state in rows("SELECT reference, state FROM orders").fetchall()
        }
        self.shares: dict[str, dict[str, int]] = defaultdict(dict)
        for transfer, order, share in rows(
            "SELECT transfer, order_ref, share FROM shares"
        ).fetchall():
            self.shares[transfer][order] = int(share)
        self.standing: dict[str, list[tuple[Street, Movement, Any]]] = defaultdict(list)
        for street in world.streets:
            stands = street.standing()
            for tx, movements in street.movements.items():
                if tx in stands:
                    self.standing[tx] += [(street, one, stands[tx]) for one in movements]

    def status(self, reference: str) -> Status | None:
        state = self.states.get(reference)
        return None if state is None else state.status

    def ours(self) -> Iterator[tuple[Street, Movement, Any]]:
        """Everything that stands on a chain and came to an address of ours, but zero.

        Every EVM chain has the same addresses. A Bitcoin-like chain has its own, also where regtests
        write them alike: on another one they are nobody's that we know.
        """
        known = {b.address for b in self.referee.books.orders.values() if b.events}
        if any(b.route == "shared" and b.events for b in self.referee.books.orders.values()):
            known.add(self.world.shared_address)
        for found in self.standing.values():
            for street, movement, block in found:
                elsewhere = self.world.plan.utxo and street is not self.world.streets[0]
                if movement.amount and movement.to in known and not elsewhere:
                    yield street, movement, block

    # --- transfers ---

    def check_transfers(self) -> None:
        """The rows are what the chains have: all of it, in its place, once."""
        rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in self.transfers.values():
            rows[row["chain"], row["tx"]].append(row)
        for street, movement, block in self.ours():
            alive = [r for r in rows[movement.chain, movement.tx] if r["state"] in ON_CHAIN]
            if len(alive) != 1:
                raise Violation(f"{movement!r} stands in block {block.height}; rows: {alive}")
            row = alive[0]
            where = (row["height"], row["block_hash"])
            if where != (block.height, street.hash_of(block)):
                raise Violation(
                    f"{movement!r} stands in block {block.height}, its row says {where}"
                )
            if (int(row["amount"]), row["asset"]) != (movement.amount, movement.asset):
                raise Violation(f"{movement!r} is kept as {row['amount']} of {row['asset']}")
        for row in self.transfers.values():
            if row["state"] in ON_CHAIN and row["tx"] not in self.standing:
                raise Violation(f"{row['transfer']} is {row['state']}, and no chain has it")
        for row in self.transfers.values():
            street = next(one for one in self.world.streets if one.name == row["chain"])
            if row["state"] == TransferState.SEEN and street.is_impossible(row["tx"]):
                raise Violation(f"{row['transfer']} waits, and its money was spent otherwise")
        for name, parts in self.shares.items():
            if sum(parts.values()) > int(self.transfers[name]["amount"]):
                raise Violation(f"{name}: shares {parts} are more than it")

    # --- orders ---

    def check_orders(self) -> None:
        for book in self.referee.books.orders.values():
            if book.refused:
                continue
            status = self.status(book.reference)
            last = book.last
            if status is None or last is None or status.phase is not last.phase:
                raise Violation(f"{book.reference} stands as {status}, the shop heard {last}")
            self._check_credit(book, status)
            self._check_claims(book, status)
            self._check_story(book, status)
        self._check_purchase()

    def _check_credit(self, book: Book, status: Status) -> None:
        """A confirmed order has its money, on the chain, and nobody else has it."""
        if status.phase is not Phase.CONFIRMED:
            return
        total = 0
        for name in status.counted:
            row = self.transfers[name]
            total += self.shares[name].get(book.reference, 0)
            if row["state"] != TransferState.FINAL or row["tx"] not in self.standing:
                raise Violation(f"{book.reference} is confirmed by {name}, which is {row['state']}")
            for other, theirs in self.states.items():
                counted = theirs.status.counted if theirs.status else ()
                if other != book.reference and name in counted and len(self.shares[name]) < 2:
                    raise Violation(f"{name} counts for {book.reference} and for {other}")
        due = self.states[book.reference].terms.due
        if total < book.least_enough(due) and not book.accepted:
            raise Violation(f"{book.reference} is confirmed with {total} of {due}")

    def _check_claims(self, book: Book, status: Status) -> None:
        """A claim in time is never overlooked: what ended without money was open so much longer."""
        last = book.last
        if book.touched or book.amended or last is None or book.was(EventKind.REVERSED):
            return
        if status.phase in {Phase.EXPIRED, Phase.UNDERPAID} and last.open_until != book.end:
            raise Violation(
                f"{book.reference} was open until {last.open_until}, expected {book.end}: it was "
                f"placed at {book.placed_at} and claimed at {book.claimed_at}"
            )

    def _check_purchase(self) -> None:
        """Of the orders for one thing one is confirmed, unless a person had a hand in it."""
        books = self.referee.books.orders.values()
        confirmed = [b for b in books if b.purchase and b.phase is Phase.CONFIRMED]
        if len(confirmed) > 1 and not any(b.touched for b in books if b.purchase):
            names = [book.reference for book in confirmed]
            raise Violation(f"{names} are all confirmed for one purchase")

    def _check_story(self, book: Book, status: Status) -> None:
        """Where the story leaves no doubt, the order ended as it says."""
        money = self._plain_money(book)
        if money is None:
            return
        due = self.states[book.reference].terms.due
        believed = [m for m in money if not self._is_late(book, m)]
        whole = sum(m.amount for _, m, _ in believed if not is_dust(m.asset, m.amount))
        all_of_it = sum(m.amount for _, m, _ in believed)
        enough = book.least_enough(due)
        if max(whole, all_of_it) >= enough:
            expected = Phase.CONFIRMED
        else:
            expected = Phase.UNDERPAID if whole else Phase.EXPIRED
        if status.phase is not expected:
            raise Violation(
                f"{book.reference} ended {status.phase.value}, expected {expected.value}: "
                f"{all_of_it} of {due} came in time"
            )

    def _plain_money(self, book: Book) -> list[tuple[Street, Movement, Any]] | None:
        """Give an order's money, or None where its story leaves room for more than one end."""
        if book.touched or book.amended or book.cancel_asked or book.purchase:
            return None
        if book.was(EventKind.REVERSED) or self.world.plan.late_revives:
            return None
        if any(Attention.PENDING_AT_END in event.attention for event in book.events):
            return None
        due = self.states[book.reference].terms.due
        found = []
        for tx in self.world.paid_to(book.address or self.world.shared_address):
            movement = tx
            if book.route == "shared" and movement.amount != due:
                continue
            right = movement.chain == self.states[book.reference].terms.chain
            listed = movement.asset == self.world.streets[0].listed
            if not right or not listed or movement.amount > 100 * due:
                continue
            history = self.referee.street_of(movement.chain).places(movement.tx)
            if len(history) != 1 or movement.tx not in self.standing:
                return None
            (street, _, block) = self.standing[movement.tx][0]
            if not self._is_clear(book, movement, block):
                return None
            found.append((street, movement, block))
        if len(found) > 1 and book.route == "shared":
            return None
        return found

    def _is_clear(self, book: Book, movement: Movement, block: Any) -> bool:
        """Tell whether nobody can doubt that money came in time, or that it was late.

        Where a mempool shows money, it came when a node first showed it: somewhen between the sending
        and the block. What comes in the extension is in time for stable assets alone.
        """
        mined, sent = self._time(block.time), self._time(movement.sent_s)
        if not self.world.plan.utxo:
            # A block's time may lie ahead of the clocks of those who saw it before.
            far = all(abs(mined - moment) >= EDGE for moment in (book.deadline, book.end))
            return far and (mined <= book.end or sent > book.end)
        return mined < book.deadline - EDGE or sent > book.end + EDGE

    def _time(self, seconds: int) -> datetime:
        return START + timedelta(seconds=seconds - int(START.timestamp()))

    def _is_late(self, book: Book, money: tuple[Street, Movement, Any]) -> bool:
        return self._time(money[2].time) > book.end

    # --- accounts ---

    def check_accounts(self) -> None:
        """Every unit is credited, or somebody knows that it is not."""
        open_about, settled = self._exceptions()
        for street, movement, block in self.ours():
            row = next(
                r
                for r in self.transfers.values()
                if r["tx"] == movement.tx
                and r["chain"] == movement.chain
                and r["state"] in ON_CHAIN
            )
            name = row["transfer"]
            owners = [o for o in self.shares[name] if self._counts(o, name)]
            if owners or row["disposed"] or name in open_about or name in settled:
                continue
            if is_dust(movement.asset, movement.amount):
                if any(e.startswith("dust/") for e in open_about | settled):
                    continue
                raise Violation(f"{movement!r} is dust, and nobody is told")
            raise Violation(
                f"{movement!r} in block {block.height} of {street.name} is neither credited nor an "
                f"exception; shares {self.shares[name]}, rule {row['rule']}"
            )

    def _counts(self, order: str, transfer: str) -> bool:
        status = self.status(order)
        return status is not None and transfer in status.counted

    def _exceptions(self) -> tuple[set[str], set[str]]:
        open_about, settled = set(), set()
        for subject, is_open, is_settled, body in self.world.database.raw.execute(
            "SELECT subject, open, settled, body FROM exceptions"
        ).fetchall():
            if is_open:
                open_about.add(subject)
            elif is_settled:
                settled.add(subject)
            heard = self.referee.books.exceptions.get(decode_as(PaymentException, body).exception)
            if not isinstance(heard, PaymentException) or heard.open != bool(is_open):
                raise Violation(f"operations heard of {subject}: {heard}; the desk says {is_open}")
        return open_about, settled

    # --- the log ---

    def check_lines(self) -> None:
        """The watermarks of each lane lead to the chain's head, and none is missing before it."""
        for street in self.world.streets:
            for lane in self._lanes(street):
                marks = [
                    decode_as(Watermark, record.value or b"")
                    for record in self.world.log.records[lane]
                    if ("ce_type", b"Watermark") in record.headers
                ]
                if not marks:
                    raise Violation(f"{lane.name} has no watermark")
                if len({mark.log_id for mark in marks}) != 1:
                    raise Violation(f"{lane.name} has several log ids")
                for mark in marks:
                    self._check_time(street, mark)

    def _check_time(self, street: Street, mark: Watermark) -> None:
        """No chain is further than it says itself."""
        block = street.block(mark.hash)
        if block is None or block.height != mark.height:
            raise Violation(f"a watermark names {mark.hash} at {mark.height}, which no chain had")
        says = self._time(street.time_of(block))
        if mark.time > says:
            raise Violation(f"{street.name} is said to be at {mark.time}, its block says {says}")

    def check_journal(self) -> None:
        """Every chain of entries is whole, and every event that an order counts was told."""
        heads: dict[str, bytes] = {}
        for entry in self.world.database.raw.execute(
            "SELECT chain_key, kind, seq, recorded_at, body, previous_hash, hash FROM journal ORDER BY id"
        ).fetchall():
            key, kind, seq, recorded_at, body, previous, own = entry
            if previous != heads.get(key, bytes(32)):
                raise Violation(f"an entry of {key} does not follow the one before it")
            at = datetime.fromisoformat(recorded_at).replace(tzinfo=UTC)
            about = {"chain_key": key, "kind": kind, "seq": seq, "recorded_at": at}
            if own != entry_hash(previous, body, **about):
                raise Violation(f"an entry of {key} is not what its hash says")
            heads[key] = own
        for reference, head, sequence in self.world.database.raw.execute(
            "SELECT reference, journal_hash, sequence FROM orders"
        ).fetchall():
            if heads.get(f"order/{reference}") != head:
                raise Violation(f"the journal of {reference} has another head")
            if sequence != len(self.referee.books.orders[reference].events):
                raise Violation(f"{reference} counts {sequence} events, the shop heard others")

    def _lanes(self, street: Street) -> list[Lane]:
        topic = transfers_topic(street.name)
        return [lane for lane in self.world.log.records if lane.topic == topic]
