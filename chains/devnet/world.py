"""Everything that exists on one chain, on all its branches; and how the next block is made of it.

Grows a block on any parent, by playing transactions on the ledger. Decides nothing about which branch
is the chain: `chains.devnet.mining` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from chains.devnet.blocks import Block, Executed, Fork, make_block
from chains.devnet.encoding import DEPOSIT_TYPE
from chains.devnet.execution import Executor, Rules
from chains.devnet.hexadecimal import ScriptError, data, keccak, word
from chains.devnet.ledger import Ledger, Sheet, coin_key, nonce_key
from chains.devnet.mempool import in_nonce_order
from chains.devnet.scripted import Transaction
from chains.devnet.tokens import Token
from chains.devnet.tree import BlockTree

GENESIS_TIME: Final = 1_700_000_000
BLOCK_TRANSACTIONS_MAX: Final = 10_000

Clock = Callable[[], int]


class Seed(Struct, frozen=True, kw_only=True):
    """What makes a chain's blocks its own. `clock` None: blocks are `block_time_s` apart."""

    chain_id: int
    block_time_s: int = 12
    genesis_time: int = GENESIS_TIME
    fork: Fork = Fork.PRAGUE
    extra_data: bytes = b""
    clock: Clock | None = None


class World:
    """Blocks, balances, tokens and transactions of one chain."""

    def __init__(self, seed: Seed, rules: Rules) -> None:
        self.seed = seed
        self.rules = rules
        self._salt = 0
        self.tree = BlockTree(self._close(None, (), time=seed.genesis_time, extra_data=None))
        self.ledger = Ledger(self.tree)
        self.tokens: dict[bytes, Token] = {}
        self.transactions: dict[bytes, Transaction] = {}
        self._blocks_of: dict[bytes, list[Block]] = {}

    def known(self, tx_hash: bytes) -> Transaction:
        """Give a transaction. **Raises**: `ScriptError`."""
        if tx_hash not in self.transactions:
            message = f"chain {self.seed.chain_id} knows no transaction {data(tx_hash)}"
            raise ScriptError(message)
        return self.transactions[tx_hash]

    def find(self, tx_hash: bytes, head: Block) -> tuple[Block, Executed] | None:
        """Give where a transaction stands on the branch that ends in `head`."""
        for block in self._blocks_of.get(tx_hash, ()):
            if self.tree.is_ancestor(block, head):
                executed = next(one for one in block.executed if one.transaction.hash == tx_hash)
                return block, executed
        return None

    def grow(
        self,
        parent: Block,
        transactions: Iterable[Transaction],
        *,
        bridged: Sequence[Transaction] = (),
        time: int | None = None,
        extra_data: bytes | None = None,
    ) -> Block:
        """Make a block on a parent out of what can be mined there; the rest is left out."""
        sheet = Sheet(self.ledger, parent)
        executor = Executor(sheet, self.tokens, self.rules)
        executed: list[Executed] = []
        for tx in in_nonce_order(transactions, lambda sender: sheet.number(nonce_key(sender))):
            if len(executed) < BLOCK_TRANSACTIONS_MAX and self._affordable(tx, sheet):
                executed.append(executor.execute(tx))
        executed += [executor.execute(tx, bridge=True) for tx in bridged]
        chosen = self._next_time(parent) if time is None else time
        block = self._close(parent, executed, time=chosen, extra_data=extra_data)
        self.tree.add(block)
        self.ledger.record(block, sheet)
        for one in executed:
            self._blocks_of.setdefault(one.transaction.hash, []).append(block)
        return block

    def _affordable(self, tx: Transaction, sheet: Sheet) -> bool:
        if self.rules.generous or tx.type == DEPOSIT_TYPE:
            return True
        needed = tx.root.value + tx.fee_max * tx.gas_limit
        return sheet.number(coin_key(tx.sender)) >= needed

    def _next_time(self, parent: Block) -> int:
        if self.seed.clock is None:
            return parent.time + self.seed.block_time_s
        return max(parent.time + 1, self.seed.clock())

    def _close(
        self,
        parent: Block | None,
        executed: Sequence[Executed],
        *,
        time: int,
        extra_data: bytes | None,
    ) -> Block:
        if parent is not None and time < parent.time:
            message = f"block time {time} lies before its parent's, {parent.time}"
            raise ScriptError(message)
        # the salt makes two blocks differ that have the same parent and content
        self._salt += 1
        return make_block(
            parent=parent,
            time=time,
            fork=self.seed.fork,
            extra_data=self.seed.extra_data if extra_data is None else extra_data,
            mix_hash=keccak(word(self.seed.chain_id) + word(self._salt)),
            executed=tuple(executed),
        )
