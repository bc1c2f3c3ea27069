"""A Bitcoin node's view of a chain: its branch, its own mempool, what it offers, how it lies all the time."""

from __future__ import annotations

from typing import Literal, Self

from chains.devnet.served import NodeSwitches, ServedNode
from chains.devnet.utxo.blocks import Block
from chains.devnet.utxo.chain import UtxoChain
from chains.devnet.utxo.mempool import UtxoMempool
from chains.devnet.utxo.transactions import Transaction, hash_bytes


class UtxoSwitches(NodeSwitches, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What a Bitcoin node is like, beside what any node is.

    `genesis`: the hash that it gives its first block. `tx_index`: whether it finds mined transactions
    by their id alone. `pruned_below`: blocks below this height are gone, but for their headers.
    `warming_up`: refuses every question. `hears`: whether anybody tells it of new transactions.
    `full_rbf`: lets also those be replaced that do not say so. `speaks`: like whom it answers; bitcoind
    up to 27, litecoind and dogecoind give an error a status of its own, the others 200. `takes_batches`:
    else it refuses them. `credentials`: `user:password` that it asks for.
    """

    genesis: str | None = None
    tx_index: bool = False
    pruned_below: int = 0
    warming_up: bool = False
    hears: bool = True
    full_rbf: bool = False
    speaks: Literal["bitcoind_27", "bitcoind_28", "btcd"] = "bitcoind_27"
    takes_batches: bool = True
    credentials: str | None = None


class UtxoNode(ServedNode[Block, UtxoSwitches]):
    """A URL, as its clients see it. `held` is its mempool as of the last question."""

    def __init__(self, chain: UtxoChain, name: str) -> None:
        super().__init__(chain.world.tree, name, UtxoSwitches())
        self.chain = chain
        self.held = UtxoMempool(chain.world, self.head)
        for tx in chain.mempool:
            self.held.hear(tx)
        chain.listeners.append(self._told)

    def behind(self, blocks: int) -> Self:
        """Give this node as it was so many blocks ago, with a mempool of its own."""
        other = super().behind(blocks)
        other.held = self.held.copy()
        return other

    @staticmethod
    def block_name(text: str) -> bytes:
        """Read a hash as people see it."""
        return hash_bytes(text)

    @property
    def mempool(self) -> UtxoMempool:
        """What waits at this node, as of its head."""
        self.held.full_rbf = self.switches.full_rbf
        self.held.follow(self.head)
        return self.held

    def hear(self, txid: str) -> bool:
        """Tell this node alone of a transaction that was made; tell whether it has it now."""
        return self.mempool.hear(self.chain.world.known(hash_bytes(txid)))

    def evict(self, txid: str) -> None:
        """Let this node alone forget a waiting transaction."""
        self.mempool.evict(hash_bytes(txid))

    def restart(self) -> None:
        """Lose the mempool, as a node does that was killed."""
        self.mempool.clear()

    def find(self, txid: bytes) -> Block | None:
        """Give the block of a transaction on this node's chain."""
        return self.chain.world.find(txid, self.head)

    def has_body(self, block: Block) -> bool:
        """Tell whether a block's transactions are still there."""
        return block.height >= self.switches.pruned_below

    def _told(self, tx: Transaction) -> None:
        if self.switches.hears:
            self.mempool.hear(tx)
