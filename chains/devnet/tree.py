"""Blocks and branches: every block ever made, and which of them are the chain now. Pure memory.

Nothing is forgotten: a branch that was left can become the chain again.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from chains.devnet.hexadecimal import ScriptError


class Linked(Protocol):
    """What a tree must know of a block of any family."""

    @property
    def hash(self) -> bytes:
        """Its name."""
        ...

    @property
    def parent_hash(self) -> bytes:
        """The name of the block that it stands on."""
        ...

    @property
    def height(self) -> int:
        """How many blocks it stands on."""
        ...


B = TypeVar("B", bound=Linked)


class Change(Struct, Generic[B], frozen=True):
    """The chain moved: what left it, newest first, and what joined it, oldest first."""

    removed: tuple[B, ...]
    added: tuple[B, ...]


class BlockTree(Generic[B]):
    """All blocks of one chain, by hash, and the canonical line through them."""

    def __init__(self, genesis: B) -> None:
        self._by_hash: dict[bytes, B] = {genesis.hash: genesis}
        self._line: list[B] = [genesis]
        self.height_max = genesis.height

    @property
    def head(self) -> B:
        """The last block of the chain."""
        return self._line[-1]

    def get(self, block_hash: bytes) -> B | None:
        """Give a block of any branch."""
        return self._by_hash.get(block_hash)

    def at(self, height: int) -> B | None:
        """Give the chain's block at a height."""
        return self._line[height] if 0 <= height < len(self._line) else None

    def is_canonical(self, block: B) -> bool:
        """Tell whether the block is on the chain now."""
        return self.at(block.height) is block

    def parent(self, block: B) -> B:
        """Give a block's parent; the genesis has none."""
        return self._by_hash[block.parent_hash]

    def ancestor(self, block: B, height: int) -> B | None:
        """Give the block at a height on the branch that ends in `block`."""
        if height > block.height or height < 0:
            return None
        while block.height > height and not self.is_canonical(block):
            block = self.parent(block)
        return self.at(height) if self.is_canonical(block) else block

    def is_ancestor(self, older: B, younger: B) -> bool:
        """Tell whether `older` is on the branch that ends in `younger`."""
        return self.ancestor(younger, older.height) is older

    def add(self, block: B) -> None:
        """Remember a block. It does not become the chain by that."""
        if block.parent_hash not in self._by_hash:
            message = f"block {block.hash.hex()} has an unknown parent {block.parent_hash.hex()}"
            raise ScriptError(message)
        self._by_hash[block.hash] = block
        self.height_max = max(self.height_max, block.height)

    def switch_to(self, tip: B) -> Change[B]:
        """Make the branch that ends in `tip` the chain, whatever its length."""
        joined: list[B] = []
        block = tip
        while not self.is_canonical(block):
            joined.append(block)
            block = self.parent(block)
        left = self._line[block.height + 1 :]
        del self._line[block.height + 1 :]
        joined.reverse()
        self._line.extend(joined)
        return Change(tuple(reversed(left)), tuple(joined))
