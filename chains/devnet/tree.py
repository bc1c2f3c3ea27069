"""Blocks and branches: every block ever made, and which of them are the chain now. Pure memory.

Nothing is forgotten: a branch that was left can become the chain again.
"""

from __future__ import annotations

from msgspec import Struct

from chains.devnet.blocks import Block
from chains.devnet.hexadecimal import ScriptError, data


class Change(Struct, frozen=True):
    """The chain moved: what left it, newest first, and what joined it, oldest first."""

    removed: tuple[Block, ...]
    added: tuple[Block, ...]


class BlockTree:
    """All blocks of one chain, by hash, and the canonical line through them."""

    def __init__(self, genesis: Block) -> None:
        self._by_hash: dict[bytes, Block] = {genesis.hash: genesis}
        self._line: list[Block] = [genesis]
        self.height_max = genesis.height

    @property
    def head(self) -> Block:
        """The last block of the chain."""
        return self._line[-1]

    def get(self, block_hash: bytes) -> Block | None:
        """Give a block of any branch."""
        return self._by_hash.get(block_hash)

    def at(self, height: int) -> Block | None:
        """Give the chain's block at a height."""
        return self._line[height] if 0 <= height < len(self._line) else None

    def is_canonical(self, block: Block) -> bool:
        """Tell whether the block is on the chain now."""
        return self.at(block.height) is block

    def parent(self, block: Block) -> Block:
        """Give a block's parent; the genesis has none."""
        return self._by_hash[block.parent_hash]

    def ancestor(self, block: Block, height: int) -> Block | None:
        """Give the block at a height on the branch that ends in `block`."""
        if height > block.height or height < 0:
            return None
        while block.height > height and not self.is_canonical(block):
            block = self.parent(block)
        return self.at(height) if self.is_canonical(block) else block

    def is_ancestor(self, older: Block, younger: Block) -> bool:
        """Tell whether `older` is on the branch that ends in `younger`."""
        return self.ancestor(younger, older.height) is older

    def add(self, block: Block) -> None:
        """Remember a block. It does not become the chain by that."""
        if block.parent_hash not in self._by_hash:
            message = f"block {data(block.hash)} has an unknown parent {data(block.parent_hash)}"
            raise ScriptError(message)
        self._by_hash[block.hash] = block
        self.height_max = max(self.height_max, block.height)

    def switch_to(self, tip: Block) -> Change:
        """Make the branch that ends in `tip` the chain, whatever its length."""
        joined: list[Block] = []
        block = tip
        while not self.is_canonical(block):
            joined.append(block)
            block = self.parent(block)
        left = self._line[block.height + 1 :]
        del self._line[block.height + 1 :]
        joined.reverse()
        self._line.extend(joined)
        return Change(tuple(reversed(left)), tuple(joined))
