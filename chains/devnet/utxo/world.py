"""Everything that exists on one UTXO chain, on all its branches; and how the next block is made of it.

Knows which output exists and is unspent on the branch that ends in a block. Decides nothing about
which branch is the chain: `chains.devnet.utxo.mining` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from chains.devnet.hexadecimal import ScriptError
from chains.devnet.tree import BlockTree
from chains.devnet.utxo.blocks import Block, make_block, make_coinbase
from chains.devnet.utxo.genesis import NETWORKS, regtest
from chains.devnet.utxo.transactions import (
    Output,
    Transaction,
    index_of,
    outpoint_at,
    outpoint_text,
)
from chains.utxo.merkle import HASH_BYTES, shown

#: Of the block behind the first, whose own time is long ago.
START_TIME: Final = 1_700_000_000
BLOCK_TRANSACTIONS_MAX: Final = 10_000

Clock = Callable[[], int]


class UtxoSeed(Struct, frozen=True, kw_only=True):
    """What makes a chain's blocks its own. `clock` None: blocks are `block_time_s` apart."""

    network: str = "bitcoin-regtest"
    block_time_s: int = 600
    start_time: int = START_TIME
    clock: Clock | None = None


class UtxoWorld:
    """Blocks, transactions and outputs of one chain."""

    def __init__(self, seed: UtxoSeed) -> None:
        if seed.network not in NETWORKS:
            message = f"expected a network of {', '.join(NETWORKS)}, found {seed.network!r}"
            raise ScriptError(message)
        self.seed = seed
        self.network, self.rules, genesis = regtest(seed.network)
        self.tree = BlockTree(genesis)
        self.transactions: dict[bytes, Transaction] = {}
        self._blocks_of: defaultdict[bytes, list[Block]] = defaultdict(list)
        self._spent_in: defaultdict[bytes, list[tuple[Block, Transaction]]] = defaultdict(list)
        self.dropped: set[bytes] = set()
        self._salt = 0

    def known(self, txid: bytes) -> Transaction:
        """Give a transaction. **Raises**: `ScriptError`."""
        if txid not in self.transactions:
            message = f"{self.seed.network} knows no transaction {shown(txid)}"
            raise ScriptError(message)
        return self.transactions[txid]

    def output(self, outpoint: bytes) -> Output | None:
        """Give an output of any transaction that was ever made."""
        tx = self.transactions.get(outpoint[:HASH_BYTES])
        index = index_of(outpoint)
        return tx.outputs[index] if tx is not None and index < len(tx.outputs) else None

    def fee(self, tx: Transaction) -> int:
        """Give what a transaction leaves to the miner. **Raises**: `ScriptError`. **Units**: satoshi."""
        spent = 0
        for outpoint in tx.spends:
            output = self.output(outpoint)
            if output is None:
                message = f"there is no output {outpoint_text(outpoint)}"
                raise ScriptError(message)
            spent += output.amount
        return spent - sum(one.amount for one in tx.outputs)

    def find(self, txid: bytes, head: Block) -> Block | None:
        """Give the block of a transaction on the branch that ends in `head`."""
        for block in self._blocks_of.get(txid, ()):
            if self.tree.is_ancestor(block, head):
                return block
        return None

    def places(self, txid: bytes) -> Sequence[Block]:
        """Give every block of any branch that holds a transaction."""
        return tuple(self._blocks_of.get(txid, ()))

    def spender(self, outpoint: bytes, head: Block) -> Transaction | None:
        """Give what spent an output on the branch that ends in `head`."""
        for block, tx in self._spent_in.get(outpoint, ()):
            if self.tree.is_ancestor(block, head):
                return tx
        return None

    def is_there(self, outpoint: bytes, head: Block) -> bool:
        """Tell whether an output exists and is unspent on the branch that ends in `head`."""
        made = self.output(outpoint) is not None
        return (
            made
            and self.find(outpoint[:HASH_BYTES], head) is not None
            and self.spender(outpoint, head) is None
        )

    def grow(
        self,
        parent: Block,
        transactions: Iterable[Transaction],
        payees: Sequence[Output],
        *,
        time: int | None = None,
        worked: bool = True,
    ) -> Block:
        """Make a block on a parent out of what can be mined there; the rest is left out.

        **Units**: `time` in seconds since 1970. **Raises**: `ScriptError` where it is not above the
        median of the eleven blocks before.
        """
        chosen = _Chosen(self, parent)
        chosen.take_all(transactions)
        self._salt += 1
        coinbase = make_coinbase(
            parent.height + 1, self._salt, payees, chosen.taken, segwit=self.rules.segwit
        )
        self.transactions[coinbase.txid] = coinbase
        block = make_block(
            parent,
            [coinbase, *chosen.taken],
            time=self._time(parent, time),
            rules=self.rules,
            worked=worked,
        )
        self.tree.add(block)
        for tx in block.transactions:
            self._blocks_of[tx.txid].append(block)
            for outpoint in tx.spends:
                self._spent_in[outpoint].append((block, tx))
        return block

    def _time(self, parent: Block, time: int | None) -> int:
        if time is None:
            return self._next_time(parent)
        if time <= parent.median_time:
            message = f"block time {time} is not above the median before it, {parent.median_time}"
            raise ScriptError(message)
        return time

    def _next_time(self, parent: Block) -> int:
        if not parent.height:
            return self.seed.start_time
        if self.seed.clock is None:
            return max(parent.median_time + 1, parent.time + self.seed.block_time_s)
        return max(parent.median_time + 1, self.seed.clock())


class _Chosen:
    """The transactions of a block that is being made, each behind those whose outputs it spends."""

    def __init__(self, world: UtxoWorld, parent: Block) -> None:
        self.taken: list[Transaction] = []
        self._world = world
        self._parent = parent
        self._made: set[bytes] = set()
        self._spent: set[bytes] = set()

    def take_all(self, transactions: Iterable[Transaction]) -> None:
        left, moved = list(transactions), True
        while moved and left:
            rest = [tx for tx in left if not self._take(tx)]
            moved, left = len(rest) < len(left), rest

    def _take(self, tx: Transaction) -> bool:
        free = all(self._is_free(outpoint) for outpoint in tx.spends)
        if not free or len(self.taken) >= BLOCK_TRANSACTIONS_MAX:
            return False
        self.taken.append(tx)
        self._spent.update(tx.spends)
        self._made.update(outpoint_at(tx.txid, index) for index in range(len(tx.outputs)))
        return True

    def _is_free(self, outpoint: bytes) -> bool:
        if outpoint in self._spent:
            return False
        return outpoint in self._made or self._world.is_there(outpoint, self._parent)
