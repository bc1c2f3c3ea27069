"""Transactions that wait for a block at one node, by the rules that decide what a node tells.

Stands on a block and follows it to others: what a block holds or makes impossible leaves, what a left
block held comes back. **Source**: Bitcoin Core validation.cpp (MemPoolAccept,
MaybeUpdateMempoolForReorg), BIP 125; fee rates and limits of ancestors are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from chains.devnet.utxo.blocks import Block
from chains.devnet.utxo.transactions import Transaction, index_of, outpoint_at
from chains.devnet.utxo.world import UtxoWorld
from chains.utxo.merkle import HASH_BYTES

WAITING_MAX: Final = 100_000
ORPHANS_MAX: Final = 100


class NotAccepted(Exception):
    """A node refuses a transaction, in its own words. `code` is that of `sendrawtransaction`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class UtxoMempool:
    """What one node knows and no block of its branch holds."""

    def __init__(self, world: UtxoWorld, head: Block, *, full_rbf: bool = False) -> None:
        self.full_rbf = full_rbf
        self._world = world
        self._head = head
        self._waiting: dict[bytes, Transaction] = {}
        self._spent: dict[bytes, Transaction] = {}
        self._orphans: dict[bytes, Transaction] = {}

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._waiting.values()))

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, txid: object) -> bool:
        return txid in self._waiting

    def spender(self, outpoint: bytes) -> Transaction | None:
        """Give what waits and spends an output."""
        return self._spent.get(outpoint)

    def accept(self, tx: Transaction) -> None:
        """Let a transaction wait; what it replaces goes, with all that spends it.

        **Raises**: `NotAccepted`. One whose inputs are unknown is remembered, and tried again later.
        """
        if tx.txid in self._waiting:
            return
        if self._world.find(tx.txid, self._head) is not None:
            raise NotAccepted(-27, "Transaction already in block chain")
        rivals = {
            self._spent[one].txid: self._spent[one] for one in tx.spends if one in self._spent
        }
        missing = [one for one in tx.spends if one not in self._spent and not self._is_there(one)]
        if missing:
            self._remember(tx, missing)
            raise NotAccepted(-25, "bad-txns-inputs-missingorspent")
        if rivals:
            self._require_replacement(tx, list(rivals.values()))
        if len(self._waiting) >= WAITING_MAX:
            raise NotAccepted(-26, "mempool full")
        self._add(tx)
        for orphan in list(self._orphans.values()):
            if any(outpoint.startswith(tx.txid) for outpoint in orphan.spends):
                self.hear(orphan)

    def follow(self, head: Block) -> None:
        """Stand on another block, of this branch or another; forget what a script has dropped."""
        for txid in self._world.dropped & self._waiting.keys():
            self.evict(txid)
        if head is self._head:
            return
        left, joined = self._way_to(head)
        self._head = head
        for block in joined:
            for tx in block.transactions:
                self._mined(tx)
        for block in left:
            for tx in block.transactions[1:]:
                self._come_back(tx)
        if left:
            self._drop_impossible()
        for orphan in list(self._orphans.values()):
            self.hear(orphan)

    def hear(self, tx: Transaction) -> bool:
        """Take a transaction where it can be taken; tell whether it waits now."""
        self._orphans.pop(tx.txid, None)
        try:
            self.accept(tx)
        except NotAccepted:
            return False
        return True

    def evict(self, txid: bytes) -> None:
        """Forget a transaction and all that spends it, if it waits."""
        tx = self._waiting.get(txid)
        if tx is not None:
            for one in self._with_descendants([tx]):
                self._remove(one)

    def copy(self) -> UtxoMempool:
        """Give another one that holds the same now."""
        other = UtxoMempool(self._world, self._head, full_rbf=self.full_rbf)
        other._waiting, other._spent = dict(self._waiting), dict(self._spent)
        return other

    def clear(self) -> None:
        """Forget all, as after a restart."""
        self._waiting.clear()
        self._spent.clear()
        self._orphans.clear()

    def _is_there(self, outpoint: bytes) -> bool:
        """Tell whether an output exists here, spent by what waits or not."""
        parent = self._waiting.get(outpoint[:HASH_BYTES])
        if parent is not None:
            return index_of(outpoint) < len(parent.outputs)
        return self._world.is_there(outpoint, self._head)

    def _require_replacement(self, tx: Transaction, rivals: list[Transaction]) -> None:
        if not self.full_rbf and not all(one.is_replaceable for one in rivals):
            raise NotAccepted(-26, "txn-mempool-conflict")
        leaving = self._with_descendants(rivals)
        if any(one.txid == outpoint[:HASH_BYTES] for one in leaving for outpoint in tx.spends):
            raise NotAccepted(-26, "bad-txns-spends-conflicting-tx")
        fee, paid = self._world.fee(tx), sum(self._world.fee(one) for one in leaving)
        if fee <= paid:
            raise NotAccepted(-26, f"insufficient fee, rejecting replacement; {fee} <= {paid}")
        for one in leaving:
            self._remove(one)

    def _remember(self, tx: Transaction, missing: list[bytes]) -> None:
        """Keep one whose parents nobody told of yet; one whose money is spent has no hope."""
        hopeless = any(self._world.spender(outpoint, self._head) for outpoint in missing)
        if not hopeless and len(self._orphans) < ORPHANS_MAX:
            self._orphans[tx.txid] = tx

    def _way_to(self, head: Block) -> tuple[list[Block], list[Block]]:
        """Give the blocks to leave and to join, each oldest first."""
        tree, left, joined = self._world.tree, [], []
        old, new = self._head, head
        while old is not new:
            if old.height >= new.height:
                left.append(old)
                old = tree.parent(old)
            else:
                joined.append(new)
                new = tree.parent(new)
        return left[::-1], joined[::-1]

    def _mined(self, tx: Transaction) -> None:
        if tx.txid in self._waiting:
            self._remove(tx)
        for outpoint in tx.spends:
            rival = self._spent.get(outpoint)
            if rival is not None:
                self.evict(rival.txid)

    def _come_back(self, tx: Transaction) -> None:
        """Let a left block's transaction wait again, unless it stands on this branch as well."""
        if tx.txid not in self._world.dropped and not self._world.find(tx.txid, self._head):
            self._add(tx)

    def _drop_impossible(self) -> None:
        """Drop what spends outputs that this branch does not have."""
        moved = True
        while moved:
            gone = [
                tx for tx in self if not all(self._is_there(outpoint) for outpoint in tx.spends)
            ]
            moved = bool(gone)
            for tx in gone:
                self.evict(tx.txid)

    def _with_descendants(self, txs: Iterable[Transaction]) -> list[Transaction]:
        """Give transactions and all that wait for them, each behind those that spend it."""
        found: dict[bytes, Transaction] = {}
        open_ = list(txs)
        while open_:
            tx = open_.pop()
            if tx.txid not in found:
                found[tx.txid] = tx
                outpoints = (outpoint_at(tx.txid, index) for index in range(len(tx.outputs)))
                open_ += [self._spent[one] for one in outpoints if one in self._spent]
        return list(reversed(found.values()))

    def _add(self, tx: Transaction) -> None:
        self._waiting[tx.txid] = tx
        for outpoint in tx.spends:
            self._spent[outpoint] = tx

    def _remove(self, tx: Transaction) -> None:
        del self._waiting[tx.txid]
        for outpoint in tx.spends:
            del self._spent[outpoint]
