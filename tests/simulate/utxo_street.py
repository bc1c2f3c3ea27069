"""The Bitcoin-like chains of a run: one coin, a mempool at every node, double spends.

Simulated beside what every street shows: payments that are replaced before they are mined, by the same
payment with a higher fee or by none of ours; branches that spend the same otherwise; nodes that hear of
nothing, lose their mempools, or name what they do not have; blocks whose times run back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from chains.devnet.faults import Behind, Fault, Replace, SetField, Truncate
from chains.devnet.hexadecimal import ScriptError
from chains.devnet.reply import Reply
from chains.devnet.utxo.blocks import Block
from chains.devnet.utxo.chain import Pay, Spend, UtxoChain
from chains.devnet.utxo.dialogue import reply_to
from chains.devnet.utxo.faults import ChangeByte, CutHex, Elsewhere, ListUnknown
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.transactions import hash_bytes
from chains.devnet.utxo.world import UtxoSeed
from chains.utxo.merkle import shown
from tests.simulate.settings import UTXO_NETWORKS, chain_name, coin
from tests.simulate.street import BLOCKS_BEFORE, Movement, Street, lies_of_any_node

#: Nobody takes back more: a deeper change is a person's affair, and no run waits for that.
FORKABLE = 6
#: What a coin of the wallet always covers.
AMOUNT_MAX = 10**12
#: Blocks' times differ from ours by so much.
DRIFT_S = (-25, -9, -2, 0, 0, 0, 1, 8)


class UtxoStreet(Street):
    """A chain with outputs."""

    chain: UtxoChain
    nodes: Mapping[str, UtxoNode]

    def __init__(self, number: int, lot: Random, now: Callable[[], int]) -> None:
        super().__init__(lot, now)
        self.name = chain_name(number, utxo=True)
        self.listed = coin(self.name)
        self.host = UTXO_NETWORKS[number]
        start = now() - 20 * BLOCKS_BEFORE
        self.chain = UtxoChain(UtxoSeed(network=self.host, start_time=start - 20))
        self.nodes = {name: UtxoNode(self.chain, name) for name in ("a", "b")}
        for height in range(BLOCKS_BEFORE):
            self.chain.mine(time=start + 20 * height)

    # --- what people do ---

    def pay(self, kind: str, to: str, amount: int) -> str:
        """Pay one output, sometimes behind one that is a stranger's. There is the coin alone."""
        amount = min(amount, AMOUNT_MAX)
        others = [Pay(self._stranger(), 5_000)] * self.lot.choice((0, 0, 1))
        how = Spend(replaceable=self.lot.random() < 0.7)
        tx = self.chain.pay_many([*others, Pay(to, amount)], how)
        self._note(tx, to, amount, sent_s=self.now())
        return tx

    def pay_in_vain(self, to: str, amount: int) -> str:
        return self.chain.pay_coin(self._stranger(), max(1, min(amount, AMOUNT_MAX)))

    def replace(self, tx: str) -> bool:
        """Raise the fee of the same payment, or pay it back to oneself."""
        if self.chain.depth(tx) or tx not in self.chain.waiting():
            return False
        same = self.lot.random() < 0.5
        payments = None if same else [Pay(self._stranger(), 1_000)]
        try:
            new = self.chain.replace(tx, payments, fee=self.lot.randint(2_000, 90_000))
        except ScriptError:
            return False
        for movement in self.movements.get(tx, ()) if same else ():
            self._note(new, movement.to, movement.amount, sent_s=movement.sent_s)
        return True

    def waiting(self) -> Collection[str]:
        return self.chain.waiting()

    def _note(self, tx: str, to: str, amount: int, *, sent_s: int) -> None:
        moved = Movement(self.name, tx, to, self.listed, amount, sent_s=sent_s)
        self.movements[tx] = [moved]

    def _stranger(self) -> str:
        return self.chain.new_address(f"stranger {self.lot.random()}", "p2sh")

    # --- what the chain does ---

    def mine(self, *, empty: bool = False) -> None:
        """Mine a block. Its time may lie before its parent's: it is above the median, or ours is late."""
        tip = self.chain.world.tree.head
        time = max(tip.median_time + 1, self.now() + self.lot.choice(DRIFT_S))
        self.chain.mine(time=time, transactions=[] if empty else None)

    @property
    def final_height(self) -> int:
        """Nothing is: these chains call nothing final."""
        return 0

    @property
    def forkable(self) -> int:
        return min(FORKABLE, self.chain.height - BLOCKS_BEFORE)

    # --- what its nodes do ---

    def reply(self, letter: str, body: bytes) -> Reply:
        return reply_to(self.nodes[letter], body)

    def changes(self, lot: Random) -> Sequence[dict[str, object]]:
        return (
            {"lag": lot.randint(1, 5)},
            {"on_block": self.hash_of(self.chain.world.tree.head)},
            {"half_open": True},
            {"genesis": "ee" * 32} if lot.random() < 0.2 else {"lag": 1},
            {"hears": False},
            {"warming_up": True},
            {"pruned_below": self.chain.height},
            {"side_blocks": False},
            {"tx_index": True},
            {"speaks": lot.choice(("bitcoind_28", "btcd"))},
        )

    def lies(self, lot: Random, times: int) -> Sequence[Fault]:
        block, header, tx = ("getblock",), ("getblockheader",), ("getrawtransaction",)
        if lot.random() < 0.1:
            self.nodes[lot.choice("ab")].restart()
        return (
            ChangeByte(methods=block, at=lot.choice((0, 40, 70, -1, -5, -45)), times=times),
            ChangeByte(methods=tx, at=lot.choice((5, 60, -8)), times=times),
            CutHex(methods=(*block, *tx), digits=lot.choice((1, 2, 64)), times=times),
            Elsewhere(methods=block, times=times),
            Elsewhere(methods=header, times=times),
            Elsewhere(methods=("getblockhash",), skip=1, times=times),
            Elsewhere(methods=tx, times=times),
            ListUnknown(methods=("getrawmempool",), times=times),
            Truncate(methods=("getrawmempool",), times=times),
            Replace(methods=(*block, *header), times=times),
            Replace(methods=("gettxout",), times=times),
            SetField(methods=header, field="time", value=1, times=times),
            SetField(methods=header, field="height", value=3, times=times),
            SetField(methods=header, field="previousblockhash", value="ee" * 32, times=times),
            SetField(methods=tx, field="blockhash", value="ee" * 32, times=times),
            Behind(blocks=lot.randint(1, 4), times=times),
            *lies_of_any_node(lot, times),
        )

    def calm_down(self) -> None:
        """Let every node be well, and send again what one still shows: miners may have let it go."""
        super().calm_down()
        for node in self.nodes.values():
            for tx in node.mempool:
                self.chain.announce(shown(tx.txid))

    # --- the truth ---

    def moved_by(self, block: Block) -> list[str]:
        return self.held_by(block)

    def held_by(self, block: Block) -> list[str]:
        return [shown(tx.txid) for tx in block.transactions[1:]]

    def places(self, tx: str) -> Sequence[Block]:
        return self.chain.world.places(hash_bytes(tx))

    def block(self, block_hash: str) -> Block | None:
        return self.chain.world.tree.get(hash_bytes(block_hash))

    def hash_of(self, block: Block) -> str:
        return shown(block.hash)

    def time_of(self, block: Block) -> int:
        return block.median_time

    def is_impossible(self, tx: str) -> bool:
        world, head = self.chain.world, self.chain.world.tree.head
        known = world.known(hash_bytes(tx))
        spenders = [world.spender(one, head) for one in known.spends]
        return any(one is not None and one.txid != known.txid for one in spenders)
