"""Rows as the services hold them: one mutable struct a table, fields named as the columns."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from schemas.amounts import BaseUnits

#: Where a hash chain begins.
NO_HASH = bytes(32)


class LaneRow(Struct):
    """How far one lane was applied. `seq` orders its last entry among everything applied."""

    lane: str
    chain: str
    seq: int = 0
    height: int | None = None
    hash: str = ""
    time: datetime | None = None
    finalized_height: int = 0
    decided_until: datetime | None = None
    log_id: str = ""
    held: str | None = None
    heard_at: datetime | None = None
    journal_hash: bytes = NO_HASH


class LaneLogRow(Struct):
    """One watermark or retraction that moved a lane's coverage, or a watermark that held it.

    What is covered after it stands in the columns. `kind` is `watermark`, `retraction` or `gap`. A watermark is `live` until its block is retracted.
    """

    seq: int
    lane: str
    kind: str
    from_height: int
    height: int
    hash: str
    time: datetime | None
    finalized_height: int
    inbox_until: datetime | None
    decided_until: datetime | None
    recorded_at: datetime
    live: bool
    key: str
    value: bytes


class AddressRow(Struct):
    """An address of ours. `owner` is the order of an own one, None for a shared one.

    `covered` lists the chains on which it was scanned back, `noted` attention codes; both
    comma-separated.
    """

    family: str
    key: str
    display: str
    owner: str | None
    watched_since: datetime
    covered: str = ""
    noted: str = ""
    journal_hash: bytes = NO_HASH

    def is_covered(self, chain: str) -> bool:
        """Tell whether the address was scanned back on a chain."""
        return chain in self.covered.split(",")

    def cover(self, chain: str) -> bool:
        """Note a chain; tells whether it is news."""
        if self.is_covered(chain):
            return False
        self.covered = ",".join(sorted({*filter(None, self.covered.split(",")), chain}))
        return True

    def note(self, code: str, *, stands: bool = True) -> None:
        """Note an attention code, or forget it where it no longer stands."""
        codes = set(filter(None, self.noted.split(","))) - {code}
        self.noted = ",".join(sorted(codes | ({code} if stands else set())))


class OrderRow(Struct):
    """An order's columns and its whole state as one document."""

    reference: str
    purchase: str | None
    route: str
    chain: str
    asset: str
    lane: str
    family: str
    address_key: str
    phase: str
    is_open: bool
    sequence: int
    assessed_seq: int
    due_time: datetime | None
    due_height: int | None
    due_finalized: int | None
    waits: bool
    page_token: str
    placed_at: datetime
    state: bytes
    journal_hash: bytes = NO_HASH


#: What a judgement changes of an order's row. The rest is as it was placed.
JUDGED_COLUMNS = (
    "phase",
    "is_open",
    "sequence",
    "assessed_seq",
    "due_time",
    "due_height",
    "due_finalized",
    "waits",
    "state",
    "journal_hash",
)


class ReservationRow(Struct):
    """One amount on a shared address, kept for one order until `match_end`."""

    family: str
    address_key: str
    chain: str
    asset: str
    amount: BaseUnits
    order_ref: str
    since: datetime
    match_end: datetime
    live: bool = True


class DerivationRow(Struct):
    """One address of an extended public key, and the order that it was given to."""

    key: str
    index: int
    order_ref: str


class TransferRow(Struct):
    """One transfer to an address of ours, as the chain has it now, and whose it is."""

    transfer: str
    chain: str
    tx: str
    asset: str
    family: str
    address_key: str
    lane: str
    sender: str
    amount: BaseUnits
    state: str
    height: int | None
    block_hash: str | None
    block_time: datetime | None
    first_time: datetime
    heard_at: datetime
    retracted_at: datetime | None
    was_final: bool
    coinbase: bool
    rule: str
    reason: str
    decided: bool
    rejected_from: str | None
    disposed: str | None
    open_kind: str | None
    tx_total: BaseUnits
    seq: int


class ShareRow(Struct):
    """A transfer's part that counts for an order."""

    transfer: str
    part: int
    order_ref: str
    share: BaseUnits


class BalanceRow(Struct):
    """What an address held of an asset when transfers last explained it, and what was seen last.

    `unexplained` is what came since and no transfer tells of; None while transfers explain it all.
    """

    address_key: str
    family: str
    asset: str
    chain: str
    height: int
    time: datetime
    balance: BaseUnits
    seen_height: int
    seen_time: datetime
    seen_balance: BaseUnits
    unexplained: BaseUnits | None = None


class ClaimRow(Struct):
    """Who named which transaction or sender, for look-ups from the other side."""

    order_ref: str
    key: str
    family: str
    tx: str | None
    sender: str | None
    claimed_at: datetime


class CommandRow(Struct):
    """An idempotency key that was used, and the digest of what it was used for."""

    key: str
    digest: bytes
    reference: str
    applied_at: datetime


class ParkedRow(Struct):
    """A command that waits for its order, with the bytes as they came."""

    reference: str
    lane: str
    offset: int
    key: bytes
    type: str
    headers: bytes
    value: bytes
    recorded_at: datetime


class DecisionRow(Struct):
    """A person's decision. `before` keeps what an undo puts back."""

    key: str
    actor: str
    reason: str
    action: bytes
    before: bytes
    decided_at: datetime
    undone_by: str | None = None


class HoldRow(Struct):
    """Verdicts wait on this chain, asset, lane or route."""

    subject: str
    actor: str
    reason: str
    since: datetime


class ExceptionRow(Struct):
    """The last state of an exception. `settled`: a person closed it while its cause is there."""

    exception: str
    kind: str
    subject: str
    order_ref: str | None
    transfer: str | None
    chain: str | None
    open: bool
    settled: bool
    revision: int
    opened_at: datetime
    body: bytes


class UnreadableRow(Struct):
    """A fact that could not be applied, as it came. `seq` orders it among everything applied."""

    seq: int
    lane: str
    offset: int
    key: bytes
    type: str
    headers: bytes
    value: bytes
    why: str
    recorded_at: datetime


class JournalRow(Struct):
    """One entry. `hash` covers the hash before it in its chain and the body's bytes.

    `seq` says at which applied record it was made; `id`, given by the database, orders a chain.
    """

    seq: int
    chain_key: str
    kind: str
    recorded_at: datetime
    body: bytes
    previous_hash: bytes
    hash: bytes


class OutboxRow(Struct):
    """A message on its way out, written with what it tells of. `id` is given where it is written."""

    shard: int
    topic: str
    key: bytes
    type: str
    event_id: str
    headers: bytes
    value: bytes | None
    recorded_at: datetime
    id: int = 0


class UnsentRow(Struct):
    """A message that has not left, and the number of the batch with which it leaves."""

    id: int
    shard: int
    batch: int | None = None
