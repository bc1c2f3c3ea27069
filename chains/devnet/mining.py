"""A chain that grows, forks and comes back when it is told to.

Decides which branch is the chain, and what waits in the mempool; tells its listeners of every change.
Never talks: nodes (`chains.devnet.node`) read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chains.devnet.blocks import Block
from chains.devnet.branching import BranchingChain, MinedBlock
from chains.devnet.execution import Rules
from chains.devnet.hexadecimal import ScriptError, bytes_of, data, hash_bytes
from chains.devnet.ledger import nonce_key
from chains.devnet.mempool import Mempool
from chains.devnet.scripted import Transaction
from chains.devnet.tree import BlockTree, Change
from chains.devnet.world import Seed, World

#: As anvil: two epochs of 32 blocks behind the head, one for `safe`.
FINALITY_LAG: Final = 64
SAFE_LAG: Final = 32


class MinedChain(BranchingChain[Block, Transaction]):
    """One scripted chain: mempool, branches, finality."""

    def __init__(self, seed: Seed, rules: Rules) -> None:
        super().__init__()
        self.world = World(seed, rules)
        self.mempool = Mempool()
        self.listeners: list[Callable[[Change[Block]], None]] = []
        self.mempool_listeners: list[Callable[[Transaction], None]] = []
        self._bridged: list[Transaction] = []
        self._dropped: set[bytes] = set()
        self._finalized: int | None = 0
        self._finality_lag: int | None = FINALITY_LAG

    @property
    def chain_id(self) -> int:
        """The chain's own id."""
        return self.world.seed.chain_id

    @property
    def finalized_height(self) -> int | None:
        """Up to where the chain calls itself final; None where it has no such notion."""
        return None if self._finalized is None else min(self._finalized, self.height)

    @property
    def safe_height(self) -> int | None:
        """The height of the `safe` tag, between final and head."""
        final = self.finalized_height
        return None if final is None else max(final, self.height - SAFE_LAG)

    def finalize(self, height: int) -> None:
        """Call everything up to a height final. From now on nothing else moves finality."""
        self._finality_lag, self._finalized = None, height

    def finality_lag(self, blocks: int | None) -> None:
        """Let finality follow the head by so many blocks, and never back; None: there is no such notion."""
        self._finality_lag = blocks
        self._finalized = None if blocks is None else max(0, self.height - blocks)

    def mine(
        self,
        blocks: int = 1,
        *,
        time: int | None = None,
        transactions: Sequence[str] | None = None,
        extra_data: str | None = None,
    ) -> MinedBlock:
        """Mine blocks; the first takes what waits (or exactly `transactions`), the rest are empty.

        **Units**: `time` in seconds since 1970, of the first block; it may not be before its parent.
        **Raises**: `ScriptError`.
        """
        wanted = self._wanted(blocks, transactions)
        self._mine_one(wanted, time=time, extra_data=extra_data)
        for _ in range(blocks - 1):
            self._mine_one((), time=None, extra_data=extra_data)
        return self._told(self.world.tree.head)

    def reorganise(
        self,
        depth: int,
        *,
        length: int | None = None,
        omit: Sequence[str] = (),
        drop: Sequence[str] = (),
        place: Mapping[str, int] | None = None,
        beyond_finalized: bool = False,
    ) -> MinedBlock:
        """Replace the last `depth` blocks by `length` others (one more, if not said).

        A transaction keeps its place unless it is named: `omit` puts it back into the mempool, `drop`
        forgets it for ever, `place` mines it in the new block of that number, counted from zero (it
        need not have been mined before: so is a transaction replaced by another).
        **Raises**: `ScriptError`, also for a depth beyond finality unless `beyond_finalized`.
        """
        fork = self._fork_point(depth, beyond_finalized=beyond_finalized)
        count = depth + 1 if length is None else length
        tip = self._branch_from(fork, count, (*omit, *drop), place or {})
        self._dropped |= {hash_bytes(tx) for tx in drop}
        return self._leave_for(tip)

    def rewind(self, depth: int, *, beyond_finalized: bool = False) -> MinedBlock:
        """Take the last blocks away without putting others in their place; their money waits again."""
        return self._leave_for(self._fork_point(depth, beyond_finalized=beyond_finalized))

    def submit(self, tx: Transaction, *, hold: bool = False) -> str:
        """Put a transaction into the mempool; `hold` only makes it known, for `mine` or `place`."""
        self.world.transactions[tx.hash] = tx
        if hold:
            return data(tx.hash)
        self._check_nonce(tx)
        self.mempool.add(tx)
        for listener in self.mempool_listeners:
            listener(tx)
        return data(tx.hash)

    def bridge(self, tx: Transaction) -> str:
        """Append a bridge's transaction to the next block, outside of its roots (Polygon)."""
        self.world.transactions[tx.hash] = tx
        self._bridged.append(tx)
        return data(tx.hash)

    def next_nonce(self, sender: bytes) -> int:
        """Give the nonce of a sender's next transaction, the mempool's included."""
        return self.mempool.next_nonce(sender, self.mined_nonce(sender))

    def mined_nonce(self, sender: bytes) -> int:
        """Give the nonce of a sender's next transaction, as the head has it."""
        return self.world.ledger.number(nonce_key(sender), self.world.tree.head)

    def _mine_one(
        self, wanted: Sequence[Transaction] | None, *, time: int | None, extra_data: str | None
    ) -> None:
        block = self.world.grow(
            self.world.tree.head,
            self.mempool if wanted is None else wanted,
            bridged=self._bridged,
            time=time,
            extra_data=None if extra_data is None else bytes_of(extra_data),
        )
        if wanted is not None and len(block.executed) < len(wanted):
            message = "a transaction cannot be mined: its nonce or its money does not fit"
            raise ScriptError(message)
        self._bridged = []
        self._switch(block)

    def _grow_again(
        self, tip: Block, was: Block | None, away: set[bytes], placed: list[Transaction]
    ) -> Block:
        """Make the block that stands in another's place: what it held and keeps, and what is placed."""
        held = () if was is None else was.executed
        kept = [one for one in held if one.transaction.hash not in away]
        block = self.world.grow(
            tip,
            [*(one.transaction for one in kept if not one.bridge), *placed],
            bridged=[one.transaction for one in kept if one.bridge],
            time=None if was is None else max(was.time, tip.time),
        )
        mined = {one.transaction.hash for one in block.executed}
        for tx in placed:
            if tx.hash not in mined:
                message = f"{data(tx.hash)} cannot be mined there: its nonce or money does not fit"
                raise ScriptError(message)
        return block

    def _switch(self, tip: Block) -> None:
        change = self.world.tree.switch_to(tip)
        if self._finality_lag is not None:
            self._finalized = max(self._finalized or 0, self.height - self._finality_lag)
        for block in change.added:
            for one in block.executed:
                self.mempool.remove(one.transaction.hash)
        self._take_back(change)
        self.mempool.drop_stale(self.mined_nonce)
        for listener in list(self.listeners):
            listener(change)

    def _take_back(self, change: Change[Block]) -> None:
        for block in reversed(change.removed):
            for one in block.executed:
                tx = one.transaction
                mined_again = self.world.find(tx.hash, self.world.tree.head) is not None
                if not mined_again and not one.bridge and tx.hash not in self._dropped:
                    self.mempool.add(tx)

    def _known(self, tx: str) -> Transaction:
        return self.world.known(hash_bytes(tx))

    def _fork_point(self, depth: int, *, beyond_finalized: bool) -> Block:
        fork = self.world.tree.at(self.height - depth) if depth >= 1 else None
        if fork is None:
            message = f"expected a depth of 1 to {self.height}, found {depth}"
            raise ScriptError(message)
        final = self.finalized_height
        if final is not None and fork.height < final and not beyond_finalized:
            message = f"depth {depth} goes below the finalized height {final}; say beyond_finalized"
            raise ScriptError(message)
        return fork

    def _check_nonce(self, tx: Transaction) -> None:
        mined = self.mined_nonce(tx.sender)
        if tx.nonce < mined:
            message = f"nonce too low: next nonce {mined}, tx nonce {tx.nonce}; hold it to place it"
            raise ScriptError(message)

    @property
    def _title(self) -> str:
        return f"chain {self.chain_id}"

    @property
    def _tree(self) -> BlockTree[Block]:
        return self.world.tree

    def _hash(self, tx: str) -> bytes:
        return hash_bytes(tx)

    def _told(self, block: Block) -> MinedBlock:
        return MinedBlock(
            height=block.height,
            hash=data(block.hash),
            parent_hash=data(block.parent_hash),
            time=block.time,
            transactions=tuple(data(one.transaction.hash) for one in block.executed),
        )
