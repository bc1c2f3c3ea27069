"""An EVM node's view of a chain: what it knows, what it can do, and how it lies all the time."""

from __future__ import annotations

from typing import Literal

from chains.devnet.blocks import Block, Executed
from chains.devnet.chain import DevnetChain
from chains.devnet.hexadecimal import hash_bytes
from chains.devnet.served import NodeSwitches, ServedNode


class Switches(NodeSwitches, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What an EVM node is like, beside what any node is.

    `chain_id`: what it says it is. `call_tracer`, `flat_traces`, `block_receipts`, `subscriptions`,
    `mempool`: what it offers. `future_range`: what it does with a range beyond its head.
    `range_blocks_max`, `range_rows_max`, `range_wording`: when and how it refuses a range.
    `history_from`: blocks below have no receipts or logs; it then says so (`pruned` error) or
    answers with nothing (`empty`). `removed_logs`: whether subscriptions tell of logs that left.
    """

    chain_id: int | None = None
    call_tracer: bool = True
    flat_traces: bool = True
    block_receipts: bool = True
    subscriptions: bool = True
    mempool: bool = True
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


class DevnetNode(ServedNode[Block, Switches]):
    """A URL, as its clients see it."""

    def __init__(self, chain: DevnetChain, name: str) -> None:
        super().__init__(chain.world.tree, name, Switches())
        self.chain = chain

    @staticmethod
    def block_name(text: str) -> bytes:
        """Read `0x…`."""
        return hash_bytes(text)

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
