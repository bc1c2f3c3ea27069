"""Whatever a script does to a UTXO chain: no branch and no mempool spends an output twice or out of nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chains.devnet.hexadecimal import ScriptError
from chains.devnet.utxo.blocks import Block
from chains.devnet.utxo.chain import Pay, Spend, UtxoChain
from chains.devnet.utxo.mempool import UtxoMempool
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.transactions import Transaction, outpoint_at
from chains.devnet.utxo.world import UtxoSeed

choice = st.randoms(use_true_random=False)


class AnyStory(RuleBasedStateMachine):
    """A naive model reads the branch from its first block and knows nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.chain = UtxoChain(UtxoSeed())
        self.shop = self.chain.new_address("shop")
        self.node = UtxoNode(self.chain, "a")
        self.paid: list[str] = []

    @rule(legs=st.integers(1, 3), hold=st.booleans(), marked=st.booleans())
    def pay(self, legs: int, hold: bool, marked: bool) -> None:
        how = Spend(hold=hold, replaceable=marked)
        self.paid.append(self.chain.pay_many([Pay(self.shop, 10**6)] * legs, how))

    @precondition(lambda self: self.paid)
    @rule(lot=choice)
    def spend_on(self, lot: Random) -> None:
        tx = lot.choice(self.paid)
        self._perhaps(lambda: self.chain.pay_coin(self.shop, 9_000, Spend(inputs=(f"{tx}:0",))))

    @precondition(lambda self: self.paid)
    @rule(lot=choice, hold=st.booleans(), fee=st.integers(500, 9_000))
    def replace(self, lot: Random, hold: bool, fee: int) -> None:
        tx = lot.choice(self.paid)
        payments = [Pay(self.shop, 5_000)]
        self._perhaps(lambda: self.chain.replace(tx, payments, fee=fee, hold=hold))

    @rule(empty=st.booleans())
    def mine(self, empty: bool) -> None:
        self.chain.mine(transactions=[] if empty else None)

    @precondition(lambda self: self.paid)
    @rule(lot=choice)
    def mine_one(self, lot: Random) -> None:
        tx = lot.choice(self.paid)
        self._perhaps(lambda: self.chain.mine(transactions=[tx]).hash)

    @precondition(lambda self: self.chain.height > 1)
    @rule(lot=choice, longer=st.integers(0, 1))
    def reorganise(self, lot: Random, longer: int) -> None:
        depth = lot.randint(1, min(4, self.chain.height - 1))
        held = [
            tx
            for up in range(depth)
            for tx in self.chain.block(self.chain.height - up).transactions
        ]
        omit = [tx for tx in held if lot.random() < 0.4]
        drop = [tx for tx in held if tx not in omit and lot.random() < 0.2]
        place = {tx: 0 for tx in self.paid if lot.random() < 0.1}
        self._perhaps(
            lambda: (
                self.chain.reorganise(
                    depth, length=depth + longer, omit=omit, drop=drop, place=place
                ).hash
            )
        )

    @rule()
    def flip_back(self) -> None:
        self._perhaps(lambda: self.chain.flip_back().hash)

    @precondition(lambda self: self.chain.height > 2)
    @rule()
    def rewind(self) -> None:
        self.chain.rewind(1)

    @rule(lag=st.integers(0, 3), hears=st.booleans())
    def change_node(self, lag: int, hears: bool) -> None:
        self.node.set(lag=lag, hears=hears)

    @precondition(lambda self: self.paid)
    @rule(lot=choice, again=st.booleans())
    def evict_or_announce(self, lot: Random, again: bool) -> None:
        tx = lot.choice(self.paid)
        if again:
            self.chain.announce(tx)
        else:
            self.chain.evict(tx)
            self.node.evict(tx)

    @invariant()
    def nothing_is_spent_twice_or_out_of_nothing(self) -> None:
        tree = self.chain.world.tree
        self._check(self.chain.mempool, tree.head)
        self._check(self.node.mempool, self.node.head)

    def _check(self, mempool: UtxoMempool, head: Block) -> None:
        there: dict[bytes, int] = {}
        mined = set()
        for height in range(head.height + 1):
            block = self.chain.world.tree.ancestor(head, height)
            assert block is not None
            for tx in block.transactions:
                assert tx.txid not in mined
                mined.add(tx.txid)
                self._spend(tx, there)
        waiting = list(mempool)
        assert not mined & {tx.txid for tx in waiting}
        spent = [outpoint for tx in waiting for outpoint in tx.spends]
        assert len(spent) == len(set(spent))
        made = {outpoint_at(tx.txid, n) for tx in waiting for n in range(len(tx.outputs))}
        assert all(outpoint in there or outpoint in made for outpoint in spent)

    @staticmethod
    def _spend(tx: Transaction, there: dict[bytes, int]) -> None:
        value = sum(there.pop(outpoint) for outpoint in tx.spends)
        assert tx.is_coinbase or sum(one.amount for one in tx.outputs) <= value
        there |= {outpoint_at(tx.txid, n): one.amount for n, one in enumerate(tx.outputs)}

    def _perhaps(self, act: Callable[[], str]) -> None:
        """Do what the chain may refuse."""
        try:
            done = act()
        except ScriptError:
            return
        if done in {tx.txid[::-1].hex() for tx in self.chain.world.transactions.values()}:
            self.paid.append(done)


AnyStory.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyStory = AnyStory.TestCase
