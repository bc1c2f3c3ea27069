"""What a chain source promises. One conformance suite (tests/contract) runs on every implementation.

A *source* answers questions about one chain. It keeps no position and publishes nothing: the one
loop in `chains.follow` asks, decides what is new, and yields `Step`s; the door `reconciler.watch`
publishes a step in one transaction of the stream and only then takes the next.

Order. `follow` asks `identify` first (at the start, on reconnect, on failover, every minute, on a
parent mismatch), then `head`, then headers walking up (or down, after a fork), then `read_block`
for each height in order, or `read_range` well below the finalized height.

Repeat. Every method may be asked again with the same arguments and gives an equal answer unless the
chain itself changed. A source that fails over to another node asks that node `identify` before it
believes it. No method ever answers "nothing" for "I do not know": it raises.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.facts import (
    AddressCovered,
    BalanceSeen,
    BlockRetracted,
    ChainFact,
    TransactionLookedUp,
    TransferSeen,
    Watermark,
)
from schemas.requests import ChainRequest


class Header(Struct, frozen=True, kw_only=True):
    """One block's place on the chain. `coverage_time` follows the chain's rule (DESIGN section 7).

    Hashes are in the chain's display form, lower case, `0x` where the chain writes it.
    """

    height: int
    hash: str
    parent_hash: str
    time: datetime
    coverage_time: datetime


class Head(Struct, frozen=True, kw_only=True):
    """The tip that a node claims, and up to where the chain itself calls it final.

    `finalized_height` is 0 where the chain has no such notion or the node does not know yet.
    """

    header: Header
    finalized_height: int


class BlockRead(Struct, frozen=True, kw_only=True):
    """Everything that one block, or a span of blocks, pays to watched addresses.

    `ignored` counts, by reason, what looked like a payment and is none (`zero_value`,
    `unlisted_contract`, `failed_transaction`, …): for metrics only. `recipients` holds the address
    bytes of every credited party of the block, watched or not, so that the loop can answer for
    addresses that are watched a moment later without asking the node again. `spent` says, for a
    single block, which transaction used each nonce (`<address>:<n>`) or outpoint (`<txid>:<n>`), in
    lower case: a retracted transfer whose nonce or input another transaction used cannot come back.
    """

    header: Header
    transfers: Sequence[TransferSeen]
    ignored: dict[str, int]
    recipients: frozenset[bytes]
    spent: Mapping[str, str] = {}


class Unmined(Struct, frozen=True, kw_only=True):
    """What waits in a node's mempool: all that it pays to watched addresses, and who spends what.

    `transfers` have no block and name the outpoints that they spend. `spent` says of the outpoints
    that were asked about which waiting transaction spends each: `<txid>:<n>` to txid. What is missing
    says nothing: nodes forget, and no two have the same mempool.
    """

    transfers: Sequence[TransferSeen] = ()
    spent: Mapping[str, str] = {}


class WatchedAddresses(Protocol):
    """The addresses of ours on one chain, as bytes. Asked for every recipient: O(1), no copies."""

    def __contains__(self, address_bytes: object, /) -> bool:
        """Tell whether the bytes are an address of ours."""
        ...

    def __len__(self) -> int:
        """Count them."""
        ...


class ChainSource(Protocol):
    """One chain, seen through one or more nodes."""

    @property
    def chain(self) -> ChainName:
        """The chain that `identify` insists on."""
        ...

    async def start(self) -> None:
        """Open connections, `identify`, compare the catalogue's decimals, learn what nodes can do.

        **Raises**: `WrongChain`, `CatalogueDiffers`; `Retryable` when no node answers.
        """
        ...

    async def close(self) -> None:
        """Release connections. May be called twice."""
        ...

    async def identify(self) -> None:
        """Ask for chain id (or genesis) again. **Raises**: `WrongChain` naming both ids."""
        ...

    @property
    def shows_mempool(self) -> bool:
        """Whether `pending` ever gives anything. Asked after `start`."""
        ...

    def blind_spots(self) -> Sequence[str]:
        """Name, for people, what these nodes cannot show (inner calls without a tracing node)."""
        ...

    async def head(self) -> Head:
        """Give the tip. It may be lower than before: that is a lagging node, or a reorganisation."""
        ...

    async def header_at(self, height: int) -> Header:
        """Give the header at a height of the node's present chain. **Raises**: `NodeBehind`."""
        ...

    async def header_by_hash(self, block_hash: str) -> Header | None:
        """Give a header by hash, or None when the node says that it has no such block."""
        ...

    async def read_block(self, header: Header, watched: WatchedAddresses) -> BlockRead:
        """Read one block by hash, whole, and find every hit again in its own receipt.

        Never returns half a block. **Raises**: `NodeBehind` (block or receipts not there yet),
        `AnswerRefused` (roots, hashes or copies conflict), other `Retryable`.
        """
        ...

    async def read_range(
        self, first_height: int, last: Header, watched: WatchedAddresses
    ) -> BlockRead:
        """Read `first_height` … `last` below the finalized height in one go; `recipients` is empty.

        Halves on any error, on suspicious row counts, down to one block, which is `read_block`.
        Counts only if the same answer path also gave the hash of `last`. May be slow: days of blocks.
        """
        ...

    async def look_up(self, tx: str, watched: WatchedAddresses) -> TransactionLookedUp:
        """Tell what the chain knows of a transaction; `request` is left empty for the caller."""
        ...

    async def history_reaches(self, height: int) -> bool:
        """Prove that receipts at this height are still there (a pruned node answers with nothing)."""
        ...

    async def balance_at(self, asset: AssetName, address: str, header: Header) -> BaseUnits:
        """Give what an address holds of a listed asset after a block, which must be final.

        A way of looking that needs no transfer to be found. **Raises**: `Unsupported` where a chain
        has no such question or no node still knows; `NodeBehind`; `AnswerRefused`.
        """
        ...

    async def agree(self, header: Header) -> bool:
        """Ask a *second* node whether it has this block on its chain. False when there is none."""
        ...

    async def wait_for_change(self, timeout_s: float) -> None:
        """Return when the head may have moved, at the latest after `timeout_s`. Never raises."""
        ...

    async def pending(
        self, watched: WatchedAddresses, outpoints: Collection[str]
    ) -> Unmined | None:
        """Give what waits to be mined; None where `shows_mempool` is False (EVM).

        Asked between blocks, with the outpoints of what was seen before. **Raises**: `Retryable`.
        """
        ...


class Checkpoint(Struct, frozen=True, kw_only=True):
    """What the last run left in the stream: its watermarks, newest last, down to the finalized one.

    The stream is the watcher's only memory. `offset_upto` is the watchlist offset up to which
    back-scans are announced: later entries are scanned back again, which is harmless.
    """

    watermarks: Sequence[Watermark]

    @property
    def last(self) -> Watermark:
        """The newest watermark."""
        return self.watermarks[-1]


class LogMemory(Protocol):
    """What the stream remembers of what the loop said, where the loop's own memory ends."""

    async def older(self, down_to: int) -> Sequence[Watermark]:
        """Give the watermarks that stand, oldest first, from a height up or from as far back as the
        stream reaches.
        """
        ...

    async def announced(self, back_s: float) -> Sequence[TransferSeen]:
        """Give the transfers that were said to wait to be mined, within so many seconds before the last
        word in the stream, and of which nothing else was said since.
        """
        ...


class Step(Struct, frozen=True, kw_only=True):
    """Facts that become visible together, in this order, or not at all.

    Facts about an address go to that address's lane; `BlockRetracted` and `Watermark` to every lane.
    A step without a watermark carries look-ups only.
    """

    facts: Sequence[ChainFact]

    @property
    def watermark(self) -> Watermark | None:
        """The watermark that closes the step, if it has one."""
        last = self.facts[-1] if self.facts else None
        return last if isinstance(last, Watermark) else None


class WatchEntry(Struct, frozen=True, kw_only=True):
    """One line of the watchlist: an address of ours, how far back to look, and where it stood.

    `offset` orders back-scans: `Watermark.watchlist_upto` never passes one that is not announced.
    """

    raw: bytes
    display: str
    since: datetime
    offset: int


class FollowStatus(Struct, frozen=True, kw_only=True):
    """Where the loop stands, for health, metrics and people. `held` says why it does not go on.

    `look_ups_open` counts what `request` was given and is not answered: whoever asks gives no more
    than the loop works off, for it takes only so many.
    """

    head_height: int
    covered_height: int
    covered_time: datetime | None
    finalized_height: int
    watched: int
    back_scans_open: int
    look_ups_open: int
    retracted_total: int
    failures_in_a_row: int
    held: str | None


class FollowLoop(Protocol):
    """The one loop that all chains share (`chains.follow.Follower`).

    Strictly pulled: a step is final once `next_step` is called again. A caller that could not
    publish a step throws the loop away and builds a new one from the stream's last watermarks.
    """

    async def next_step(self) -> Step:
        """Wait for and give the next facts, whole blocks in order, closed by their watermark.

        Blocks without facts may share one watermark, at most one a second; the last watermark is
        given again every 30 s when nothing moves. `Retryable` errors are retried inside, with
        back-off, and show in `status`; only `Fatal` ones come out.
        """
        ...

    def add_addresses(self, entries: Sequence[WatchEntry], *, read_upto_offset: int) -> None:
        """Watch these too. Those that need a back-scan get an `AddressCovered` in a later step.

        `read_upto_offset` is how far the watchlist was read: the next offset to come.
        """
        ...

    def request(self, request: ChainRequest) -> None:
        """Look up, read again, or release; answered by facts in a later step."""
        ...

    def status(self) -> FollowStatus:
        """Tell where the loop stands. Never waits."""
        ...


def address_of(fact: ChainFact) -> str | None:
    """Give the address whose lane a fact belongs to, or None when it belongs to every lane."""
    if isinstance(fact, AddressCovered | BalanceSeen):
        return fact.address
    if isinstance(fact, BlockRetracted | Watermark | TransactionLookedUp):
        return None
    return fact.to
