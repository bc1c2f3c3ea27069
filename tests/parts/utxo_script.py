"""A Bitcoin-like chain that does what a story says, on real nodes of one network.

Every block is made here and handed to each node by `submitblock`, so that what litecoind can do btcd can
do as well: any branch, any transactions in it in any order. A reorganisation is a branch with more
work, as on any such chain. What a node takes out of its chain it puts back into its mempool itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import count
from typing import Any

from chains.catalog import Catalogue, load_catalogue
from chains.utxo.address import address_of_script, parse
from chains.utxo.networks import DOGECOIN_REGTEST, NETWORKS
from schemas.caip import AssetName, ChainName
from tests.parts.utxo_mining import Made, make_block, prepared
from tests.parts.utxo_node import UtxoNode
from tests.parts.utxo_purse import ANYONE, FEE, REPLACEABLE, Coin, Pay, coins_of, name_of, spend
from tests.parts.utxo_reference import Tx

Transaction = Tx | str


class UtxoScript:
    """One chain on one or more nodes, which all are told everything.

    Payments wait in the mempools until `mine`. Addresses are nobody else's: a run shares one chain.
    It speaks the words of `tests.parts.chain_scripts.ChainScript`.
    """

    stranger: ChainName = DOGECOIN_REGTEST.chain
    unknown = "12" * 32
    coin_position = "out:0"
    finality_lag = 0

    def __init__(self, *nodes: UtxoNode) -> None:
        self.nodes, self.node = nodes, nodes[0]
        self.network = self.node.network
        self.chain: ChainName = self.network.chain
        self.coin: AssetName = AssetName(self.catalogue_of(self.chain).chain(self.chain).coin)
        self.url = self.node.url
        begin = prepared(self.network)
        self.blocks = {block.hash: block for block in begin}
        self.transactions: dict[str, Tx] = {}
        self._spent: dict[str, list[Coin]] = {}
        self._coins = {witness: _coins_of(begin, witness=witness) for witness in (False, True)}
        self._marks, self._numbers = count(len(begin)), count(1)
        for node in nodes:
            self.tell(node, begin[-1])

    # Names

    def identity_of(self, chain: ChainName) -> str:
        return NETWORKS[chain].genesis_hash

    def catalogue_of(self, chain: ChainName) -> Catalogue:
        """Give our own: it has the regtests."""
        return load_catalogue()

    def raw_of(self, address: str) -> bytes:
        return parse(self.network, address).raw

    def loud(self, tx: str) -> str:
        """Write a transaction's id in capitals."""
        return tx.upper()

    def new_address(self) -> str:
        """Give an address of segregated witness, paid to a key."""
        return self.address_of(b"\x00\x14" + self._unique(20))

    def new_old_address(self) -> str:
        """Give one in base 58."""
        return self.address_of(b"\x76\xa9\x14" + self._unique(20) + b"\x88\xac")

    def address_of(self, script: bytes) -> str:
        found = address_of_script(self.network, script)
        assert found is not None
        return found.display

    # Payments

    def pay_coin(self, to: str, amount: int, **how: Any) -> str:
        return self.pay_many([(to, amount)], **how)

    def pay_many(
        self,
        legs: Sequence[tuple[str, int]],
        *,
        fee: int = FEE,
        sequence: bytes = REPLACEABLE,
        witness: bool = False,
    ) -> str:
        """Pay every leg by an output of its own, in this order; change comes last."""
        pays = [Pay(self.raw_of(to), amount) for to, amount in legs]
        return self.send(self.make(pays, fee=fee, sequence=sequence, witness=witness))

    def replace(self, tx: str, *legs: tuple[str, int]) -> str:
        """Pay by the same coins with a higher fee; without legs all goes back to the payer."""
        return self.send(self.conflict(tx, *legs))

    def conflict(self, tx: str, *legs: tuple[str, int]) -> Tx:
        """Make what `replace` sends, without sending it: a double spend for a block.

        Nodes want a higher fee for each byte too, of which another output makes more.
        """
        before = self._spent[tx]
        paid = sum(coin.amount for coin in before) - _paid(self.transactions[tx])
        fee = paid + paid // 2 + 2 * FEE
        pays = [Pay(self.raw_of(to), amount) for to, amount in legs]
        return self.make(pays, coins=before, fee=fee)

    def make(
        self,
        pays: Sequence[Pay],
        *,
        coins: Sequence[Coin] | None = None,
        fee: int = FEE,
        sequence: bytes = REPLACEABLE,
        witness: bool = False,
    ) -> Tx:
        """Make a transaction that nobody is told of; `coins` of one's choice may be spent already."""
        needed = sum(pay.amount for pay in pays) + fee
        spent = self.take(needed, witness=witness) if coins is None else list(coins)
        tx = spend(spent, pays, fee=fee, sequence=sequence)
        self.transactions[name_of(tx)], self._spent[name_of(tx)] = tx, spent
        return tx

    def take(self, amount: int, *, witness: bool = False) -> list[Coin]:
        """Take coins out of the purse that no other payment has."""
        taken: list[Coin] = []
        while sum(coin.amount for coin in taken) < amount:
            taken.append(next(self._coins[witness]))
        return taken

    def coins_behind(self, tx: str) -> list[Coin]:
        """Give what a transaction spends."""
        return self._spent[tx]

    def send(self, tx: Tx) -> str:
        for node in self.nodes:
            node.ask("sendrawtransaction", tx.full().hex())
        return name_of(tx)

    # Blocks

    def mine(self, blocks: int = 1) -> None:
        """Mine what waits in the first node's mempool, then empty blocks."""
        for n in range(blocks):
            self.mine_only(*(self._waiting() if n == 0 else ()))

    def mine_only(self, *txs: Transaction, to: Sequence[Pay] | None = None) -> Made:
        """Mine exactly these, parents first; `to` are the coinbase's outputs."""
        (block,) = self.branch(self.tip(), [txs], to=to)
        self.give(block)
        return block

    def branch(
        self,
        parent: Made,
        contents: Sequence[Sequence[Transaction]],
        *,
        to: Sequence[Pay] | None = None,
        time_s: int | None = None,
    ) -> list[Made]:
        """Make blocks one on the other, which no node is told of."""
        made = []
        for txs in contents:
            found = [self.transactions[tx] if isinstance(tx, str) else tx for tx in txs]
            clock = max(int(time.time()), parent.time_s + 1) if time_s is None else time_s
            mark = next(self._marks)
            parent = make_block(self.network, parent, found, time_s=clock, mark=mark, to=to)
            self.blocks[parent.hash] = parent
            made.append(parent)
        return made

    def give(self, *blocks: Made) -> None:
        for node in self.nodes:
            node.submit(*(block.raw for block in blocks))

    def reorganise(
        self,
        depth: int,
        *,
        again: Sequence[tuple[Transaction, int]] = (),
        length: int | None = None,
    ) -> None:
        """Replace the last blocks by `length`, one more if not said; `again` have their new blocks."""
        contents: list[list[Transaction]] = [[] for _ in range(length or depth + 1)]
        for tx, offset in again:
            contents[offset].append(tx)
        self.give(*self.branch(self.below(depth), contents))

    def rewind(self, depth: int) -> str:
        """Have every node forget its last blocks, by its operator's word; gives the lowest of them."""
        first = self.below(depth - 1).hash
        for node in self.nodes:
            node.ask("invalidateblock", first)
        return first

    def forgive(self, block_hash: str) -> None:
        """Have every node take back what `rewind` made it forget."""
        for node in self.nodes:
            node.ask("reconsiderblock", block_hash)

    def restart(self) -> None:
        """Kill every node and start it again: its mempool is empty, and its chain is told to it."""
        top = self.tip()
        for node in self.nodes:
            node.kill()
            node.start()
            self.tell(node, top)

    def tell(self, node: UtxoNode, top: Made) -> None:
        """Hand a node the blocks of a branch that stand above its own."""
        known, missing = node.height, []
        while top.height > known:
            missing.append(top)
            top = self.blocks[top.parent]
        if missing:
            node.submit(*(block.raw for block in reversed(missing)))

    def tip(self) -> Made:
        return self.blocks[self.node.ask("getbestblockhash")]

    def below(self, depth: int) -> Made:
        """Give the block so many below the tip."""
        found = self.tip()
        for _ in range(depth):
            found = self.blocks[found.parent]
        return found

    def height(self) -> int:
        return self.node.height

    def ask(self, method: str, *params: Any) -> Any:
        return self.node.ask(method, *params)

    def _waiting(self) -> list[Tx]:
        """Give what waits, each behind what it spends."""
        left = {self.transactions[tx].txid(): self.transactions[tx] for tx in self.node.waiting}
        ordered: list[Tx] = []
        while left:
            ready = [tx for tx in left.values() if not _parents(tx) & left.keys()]
            ordered += ready
            for tx in ready:
                del left[tx.txid()]
        return ordered

    def _unique(self, size: int) -> bytes:
        return sha256(b"suite" + str(next(self._numbers)).encode()).digest()[:size]


def _coins_of(blocks: Sequence[Made], *, witness: bool) -> Iterator[Coin]:
    coinbases = [block.coinbase for block in blocks[1:11] if block.coinbase is not None]
    coins = [coin for coinbase in coinbases for coin in coins_of(coinbase)]
    return iter([coin for coin in coins if (coin.script != ANYONE) is witness])


def _paid(tx: Tx) -> int:
    return sum(out.amount for out in tx.outputs)


def _parents(tx: Tx) -> set[bytes]:
    return {one.outpoint[:32] for one in tx.inputs}
