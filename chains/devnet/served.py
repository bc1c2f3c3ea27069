"""One node's view of a chain of any family: where it stands, and how it lies all the time.

Several nodes may serve one chain. Lies that end (after so many answers) are faults, in
`chains.devnet.faults`; what is set here lasts until it is set otherwise.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from chains.devnet.faults import FaultBook
from chains.devnet.hexadecimal import ScriptError
from chains.devnet.tree import BlockTree, Linked


class NodeSwitches(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What a node of any family is like.

    `lag`: blocks behind the chain. `on_block`: hash of the block at which it stands still, also one
    of a branch that was left. `side_blocks`: whether it still knows blocks of branches that were left.
    `half_open`: accepts and never answers. `batch_max`: longest batch that it takes.
    """

    lag: int = 0
    on_block: str | None = None
    side_blocks: bool = True
    half_open: bool = False
    batch_max: int = 1_000


B = TypeVar("B", bound=Linked)
S = TypeVar("S", bound=NodeSwitches)


class ServedNode(ABC, Generic[B, S]):
    """A URL, as its clients see it."""

    def __init__(self, tree: BlockTree[B], name: str, switches: S) -> None:
        self.tree = tree
        self.name = name
        self.switches = switches
        self.faults = FaultBook()
        self.requests = 0

    @staticmethod
    @abstractmethod
    def block_name(text: str) -> bytes:
        """Read a block's hash as this family writes it. **Raises**: `ScriptError`."""

    def set(self, **changes: object) -> None:
        """Set switches by name. **Raises**: `ScriptError` naming the switch that does not exist."""
        try:
            wanted = msgspec.to_builtins(self.switches) | changes
            self.switches = msgspec.convert(wanted, type(self.switches), strict=False)
        except msgspec.ValidationError as error:
            message = f"node {self.name}: {error}"
            raise ScriptError(message) from error

    def behind(self, blocks: int) -> Self:
        """Give this node as it was so many blocks ago: another one behind the same balancer."""
        other = copy.copy(self)
        other.set(lag=self.switches.lag + blocks)
        return other

    @property
    def head(self) -> B:
        """The block at which this node stands."""
        if self.switches.on_block is not None:
            pinned = self.tree.get(self.block_name(self.switches.on_block))
            if pinned is None:
                message = f"node {self.name} stands on an unknown block {self.switches.on_block}"
                raise ScriptError(message)
            return pinned
        block = self.tree.at(max(0, self.tree.head.height - self.switches.lag))
        return block or self.tree.head

    def at(self, height: int) -> B | None:
        """Give the block at a height on this node's own chain."""
        return self.tree.ancestor(self.head, height)

    def by_hash(self, block_hash: bytes) -> B | None:
        """Give a block that this node knows, on its chain or beside it."""
        block = self.tree.get(block_hash)
        if block is None or self.tree.is_ancestor(block, self.head):
            return block
        seen_upto = self.tree.height_max - self.switches.lag
        knows = self.switches.side_blocks and self.switches.on_block is None
        return block if knows and block.height <= seen_upto else None


AnyNode = ServedNode[Any, Any]
