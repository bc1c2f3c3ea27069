"""One way to tell the same story to every kind of chain: what the conformance suite is written in.

A script pays an address of the suite's own in every shape there is. `DevnetScript` plays on the
scripted chain, `AnvilScript` on a real node; `tests.parts.utxo_script` has the one of Bitcoin-like
chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

from eth_hash.auto import keccak

from chains.catalog import Catalogue
from chains.devnet import Call, Devnet, How, Payment, Step
from chains.devnet.hexadecimal import checksummed
from schemas.caip import AssetName, ChainName
from tests.parts.anvil.node import NO_TOKEN, AnvilNode
from tests.parts.listing import catalogue_of, chain_name, coin_of

FINALITY_LAG = 4
DECIMALS = 6


class Leg(NamedTuple):
    """One payment of a batch; `token` None is the coin."""

    to: str
    amount: int
    token: str | None = None


class ChainScript(Protocol):
    """What a story needs of any chain. Payments wait until `mine`; each gives its transaction.

    `coin_position` is the place of a plain payment in its transaction, `finality_lag` how far below
    its head a chain calls blocks final, 0 where it does not. `unknown` is a hash that nobody has.
    `stranger` is another chain of the family, and `identity_of` what a chain is known by.
    """

    chain: ChainName
    coin: AssetName
    stranger: ChainName
    unknown: str
    coin_position: str
    finality_lag: int
    url: str

    def identity_of(self, chain: ChainName) -> str: ...
    def catalogue_of(self, chain: ChainName) -> Catalogue: ...
    def raw_of(self, address: str) -> bytes: ...
    def loud(self, tx: str) -> str: ...
    def new_address(self) -> str: ...
    def pay_coin(self, to: str, amount: int) -> str: ...
    def mine(self, blocks: int = 1) -> None: ...
    def height(self) -> int: ...
    def reorganise(self, depth: int, *, again: Sequence[tuple[str, int]] = ()) -> None: ...
    def ask(self, method: str, *params: Any) -> Any: ...


class EvmScript(ChainScript, Protocol):
    """What a story needs of a chain with contracts."""

    chain_id: int
    socket_url: str
    token: str
    unlisted_token: str

    def pay_token(self, to: str, amount: int) -> str: ...
    def pay_unlisted(self, to: str, amount: int) -> str: ...
    def mint(self, to: str, amount: int) -> str: ...
    def pay_inside(self, to: str, amount: int) -> str: ...
    def pay_in_vain(self, to: str, amount: int) -> str: ...
    def pay_many(self, legs: Sequence[Leg]) -> str: ...
    def pay_refused(self, amount: int) -> tuple[str, str]: ...
    def new_forwarder(self, onward: str) -> str: ...


class _EvmNames:
    """How the family writes. Addresses are nobody else's: a run of the suite shares one chain."""

    token: str
    stranger = chain_name(99)
    unknown = "0x" + "12" * 32
    coin_position = "value"
    finality_lag = FINALITY_LAG

    def __init__(self, chain_id: int) -> None:
        self._numbers = count(1)
        self.chain_id = chain_id
        self.chain, self.coin = chain_name(chain_id), coin_of(chain_id)

    def identity_of(self, chain: ChainName) -> str:
        return chain.partition(":")[2]

    def catalogue_of(self, chain: ChainName) -> Catalogue:
        return catalogue_of(int(self.identity_of(chain)), self.token)

    def raw_of(self, address: str) -> bytes:
        return bytes.fromhex(address[2:])

    def loud(self, tx: str) -> str:
        """Write a transaction's id in capitals."""
        return "0x" + tx[2:].upper()

    def new_address(self) -> str:
        return checksummed(keccak(b"suite" + bytes([next(self._numbers)]))[12:])


class DevnetScript(_EvmNames):
    """The scripted chain."""

    def __init__(self, devnet: Devnet, chain_id: int) -> None:
        super().__init__(chain_id)
        self.story = devnet.add_chain(chain_id)
        self.story.finality_lag(FINALITY_LAG)
        self.devnet = devnet
        self.url, self.socket_url = devnet.url(chain_id), devnet.socket_url(chain_id)
        self.payer = self.story.account("payer")
        self.wallet = self.story.account("wallet")
        self.story.set_code(self.wallet)
        self.token = self.story.deploy_token("TUSD", DECIMALS)
        self.unlisted_token = self.story.deploy_token("TUSD", DECIMALS)
        self._forwards: dict[str, str] = {}

    def pay_coin(self, to: str, amount: int) -> str:
        onward = self._forwards.get(to)
        if onward is None:
            return self.story.pay_coin(self.payer, to, amount)
        inner = Step(call=Call(to=onward, value=amount // 2))
        return self.story.send(self.payer, Call(to=to, value=amount, steps=(inner,)))

    def pay_token(self, to: str, amount: int) -> str:
        return self.story.pay_token(self.token, self.payer, to, amount)

    def pay_unlisted(self, to: str, amount: int) -> str:
        return self.story.pay_token(self.unlisted_token, self.payer, to, amount)

    def mint(self, to: str, amount: int) -> str:
        return self.story.mint_token(self.token, self.payer, to, amount)

    def pay_inside(self, to: str, amount: int) -> str:
        return self.story.pay_inside(self.payer, self.wallet, to, amount)

    def pay_in_vain(self, to: str, amount: int) -> str:
        paid = Step(call=Call(to=to, value=amount))
        failing = Call(to=self.wallet, steps=(paid,), fails="execution reverted")
        return self.story.send(self.payer, Call(to=self.wallet, steps=(Step(call=failing),)))

    def pay_many(self, legs: Sequence[Leg]) -> str:
        payments = [Payment(to=leg.to, amount=leg.amount, token=leg.token) for leg in legs]
        return self.story.pay_many(self.payer, payments, contract=self.wallet)

    def pay_refused(self, amount: int) -> tuple[str, str]:
        refuser = self.new_address()
        self.story.set_code(refuser)
        how = How(fails="execution reverted")
        return refuser, self.story.pay_coin(self.payer, refuser, amount, how)

    def new_forwarder(self, onward: str) -> str:
        forwarder = self.new_address()
        self.story.set_code(forwarder)
        self._forwards[forwarder] = onward
        return forwarder

    def mine(self, blocks: int = 1) -> None:
        self.story.mine(blocks)

    def height(self) -> int:
        return self.story.height

    def reorganise(self, depth: int, *, again: Sequence[tuple[str, int]] = ()) -> None:
        first = self.story.height - depth + 1
        left = [
            tx
            for height in range(first, self.story.height + 1)
            for tx in self.story.block(height).transactions
        ]
        place = dict(again)
        drop = [tx for tx in left if tx not in place]
        self.story.reorganise(depth, length=depth, drop=drop, place=place)

    def ask(self, method: str, *params: Any) -> Any:
        from chains.devnet.methods import answer

        return answer(self.devnet.node(self.chain_id), method, list(params))


class AnvilScript(_EvmNames):
    """A real node, with the contracts of contracts.sol."""

    def __init__(self, node: AnvilNode) -> None:
        super().__init__(node.chain_id)
        self.node = node
        self.url, self.socket_url = node.url, node.socket_url
        arguments = (["string", "uint8"], ["TUSD", DECIMALS])
        self.token = checksummed(bytes.fromhex(node.deploy("TestToken", *arguments)[2:]))
        self.unlisted_token = node.deploy("TestToken", *arguments)
        self.wallet = node.deploy("TestWallet")
        self._refuser = node.deploy("TestRefuser")
        for token in (self.token, self.unlisted_token):
            for owner in (node.accounts[0], self.wallet):
                node.call(token, "mint(address,uint256)", [owner, 10**30])
        node.send(to=self.wallet, value=10**21)
        node.mine()

    def pay_coin(self, to: str, amount: int) -> str:
        return self.node.send(to=to, value=amount)

    def pay_token(self, to: str, amount: int) -> str:
        return self.node.call(self.token, "transfer(address,uint256)", [to, amount])

    def pay_unlisted(self, to: str, amount: int) -> str:
        return self.node.call(self.unlisted_token, "transfer(address,uint256)", [to, amount])

    def mint(self, to: str, amount: int) -> str:
        return self.node.call(self.token, "mint(address,uint256)", [to, amount])

    def pay_inside(self, to: str, amount: int) -> str:
        return self.node.call(self.wallet, "pay(address,uint256)", [to, amount])

    def pay_in_vain(self, to: str, amount: int) -> str:
        return self.node.call(self.wallet, "payInVain(address,uint256)", [to, amount])

    def pay_many(self, legs: Sequence[Leg]) -> str:
        tokens = [leg.token or NO_TOKEN for leg in legs]
        values = [tokens, [leg.to for leg in legs], [leg.amount for leg in legs]]
        coin = sum(leg.amount for leg in legs if leg.token is None)
        signature = "payMany(address[],address[],uint256[])"
        return self.node.call(self.wallet, signature, values, value=coin)

    def pay_refused(self, amount: int) -> tuple[str, str]:
        return self._refuser, self.node.send(to=self._refuser, value=amount)

    def new_forwarder(self, onward: str) -> str:
        return self.node.deploy("TestForwarder", ["address"], [onward])

    def mine(self, blocks: int = 1) -> None:
        self.node.mine(blocks)

    def height(self) -> int:
        return self.node.height

    def reorganise(self, depth: int, *, again: Sequence[tuple[str, int]] = ()) -> None:
        raw = [(self.node.raw_transaction(tx), offset) for tx, offset in again]
        self.node.reorganise(depth, raw)

    def ask(self, method: str, *params: Any) -> Any:
        return self.node.ask(method, *params)
