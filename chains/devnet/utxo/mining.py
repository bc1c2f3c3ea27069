"""A UTXO chain that grows, forks and comes back when it is told to.

Decides which branch is the chain, what waits to be mined, and who hears of it. Never talks: nodes
(`chains.devnet.utxo.node`) read it. There is no finality here: a reorganisation may be as deep as the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chains.devnet.branching import BranchingChain, MinedBlock
from chains.devnet.hexadecimal import ScriptError
from chains.devnet.tree import BlockTree
from chains.devnet.utxo.blocks import Block
from chains.devnet.utxo.mempool import NotAccepted, UtxoMempool
from chains.devnet.utxo.transactions import Output, Transaction, hash_bytes
from chains.devnet.utxo.wallet import Wallet
from chains.devnet.utxo.world import UtxoSeed, UtxoWorld
from chains.utxo import address
from chains.utxo.merkle import shown

#: What a miner earns in a block. **Units**: satoshi.
SUBSIDY: Final = 50 * 10**8
#: OP_RETURN: nobody's, so that blocks pay nobody by themselves.
MINER: Final = b"\x6a\x06devnet"
#: The block that fills the customers' wallet: no branch leaves it out.
FIRST_HEIGHT: Final = 1


class MinedUtxoChain(BranchingChain[Block, Transaction]):
    """One scripted chain: the miners' mempool, branches, coins."""

    def __init__(self, seed: UtxoSeed) -> None:
        super().__init__()
        self.world = UtxoWorld(seed)
        self.mempool = UtxoMempool(self.world, self.world.tree.head, full_rbf=True)
        self.wallet = Wallet(self.world)
        self.listeners: list[Callable[[Transaction], object]] = []
        self.mine()

    @property
    def name(self) -> str:
        """The network's name."""
        return self.world.seed.network

    def mine(
        self,
        blocks: int = 1,
        *,
        time: int | None = None,
        transactions: Sequence[str] | None = None,
        pay_to: str | None = None,
    ) -> MinedBlock:
        """Mine blocks; the first takes what waits (or exactly `transactions`), the rest are empty.

        **Units**: `time` in seconds since 1970, of the first block; it may lie before its parent's, as
        long as it is above the median of eleven. `pay_to`: an address that earns the first block's
        subsidy. **Raises**: `ScriptError`.
        """
        wanted = self._wanted(blocks, transactions)
        self._mine_one(wanted, time=time, miner=MINER if pay_to is None else self.script_of(pay_to))
        for _ in range(blocks - 1):
            self._mine_one((), time=None, miner=MINER)
        return self._told(self.world.tree.head)

    def mine_aside(self, *, worked: bool = True) -> MinedBlock:
        """Make a block behind the head that does not become the chain, for a node to stand on.

        `worked` False: its work falls short of what its own bits ask for.
        """
        tip = self.world.tree.head
        return self._told(
            self.world.grow(tip, self.mempool, [Output(SUBSIDY, MINER)], worked=worked)
        )

    def reorganise(
        self,
        depth: int,
        *,
        length: int | None = None,
        omit: Sequence[str] = (),
        drop: Sequence[str] = (),
        place: Mapping[str, int] | None = None,
    ) -> MinedBlock:
        """Replace the last `depth` blocks by `length` others (one more, if not said).

        A transaction keeps its place unless it is named, or spends what is not there any more: `omit`
        puts it back into the mempool, `drop` forgets it for ever, `place` mines it in the new block of
        that number, counted from zero (it need not have been mined before: so is a transaction replaced
        by another). **Raises**: `ScriptError`.
        """
        count = depth + 1 if length is None else length
        tip = self._branch_from(self._fork_point(depth), count, (*omit, *drop), place or {})
        self.world.dropped |= {hash_bytes(tx) for tx in drop}
        return self._leave_for(tip)

    def rewind(self, depth: int) -> MinedBlock:
        """Take the last blocks away without putting others in their place; their money waits again."""
        return self._leave_for(self._fork_point(depth))

    def submit(self, tx: Transaction, *, hold: bool = False) -> str:
        """Tell everybody of a transaction; `hold` only makes it known, for `mine` or `place`.

        **Raises**: `ScriptError` where the miners refuse it.
        """
        if self.world.fee(tx) < 0:
            message = f"{shown(tx.txid)} pays more than it spends"
            raise ScriptError(message)
        self.world.transactions[tx.txid] = tx
        if not hold:
            try:
                self.mempool.accept(tx)
            except NotAccepted as error:
                message = f"{shown(tx.txid)} is refused: {error}"
                raise ScriptError(message) from error
            self._tell(tx)
        return shown(tx.txid)

    def announce(self, txid: str) -> bool:
        """Tell everybody once more of a transaction that was made; tell whether miners have it now."""
        tx = self._known(txid)
        self.world.dropped.discard(tx.txid)
        taken = self.mempool.hear(tx)
        self._tell(tx)
        return taken

    def script_of(self, to: str) -> bytes:
        """Read an address of the network, or an output script as `script:<hex>`. **Raises**: `ScriptError`."""
        try:
            if to.startswith("script:"):
                return bytes.fromhex(to.removeprefix("script:"))
            return address.parse(self.world.network, to).raw
        except ValueError as error:
            raise ScriptError(str(error)) from error

    def _tell(self, tx: Transaction) -> None:
        for listener in self.listeners:
            listener(tx)

    def _mine_one(
        self, wanted: Sequence[Transaction] | None, *, time: int | None, miner: bytes
    ) -> None:
        block = self.world.grow(
            self.world.tree.head,
            self.mempool if wanted is None else wanted,
            self._payees(miner),
            time=time,
        )
        if wanted is not None and len(block.transactions) <= len(wanted):
            message = "a transaction cannot be mined: what it spends is not there, or spent"
            raise ScriptError(message)
        self._switch(block)

    def _payees(self, miner: bytes) -> list[Output]:
        return [Output(SUBSIDY, miner), *self.wallet.filling()]

    def _grow_again(
        self, tip: Block, was: Block | None, away: set[bytes], placed: list[Transaction]
    ) -> Block:
        """Make the block that stands in another's place: what it held and keeps, and what is placed.

        It earns nothing to whoever earned in the other one.
        """
        held = () if was is None else was.transactions[1:]
        kept = [tx for tx in held if tx.txid not in away]
        block = self.world.grow(
            tip,
            [*placed, *kept],
            [Output(SUBSIDY, MINER)],
            time=None if was is None else max(was.time, tip.median_time + 1),
        )
        mined = {tx.txid for tx in block.transactions}
        for tx in placed:
            if tx.txid not in mined:
                message = f"{shown(tx.txid)} cannot be mined there: what it spends is not there"
                raise ScriptError(message)
        return block

    def _switch(self, tip: Block) -> None:
        change = self.world.tree.switch_to(tip)
        for block in change.added:
            self.wallet.learn(block)
        self.mempool.follow(tip)

    def _known(self, tx: str) -> Transaction:
        return self.world.known(hash_bytes(tx))

    def _fork_point(self, depth: int) -> Block:
        height = self.height - depth
        fork = self.world.tree.at(height) if depth >= 1 and height >= FIRST_HEIGHT else None
        if fork is None:
            message = f"expected a depth of 1 to {self.height - FIRST_HEIGHT}, found {depth}"
            raise ScriptError(message)
        return fork

    @property
    def _title(self) -> str:
        return self.name

    @property
    def _tree(self) -> BlockTree[Block]:
        return self.world.tree

    def _hash(self, tx: str) -> bytes:
        return hash_bytes(tx)

    def _told(self, block: Block) -> MinedBlock:
        """Tell of a block; its coinbase is left out."""
        return MinedBlock(
            height=block.height,
            hash=shown(block.hash),
            parent_hash=shown(block.parent_hash),
            time=block.time,
            transactions=tuple(shown(tx.txid) for tx in block.transactions[1:]),
        )
