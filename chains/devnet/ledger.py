"""Balances, nonces and code at every block of every branch.

A value is what was *given* (timeless, on every branch: a script's own money) plus what transactions
changed. Changes are kept per key with the block that made them, so that any branch can be read at
any height without undoing anything.
"""

from __future__ import annotations

from collections.abc import Callable

from chains.devnet.blocks import Block
from chains.devnet.tree import BlockTree

Key = tuple[object, ...]


def coin_key(address: bytes) -> Key:
    """Give the key of a coin balance."""
    return ("coin", address)


def nonce_key(address: bytes) -> Key:
    """Give the key of a sender's next nonce."""
    return ("nonce", address)


class Ledger:
    """What every account has, at any block."""

    def __init__(self, tree: BlockTree[Block]) -> None:
        self._tree = tree
        self._given: dict[Key, int] = {}
        self._given_code: dict[bytes, bytes] = {}
        self._numbers: dict[Key, list[tuple[Block, int]]] = {}
        self._codes: dict[bytes, list[tuple[Block, bytes]]] = {}

    def give(self, key: Key, amount: int) -> None:
        """Add to a value on every branch and at every height."""
        self._given[key] = self._given.get(key, 0) + amount

    def give_code(self, address: bytes, code: bytes) -> None:
        """Set what an account's code is wherever no transaction changed it."""
        self._given_code[address] = code

    def number(self, key: Key, at: Block) -> int:
        """Give a value as it stands after a block."""
        return self._given.get(key, 0) + self.moved(key, at)

    def moved(self, key: Key, at: Block) -> int:
        """Give what transactions changed, without what was given."""
        for block, value in reversed(self._numbers.get(key, ())):
            if self._tree.is_ancestor(block, at):
                return value
        return 0

    def given(self, key: Key) -> int:
        """Give what a script gave."""
        return self._given.get(key, 0)

    def code(self, address: bytes, at: Block) -> bytes:
        """Give an account's code after a block."""
        for block, code in reversed(self._codes.get(address, ())):
            if self._tree.is_ancestor(block, at):
                return code
        return self._given_code.get(address, b"")

    def record(self, block: Block, sheet: Sheet) -> None:
        """Keep what the transactions of a block changed."""
        for key, value in sheet.numbers.items():
            self._numbers.setdefault(key, []).append((block, value))
        for address, code in sheet.codes.items():
            self._codes.setdefault(address, []).append((block, code))


class Sheet:
    """What changes while a block is made. A failing frame tears off what was written since its mark."""

    def __init__(self, ledger: Ledger, parent: Block) -> None:
        self._ledger = ledger
        self._parent = parent
        self._undo: list[Callable[[], object]] = []
        self.numbers: dict[Key, int] = {}
        self.codes: dict[bytes, bytes] = {}

    def number(self, key: Key) -> int:
        """Give a value as it stands now."""
        return self._ledger.given(key) + self._moved(key)

    def change(self, key: Key, by: int) -> None:
        """Add to a value."""
        before = self._moved(key)
        self._undo.append(lambda: self.numbers.update({key: before}))
        self.numbers[key] = before + by

    def code(self, address: bytes) -> bytes:
        """Give an account's code as it stands now."""
        if address in self.codes:
            return self.codes[address]
        return self._ledger.code(address, self._parent)

    def set_code(self, address: bytes, code: bytes) -> None:
        """Write an account's code."""
        before = self.code(address)
        self._undo.append(lambda: self.codes.update({address: before}))
        self.codes[address] = code

    def give(self, key: Key, amount: int) -> None:
        """Give a payer what a script forgot to give; timeless, so never torn off."""
        self._ledger.give(key, amount)

    def mark(self) -> int:
        """Remember how much is written."""
        return len(self._undo)

    def tear_off(self, mark: int) -> None:
        """Forget what was written since the mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def _moved(self, key: Key) -> int:
        if key in self.numbers:
            return self.numbers[key]
        return self._ledger.moved(key, self._parent)
