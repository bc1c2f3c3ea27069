"""Transactions that wait for a block, in the order in which they came. Pure memory.

One sender and nonce hold one place: a newcomer replaces what waits there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from chains.devnet.scripted import Transaction

WAITING_MAX: Final = 100_000


class Mempool:
    """What is known and not mined."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, Transaction] = {}
        self._places: defaultdict[bytes, dict[int, bytes]] = defaultdict(dict)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._waiting.values()))

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, tx_hash: object) -> bool:
        return tx_hash in self._waiting

    def add(self, tx: Transaction) -> None:
        """Let it wait; what waited with the same sender and nonce is gone."""
        if len(self._waiting) >= WAITING_MAX:
            message = f"the mempool holds {WAITING_MAX} transactions, which is its most"
            raise OverflowError(message)
        replaced = self._places[tx.sender].get(tx.nonce)
        if replaced is not None:
            self.remove(replaced)
        self._places[tx.sender][tx.nonce] = tx.hash
        self._waiting[tx.hash] = tx

    def remove(self, tx_hash: bytes) -> None:
        """Forget one, if it waits."""
        tx = self._waiting.pop(tx_hash, None)
        if tx is not None:
            del self._places[tx.sender][tx.nonce]

    def next_nonce(self, sender: bytes, mined: int) -> int:
        """Give the first nonce that neither the chain nor the mempool has used."""
        taken = self._places[sender]
        while mined in taken:
            mined += 1
        return mined

    def drop_stale(self, mined_nonce: Callable[[bytes], int]) -> list[Transaction]:
        """Drop those whose nonce the chain has used meanwhile."""
        stale = [tx for tx in self if tx.nonce < mined_nonce(tx.sender)]
        for tx in stale:
            self.remove(tx.hash)
        return stale


def in_nonce_order(
    waiting: Iterable[Transaction], next_nonce: Callable[[bytes], int]
) -> Iterator[Transaction]:
    """Give those that can be mined now, a sender's own one after the other.

    `next_nonce` is asked again after each one that was taken.
    """
    left = list(waiting)
    moved = True
    while moved:
        moved = False
        rest = []
        for tx in left:
            if tx.nonce == next_nonce(tx.sender):
                moved = True
                yield tx
            else:
                rest.append(tx)
        left = rest
