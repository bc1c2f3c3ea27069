"""Chain facts: what a watcher says happened on a chain. Topic `transfers.<chain>`, keyed by address.

All facts of a block and its watermark, on all lanes, are one transaction of the stream.
"""

from __future__ import annotations

from enum import StrEnum

from schemas.amounts import BaseUnits
from schemas.caip import AssetId, ChainId
from schemas.values import (
    BlockRef,
    Count,
    Height,
    Instant,
    Message,
    ParentRef,
    ShortText,
    TransferId,
)


class FoundBy(StrEnum):
    """Which way of looking found a transfer."""

    WATCH = "watch"
    MEMPOOL = "mempool"
    BACK_SCAN = "back_scan"
    READ_AGAIN = "read_again"
    AUDIT = "audit"


class Leg(Message, frozen=True):
    """One movement inside a transaction, kept as evidence where the net effect was counted."""

    position: ShortText
    sender: ShortText
    to: ShortText
    amount: BaseUnits


class Evidence(Message, frozen=True):
    """How the transfer was proven. Never read to decide; shown to people.

    `method`: `receipts` (all receipts of the block, root checked), `receipt` (that of its own
    transaction), `trace` (call frames), `block` (an output of the block), `mempool`.
    `gross_legs` is filled where an address of ours sent some of it on in the same transaction: the
    largest of them, in their order; `gross_legs_left_out` counts the others.
    """

    method: ShortText
    node: ShortText = ""
    block_log_index: Count | None = None
    gross_legs: tuple[Leg, ...] = ()
    gross_legs_left_out: Count = 0


class TransferSeen(Message, frozen=True):
    """A transfer to an address of ours stands in a block, or in the mempool when `block` is null.

    Identity is `transfer`. The same id in another canonical block moves it and never adds.
    `sender` is for display only and empty where a chain has none. `spends` lists the outpoints
    (`<txid>:<n>`) of a UTXO transaction, `nonce_of` the account and nonce (`<address>:<n>`) of an
    EVM one: when another transaction used them, this one cannot come back.
    """

    transfer: TransferId
    chain: ChainId
    asset: AssetId
    sender: ShortText
    to: ShortText
    amount: BaseUnits
    block: BlockRef | None
    first_seen_at: Instant
    evidence: Evidence
    found_by: FoundBy
    spends: tuple[ShortText, ...] = ()
    nonce_of: ShortText | None = None
    coinbase: bool = False


class TransferDropped(Message, frozen=True):
    """A transfer can no longer be mined: something else spent its input or its nonce.

    It is also sent for a transfer whose block was retracted and that the new branch made impossible.
    """

    transfer: TransferId
    chain: ChainId
    to: ShortText
    replaced_by: ShortText | None
    reason: ShortText


class BlockRetracted(Message, frozen=True):
    """A block with a watermark is no longer on the chain. Newest first; decides nothing by itself."""

    chain: ChainId
    height: Height
    hash: ShortText
    parent: ParentRef


class Watermark(Message, frozen=True):
    """Everything of `from_height` … `height` was read and published. The watcher's checkpoint.

    `time` is the block's time where the chain forces it to rise, else the median time past, and
    never later than `read_at`, the moment of reading. `parent_hash` is that of the block at
    `from_height`. `log_id` was made by the watcher that opened the empty topic and is copied
    onward. `watchlist_upto` is the lowest watchlist offset whose back-scan is not announced yet.
    """

    chain: ChainId
    from_height: Height
    height: Height
    hash: ShortText
    parent_hash: ShortText
    time: Instant
    finalized_height: Height
    read_at: Instant
    log_id: ShortText
    watchlist_upto: Count


class AddressCovered(Message, frozen=True):
    """A newly watched address was scanned back: nothing before `from_height` was asked for."""

    chain: ChainId
    address: ShortText
    from_height: Height
    from_time: Instant


class LookedUpState(StrEnum):
    """What a node knows of a transaction."""

    UNKNOWN = "unknown"
    PENDING = "pending"
    FAILED = "failed"
    INCLUDED = "included"


class TransactionLookedUp(Message, frozen=True):
    """The answer to a claim's look-up. `pays` lists what it moves to addresses of ours.

    Where that is more than a message holds, the first to each address come before the others.
    """

    request: ShortText
    chain: ChainId
    tx: ShortText
    state: LookedUpState
    block: BlockRef | None = None
    pays: tuple[TransferId, ...] = ()
    replaced_by: ShortText | None = None


class BalanceSeen(Message, frozen=True):
    """What an address of ours held of an asset after a block that is final, as a node says it.

    An observation and no judgement: whoever knows the transfers tells whether they explain it.
    """

    request: ShortText
    chain: ChainId
    asset: AssetId
    address: ShortText
    block: BlockRef
    balance: BaseUnits


ChainFact = (
    TransferSeen
    | TransferDropped
    | BlockRetracted
    | Watermark
    | AddressCovered
    | TransactionLookedUp
    | BalanceSeen
)
