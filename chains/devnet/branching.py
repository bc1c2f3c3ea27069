"""What every scripted chain does with its branches, whatever stands in its blocks.

Decides which branch is the chain, and which one was left last. A family says how its blocks are made, what
follows when another branch becomes the chain, and how its names are written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

from chains.devnet.hexadecimal import ScriptError
from chains.devnet.tree import BlockTree, Linked

BLOCKS_MAX: Final = 100_000

B = TypeVar("B", bound=Linked)
T = TypeVar("T")


class MinedBlock(Struct, frozen=True, kw_only=True):
    """What a script needs to know of a block."""

    height: int
    hash: str
    parent_hash: str
    time: int
    transactions: tuple[str, ...]


class BranchingChain(ABC, Generic[B, T]):
    """One chain and the branches that it left. `B` is a block of the family, `T` a transaction."""

    def __init__(self) -> None:
        self._branches: list[B] = []

    @property
    def height(self) -> int:
        """The head's height."""
        return self._tree.head.height

    def block(self, height: int | None = None) -> MinedBlock:
        """Tell of the chain's block at a height; without one, of its head."""
        found = self._tree.head if height is None else self._tree.at(height)
        if found is None:
            message = f"{self._title} has no block {height}; its head is {self.height}"
            raise ScriptError(message)
        return self._told(found)

    def flip_back(self) -> MinedBlock:
        """Make the branch that was left last the chain again; twice gives the newer one back."""
        if not self._branches:
            message = f"{self._title} was never reorganised"
            raise ScriptError(message)
        return self._leave_for(self._branches.pop())

    def _leave_for(self, tip: B) -> MinedBlock:
        """Make another branch the chain, and remember the one that was."""
        self._branches.append(self._tree.head)
        self._switch(tip)
        return self._told(tip)

    def _branch_from(self, fork: B, count: int, away: Iterable[str], place: Mapping[str, int]) -> B:
        """Make so many blocks above one; gives the last.

        Each holds what stood at its height but for `away`, and what is to be placed in it.
        """
        moved = {self._hash(tx): offset for tx, offset in place.items()}
        if not 1 <= count <= BLOCKS_MAX or any(not 0 <= at < count for at in moved.values()):
            message = f"expected places in 0 to {count - 1}, found {sorted(moved.values())}"
            raise ScriptError(message)
        gone = {self._hash(tx) for tx in away} | set(moved)
        tip = fork
        for offset in range(count):
            placed = [self._known(tx) for tx, at in place.items() if at == offset]
            tip = self._grow_again(tip, self._tree.at(fork.height + 1 + offset), gone, placed)
        return tip

    def _wanted(self, blocks: int, transactions: Sequence[str] | None) -> Sequence[T] | None:
        """Read what the first of some blocks is to hold; None for whatever waits."""
        if not 1 <= blocks <= BLOCKS_MAX:
            message = f"expected 1 to {BLOCKS_MAX} blocks, found {blocks}"
            raise ScriptError(message)
        return None if transactions is None else [self._known(one) for one in transactions]

    @property
    @abstractmethod
    def _title(self) -> str:
        """Name the chain in messages."""

    @property
    @abstractmethod
    def _tree(self) -> BlockTree[B]:
        """Every block there is."""

    @abstractmethod
    def _told(self, block: B) -> MinedBlock:
        """Write a block as the family does."""

    @abstractmethod
    def _hash(self, tx: str) -> bytes:
        """Read a transaction's name. **Raises**: `ScriptError`."""

    @abstractmethod
    def _known(self, tx: str) -> T:
        """Give a transaction by its name. **Raises**: `ScriptError`."""

    @abstractmethod
    def _switch(self, tip: B) -> None:
        """Make a branch the chain, with all that follows from it."""

    @abstractmethod
    def _grow_again(self, tip: B, was: B | None, away: set[bytes], placed: list[T]) -> B:
        """Make the block that stands in another's place: what it held and keeps, and what is placed."""
