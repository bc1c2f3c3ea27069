"""The reference model: what must hold of every event, judged by the chains themselves.

Knows the chains' blocks (all branches), what people sent, and what the shop heard. Naive on purpose:
no state of the service, no code of it but the words of its messages. Raises `Violation` at once; what
can only be said when all is over is said by `tests.simulate.ending`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from reconciler.stream.promise import Record
from reconciler.stream.topics import transfers_topic
from schemas.amounts import BaseUnits
from schemas.codes import Attention, MatchRule, Phase, TransferState
from schemas.commands import (
    AcceptShort,
    AmendOrder,
    Assign,
    CancelOrder,
    ClaimPaid,
    Close,
    Decide,
    Hold,
    PlaceOrder,
    Release,
    Revive,
    Split,
    Undo,
)
from schemas.events import EventKind, EventTransfer, PaymentEvent, PaymentException
from schemas.values import Message
from tests.simulate.books import Book, Books
from tests.simulate.settings import DEEPEST, DEPTHS, PENDING_PATIENCE_S
from tests.simulate.street import Movement, Street
from tests.simulate.world import Violation, World

IMPLAUSIBLE_TIMES = 100
ENDS = frozenset({EventKind.EXPIRED, EventKind.UNDERPAID})
VERDICTS = ENDS | {EventKind.CONFIRMED, EventKind.REVERSED}


class Referee:
    """Hears everything, believes the chains."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.books = Books()
        #: When a person last said something: their words are verdicts of their own.
        self.decided_at: set[datetime] = set()
        self.checked = 0
        #: In which block each transfer was found final by these rules.
        self._granted: dict[str, str] = {}

    # --- what is sent ---

    def sent(self, message: Message, record: Record) -> None:
        """Note a command, with the time that the log gave it."""
        book = self.books.orders.get(getattr(message, "reference", ""))
        match message:
            case PlaceOrder() if book is not None:
                book.placed_at = book.placed_at or record.time
            case ClaimPaid() if book is not None:
                book.claimed_at.append(record.time)
            case AmendOrder() if book is not None:
                book.amended = True
            case CancelOrder() if book is not None:
                book.cancel_asked = True
            case Decide():
                self.decided_at.add(record.time)
                self._note_decision(message)

    def _note_decision(self, decide: Decide) -> None:
        books, action = self.books, decide.action
        match action:
            case AcceptShort() | Revive():
                book = books.orders.get(action.reference)
                if book is not None:
                    book.accepted = book.touched = True
            case Assign():
                self._give(action.transfer, action.reference)
            case Split():
                for part in action.parts:
                    self._give(action.transfer, part.reference)
            case Undo() | Hold() | Release():
                for book in books.orders.values():
                    book.touched = True
            case Close():
                pass
            case _:
                self._touch(action.transfer)

    def _give(self, transfer: str, reference: str) -> None:
        self.books.given.add((transfer.split("/")[1], reference))
        if reference in self.books.orders:
            self.books.orders[reference].touched = True
        self._touch(transfer)

    def _touch(self, transfer: str) -> None:
        """A word on a transfer may touch whoever has it or may get it."""
        self.books.decided.add(transfer.split("/")[1])
        movement = self._movement(transfer)
        for book in self.books.orders.values():
            has = book.last and any(t.transfer == transfer for t in book.last.transfers)
            if has or movement is None or movement.to in {book.address, self.world.shared_address}:
                book.touched = True

    # --- what is heard ---

    def hear_exception(self, exception: PaymentException) -> None:
        before = self.books.exceptions.get(exception.exception)
        if isinstance(before, PaymentException) and before.revision >= exception.revision:
            raise Violation(
                f"exception {exception.exception}: revision {exception.revision} came after {before.revision}"
            )
        self.books.exceptions[exception.exception] = exception

    def hear_event(self, event: PaymentEvent) -> None:
        self.checked += 1
        book = self.books.orders.get(event.order)
        if book is None:
            raise Violation(f"an event of {event.order}, which nobody placed")
        self._check_sequence(book, event)
        self._check_terms(book, event)
        for transfer in event.transfers:
            self._check_transfer(book, event, transfer)
        if event.kind is EventKind.CONFIRMED:
            self._check_confirmed(book, event)
        if event.kind in ENDS:
            self._check_end(book, event)
        if event.kind in VERDICTS:
            self._check_moment(event)
        book.events.append(event)
        book.dues.add(event.due)

    def _fail(self, event: PaymentEvent, sentence: str) -> None:
        raise Violation(f"{event.order} #{event.sequence} {event.kind.value}: {sentence}")

    def _check_sequence(self, book: Book, event: PaymentEvent) -> None:
        expected = len(book.events) + 1
        if event.sequence != expected:
            self._fail(event, f"expected sequence {expected}")
        if (event.kind is EventKind.AWAITING) != (expected == 1):
            self._fail(event, "`awaiting` is the first event and no other")

    def _check_terms(self, book: Book, event: PaymentEvent) -> None:
        if book.route == "own" and event.address != book.address:
            self._fail(event, f"the address is {event.address}, expected {book.address}")
        if book.route == "own" and event.due != book.asked and not book.amended:
            self._fail(event, f"due is {event.due}, expected {book.asked}")
        if book.route == "shared" and not book.amended:
            self._check_shared(book, event)
        if event.deadline != book.deadline and not book.amended:
            self._fail(event, f"the deadline is {event.deadline}, expected {book.deadline}")

    def _check_shared(self, book: Book, event: PaymentEvent) -> None:
        """A reserved amount is above what was asked, within the steps, and nobody else's."""
        if not book.asked < event.due <= book.asked + 51 * 10_000:
            self._fail(event, f"due is {event.due} for {book.asked} asked")
        for other in self.books.orders.values():
            if other is not book and other.route == "shared" and event.due in other.dues:
                self._fail(event, f"{other.reference} waits for {event.due} too")

    # --- transfers ---

    def _movement(self, transfer: str) -> Movement | None:
        chain, tx, _ = transfer.split("/")
        for street in self.world.streets:
            if street.name == chain:
                found = street.movements.get(tx)
                return found[0] if found else None
        return None

    def street_of(self, chain: str) -> Street:
        return next(street for street in self.world.streets if street.name == chain)

    def _check_transfer(self, book: Book, event: PaymentEvent, told: EventTransfer) -> None:
        """Nothing is told that no chain has, or of which more counts than came."""
        movement = self._movement(told.transfer)
        if movement is None:
            self._fail(event, f"{told.transfer} is no transfer of any chain")
            return
        if (told.amount, told.asset) != (movement.amount, movement.asset):
            self._fail(event, f"{told.transfer} is {movement!r}, told as {told.amount}")
        if told.counted > told.amount:
            self._fail(event, f"{told.counted} counts of {told.amount}")
        if told.counted:
            self._check_owner(book, event, told, movement)
        if told.state is not TransferState.FINAL:
            self._granted.pop(told.transfer, None)
        if told.block is not None:
            self._check_block(event, told)

    def _check_owner(
        self, book: Book, event: PaymentEvent, told: EventTransfer, movement: Movement
    ) -> None:
        """What counts came to this order: to its address, as its amount, or by a person's word."""
        if movement.chain != event.chain or movement.asset != event.asset:
            self._fail(event, f"{movement!r} counts for an order in {event.asset}")
        by_person = (movement.tx, book.reference) in self.books.given
        if told.amount > IMPLAUSIBLE_TIMES * event.due and not by_person:
            self._fail(event, f"{movement!r} counts, a hundred times what is due")
        match told.rule:
            case MatchRule.ADDRESS if book.route == "own" and movement.to == book.address:
                return
            case MatchRule.RESERVED_AMOUNT if (
                movement.to == self.world.shared_address
                and movement.amount in book.dues | {event.due}
            ):
                return
            case MatchRule.DECISION if by_person:
                return
        self._fail(event, f"{movement!r} counts by {told.rule.value}")

    def _check_block(self, event: PaymentEvent, told: EventTransfer) -> None:
        """A transfer that stands in a block does; a final one is as deep as its amount asks for."""
        assert told.block is not None
        chain, tx, _ = told.transfer.split("/")
        street = self.street_of(chain)
        block = street.block(told.block.hash)
        if block is None or block.height != told.block.height:
            self._fail(event, f"{told.transfer} stands in {told.block.hash}, which no chain has")
            return
        stands = street.stands_in(tx, block)
        if not stands:
            self._fail(event, f"{told.transfer} is not in block {block.height}")
        if self._granted.get(told.transfer) == told.block.hash:
            return  # what is final stays so, also when more is asked for later
        if told.state is TransferState.FINAL and told.counted and chain == event.chain:
            self._granted[told.transfer] = told.block.hash
            # What is final for one order stays so when a person gives it to another.
            by_person = told.rule is MatchRule.DECISION or tx in self.books.decided
            amount = told.amount if by_person else max(told.amount, event.due)
            depth = next((depth for most, depth in DEPTHS if amount <= most), None)
            if depth is None:
                self._check_deepest(event, told, street, block)
            elif street.reached(block) < block.height + depth - 1:
                self._fail(event, f"{told.transfer} counts as final with less than {depth} blocks")

    def _check_deepest(
        self, event: PaymentEvent, told: EventTransfer, street: Street, block: Any
    ) -> None:
        """The largest amounts wait for the chain's own finality, or where it has none, the longest."""
        height = street.final_height
        if self.world.plan.utxo:
            height = street.reached(block) - DEEPEST + 1
        if height < block.height:
            self._fail(event, f"{told.transfer} counts as final above {height}")

    # --- verdicts ---

    def _check_confirmed(self, book: Book, event: PaymentEvent) -> None:
        final = sum(t.counted for t in event.transfers if t.state is TransferState.FINAL)
        if event.phase is not Phase.CONFIRMED or event.received_final != BaseUnits(final):
            self._fail(event, f"received {event.received_final}, final transfers are {final}")
        if final < book.least_enough(event.due) and not book.accepted:
            self._fail(event, f"{final} final of {event.due} due")

    def _check_end(self, book: Book, event: PaymentEvent) -> None:
        """No end before the end of *open*, nor before blocks beyond it were there to be read."""
        if book.touched or book.amended or book.was(EventKind.REVERSED):
            return
        earned = any(at <= book.deadline for at in book.claimed_at if at < event.occurred_at)
        end = book.end if earned else book.deadline
        if event.coverage.time is None or event.coverage.time <= end:
            self._fail(event, f"open until {end}, covered until {event.coverage.time}")
        if Attention.PENDING_AT_END in event.attention:
            patience = end + timedelta(seconds=PENDING_PATIENCE_S)
            if event.coverage.time <= patience:
                self._fail(event, f"pending money holds the end until {patience}")
        elif event.received_pending:
            self._fail(event, f"{event.received_pending} are pending")
        if not self._was_covered(event):
            self._fail(event, f"{event.address} was never searched")
        street = self.street_of(event.chain)
        newest = max(block.time for block in street.chain.world.tree._by_hash.values())
        if newest <= end.timestamp():
            self._fail(event, f"open until {end}, and no block is younger")

    def _was_covered(self, event: PaymentEvent) -> bool:
        """Tell whether the log says that the order's address was scanned back on its chain."""
        topic = transfers_topic(event.chain)
        address = event.address if self.world.plan.utxo else event.address.lower()
        key = address.encode()
        return any(
            record.key == key and ("ce_type", b"AddressCovered") in record.headers
            for lane, records in self.world.log.records.items()
            if lane.topic == topic
            for record in records
        )

    def _check_moment(self, event: PaymentEvent) -> None:
        """A verdict is given at a watermark, or by a person."""
        if event.occurred_at in self.decided_at:
            return
        topic = transfers_topic(event.chain)
        for lane, records in self.world.log.records.items():
            if lane.topic == topic and any(
                record.time == event.occurred_at and ("ce_type", b"Watermark") in record.headers
                for record in records
            ):
                return
        self._fail(event, f"there is no watermark at {event.occurred_at}")
