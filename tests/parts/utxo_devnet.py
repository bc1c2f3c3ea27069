"""The scripted UTXO chain, in the words in which the conformance suite tells a story, and asked by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from chains.devnet import Devnet, Pay
from chains.devnet.utxo.dialogue import reply_to
from chains.devnet.utxo.methods import answer
from chains.devnet.utxo.node import UtxoNode


class UtxoLeg(NamedTuple):
    """One output of a payment."""

    to: str
    amount: int


class DevnetUtxoScript:
    """What a story needs of a UTXO chain. Payments wait until `mine`; each gives its transaction."""

    def __init__(self, devnet: Devnet, network: str = "bitcoin-regtest") -> None:
        self.name = network
        self.chain = devnet.add_utxo_chain(network, network=network)
        self.network = self.chain.world.network
        self.node = devnet.utxo_node(network)
        self.url = devnet.url(network)
        self._numbers = count(1)

    def new_address(self) -> str:
        return self.chain.new_address(f"suite {next(self._numbers)}")

    def pay_coin(self, to: str, amount: int) -> str:
        return self.chain.pay_coin(to, amount)

    def pay_many(self, legs: Sequence[UtxoLeg]) -> str:
        return self.chain.pay_many([Pay(leg.to, leg.amount) for leg in legs])

    def replace(self, txid: str, legs: Sequence[UtxoLeg]) -> str:
        """Spend the same coins on something else, for a higher fee."""
        return self.chain.replace(txid, [Pay(leg.to, leg.amount) for leg in legs])

    def mine(self, blocks: int = 1) -> None:
        self.chain.mine(blocks)

    def height(self) -> int:
        return self.chain.height

    def reorganise(self, depth: int, *, again: Sequence[tuple[str, int]] = ()) -> None:
        """Put as many others in the place of the last blocks and one more, which makes them win; `again`
        names transactions and the new block that holds each. The others wait again.
        """
        blocks = [self.chain.block(self.chain.height - up) for up in range(depth)]
        place = dict(again)
        omit = [tx for block in blocks for tx in block.transactions if tx not in place]
        self.chain.reorganise(depth, omit=omit, place=place)

    def rewind(self, depth: int) -> None:
        """Take the last blocks away; their transactions wait again."""
        self.chain.rewind(depth)

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
