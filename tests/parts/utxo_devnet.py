"""The scripted UTXO chain, in the words in which the conformance suite tells a story, and asked by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from chains.catalog import Catalogue, load_catalogue
from chains.devnet import Devnet, Pay
from chains.devnet.utxo.dialogue import reply_to
from chains.devnet.utxo.methods import answer
from chains.devnet.utxo.node import UtxoNode
from chains.utxo.address import parse
from chains.utxo.networks import DOGECOIN_REGTEST, LITECOIN_REGTEST, NETWORKS
from schemas.caip import AssetName, ChainName


class DevnetUtxoScript:
    """A scripted chain of a Bitcoin-like network, in the words of `tests.parts.chain_scripts`.

    Payments wait until `mine`; each gives its transaction. Addresses are nobody else's.
    """

    unknown = "12" * 32
    coin_position = "out:0"
    finality_lag = 0

    def __init__(self, devnet: Devnet, network: str = "bitcoin-regtest") -> None:
        self.scripted = devnet.add_utxo_chain(network, network=network)
        self.network = self.scripted.world.network
        self.node = devnet.utxo_node(network)
        self.url = devnet.url(network)
        self.chain: ChainName = self.network.chain
        others = (LITECOIN_REGTEST, DOGECOIN_REGTEST)
        self.stranger: ChainName = next(one.chain for one in others if one is not self.network)
        self.coin: AssetName = AssetName(self.catalogue_of(self.chain).chain(self.chain).coin)
        self._numbers = count(1)

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
        return self.scripted.new_address(f"suite {next(self._numbers)}")

    def pay_coin(self, to: str, amount: int) -> str:
        return self.scripted.pay_coin(to, amount)

    def pay_many(self, legs: Sequence[tuple[str, int]]) -> str:
        """Pay every leg by an output of its own, in this order; change comes last."""
        return self.scripted.pay_many([Pay(to, amount) for to, amount in legs])

    def replace(self, tx: str, *legs: tuple[str, int]) -> str:
        """Pay by the same coins with a higher fee."""
        return self.scripted.replace(tx, [Pay(to, amount) for to, amount in legs])

    def mine(self, blocks: int = 1) -> None:
        if blocks:
            self.scripted.mine(blocks)

    def mine_only(self, *txs: str) -> None:
        self.scripted.mine(transactions=txs)

    def height(self) -> int:
        return self.scripted.height

    def reorganise(
        self, depth: int, *, again: Sequence[tuple[str, int]] = (), length: int | None = None
    ) -> None:
        """Replace the last blocks by `length`, one more if not said; `again` have their new blocks, what
        else stood in the old ones waits.
        """
        top, place = self.scripted.height, dict(again)
        held = [tx for up in range(depth) for tx in self.scripted.block(top - up).transactions]
        omit = [tx for tx in held if tx not in place]
        self.scripted.reorganise(depth, omit=omit, place=place, length=length)

    def rewind(self, depth: int) -> None:
        """Have every node forget its last blocks."""
        self.scripted.rewind(depth)

    def restart(self) -> None:
        """Stop the node and start it again."""
        self.node.restart()

    def ask(self, method: str, *params: Any) -> Any:
        return answer(self.node, method, list(params))


def said(node: UtxoNode, method: str, *params: Any, **more: Any) -> dict[str, Any]:
    """Ask over the wire's bytes and give the whole answer."""
    call = {"jsonrpc": "1.0", "id": 7, "method": method, "params": list(params)} | more
    body = reply_to(node, json.dumps(call).encode()).body
    assert body
    found = json.loads(body)
    assert isinstance(found, dict)
    return found


def asked(node: UtxoNode, method: str, *params: Any) -> Any:
    answered = said(node, method, *params)
    assert answered["error"] is None
    return answered["result"]


def refusal(node: UtxoNode, method: str, *params: Any) -> dict[str, Any]:
    found = said(node, method, *params)["error"]
    assert isinstance(found, dict)
    return found
