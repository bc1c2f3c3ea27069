"""One node's view of a chain: what it knows, what it can do, and how it lies all the time.

Several nodes may serve one chain. Lies that end (after so many answers) are faults, in
`chains.devnet.faults`; what is set here lasts until it is set otherwise.
"""

from __future__ import annotations

import copy
from typing import Literal, Self

import msgspec
from msgspec import Struct

from chains.devnet.blocks import Block, Executed
from chains.devnet.chain import DevnetChain
from chains.devnet.faults import FaultBook
from chains.devnet.hexadecimal import ScriptError, hash_bytes


class Switches(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What a node is like.

    `lag`: blocks behind the chain. `on_block`: hash of the block at which it stands still, also one
    of a branch that was left. `chain_id`: what it says it is. `call_tracer`, `flat_traces`,
    `block_receipts`, `subscriptions`, `mempool`: what it offers. `side_blocks`: whether it still
    knows blocks of branches that were left. `future_range`: what it does with a range beyond its
    head. `range_blocks_max`, `range_rows_max`, `range_wording`: when and how it refuses a range.
    `history_from`: blocks below have no receipts or logs; it then says so (`pruned` error) or
    answers with nothing (`empty`). `removed_logs`: whether subscriptions tell of logs that left.
    `half_open`: accepts and never answers. `batch_max`: longest batch that it takes.
    """

    lag: int = 0
    on_block: str | None = None
    chain_id: int | None = None
    call_tracer: bool = True
    flat_traces: bool = True
    block_receipts: bool = True
    subscriptions: bool = True
    mempool: bool = True
    side_blocks: bool = True
    future_range: Literal["clip", "refuse"] = "clip"
    range_blocks_max: int | None = None
    range_rows_max: int | None = None
    range_wording: str = "10000_results"
    history_from: int = 0
    history_gone: Literal["pruned", "empty"] = "pruned"
    upper_case_topics: bool = False
    checksummed_addresses: bool = False
    wrong_receipts_root: bool = False
    removed_logs: bool = True
    half_open: bool = False
    batch_max: int = 1_000


class DevnetNode:
    """A URL, as its clients see it."""

    def __init__(self, chain: DevnetChain, name: str) -> None:
        self.chain = chain
        self.name = name
        self.switches = Switches()
        self.faults = FaultBook()
        self.requests = 0

    def set(self, **changes: object) -> None:
        """Set switches by name. **Raises**: `ScriptError` naming the switch that does not exist."""
        try:
            wanted = msgspec.to_builtins(self.switches) | changes
            self.switches = msgspec.convert(wanted, Switches, strict=False)
        except msgspec.ValidationError as error:
            message = f"node {self.name}: {error}"
            raise ScriptError(message) from error

    def behind(self, blocks: int) -> Self:
        """Give this node as it was so many blocks ago: another one behind the same balancer."""
        other = copy.copy(self)
        other.set(lag=self.switches.lag + blocks)
        return other

    @property
    def head(self) -> Block:
        """The block at which this node stands."""
        tree = self.chain.world.tree
        if self.switches.on_block is not None:
            pinned = tree.get(hash_bytes(self.switches.on_block))
            if pinned is None:
                message = f"node {self.name} stands on an unknown block {self.switches.on_block}"
                raise ScriptError(message)
            return pinned
        block = tree.at(max(0, self.chain.height - self.switches.lag))
        return block or tree.head

    def at(self, height: int) -> Block | None:
        """Give the block at a height on this node's own chain."""
        return self.chain.world.tree.ancestor(self.head, height)

    def by_hash(self, block_hash: bytes) -> Block | None:
        """Give a block that this node knows, on its chain or beside it."""
        tree = self.chain.world.tree
        block = tree.get(block_hash)
        if block is None or tree.is_ancestor(block, self.head):
            return block
        seen_upto = tree.height_max - self.switches.lag
        knows = self.switches.side_blocks and self.switches.on_block is None
        return block if knows and block.height <= seen_upto else None

    def find(self, tx_hash: bytes) -> tuple[Block, Executed] | None:
        """Give a transaction's place on this node's chain."""
        return self.chain.world.find(tx_hash, self.head)

    @property
    def finalized(self) -> Block | None:
        """The last block that this node calls final."""
        return self._tagged(self.chain.finalized_height)

    @property
    def safe(self) -> Block | None:
        """The block of the `safe` tag."""
        return self._tagged(self.chain.safe_height)

    def has_history(self, block: Block) -> bool:
        """Tell whether receipts and logs of a block are still there."""
        return block.height >= self.switches.history_from

    def _tagged(self, height: int | None) -> Block | None:
        return None if height is None else self.at(min(height, self.head.height))
