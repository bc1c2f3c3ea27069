"""One way to tell the same story to every kind of chain: what the conformance suite is written in.

A script pays an address of the suite's own in every shape there is. `DevnetScript` plays on the
scripted chain, `AnvilScript` on a real node; nodes of other families join by the same protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

from eth_hash.auto import keccak

from chains.devnet import Call, Devnet, How, Payment, Step
from chains.devnet.hexadecimal import checksummed
from tests.parts.anvil.node import NO_TOKEN, AnvilNode

FINALITY_LAG = 4
DECIMALS = 6


class Leg(NamedTuple):
    """One payment of a batch; `token` None is the coin."""

    to: str
    amount: int
    token: str | None = None


class ChainScript(Protocol):
    """What a story needs of a chain. Payments wait until `mine`; each gives its transaction."""

    chain_id: int
    url: str
    socket_url: str
    token: str
    unlisted_token: str

    def new_address(self) -> str: ...
    def pay_coin(self, to: str, amount: int) -> str: ...
    def pay_token(self, to: str, amount: int) -> str: ...
    def pay_unlisted(self, to: str, amount: int) -> str: ...
    def mint(self, to: str, amount: int) -> str: ...
    def pay_inside(self, to: str, amount: int) -> str: ...
    def pay_in_vain(self, to: str, amount: int) -> str: ...
    def pay_many(self, legs: Sequence[Leg]) -> str: ...
    def pay_refused(self, amount: int) -> tuple[str, str]: ...
    def new_forwarder(self, onward: str) -> str: ...
    def mine(self, blocks: int = 1) -> None: ...
    def height(self) -> int: ...
    def reorganise(self, depth: int, *, again: Sequence[tuple[str, int]] = ()) -> None: ...
    def ask(self, method: str, *params: Any) -> Any: ...


class _Addresses:
    """Addresses nobody else uses: a run of the suite shares one chain."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new_address(self) -> str:
        return checksummed(keccak(b"suite" + bytes([next(self._numbers)]))[12:])


class DevnetScript(_Addresses):
    """The scripted chain."""

    def __init__(self, devnet: Devnet, chain_id: int) -> None:
        super().__init__()
        self.chain_id = chain_id
        self.chain = devnet.add_chain(chain_id)
        self.chain.finality_lag(FINALITY_LAG)
        self.devnet = devnet
        self.url, self.socket_url = devnet.url(chain_id), devnet.socket_url(chain_id)
        self.payer = self.chain.account("payer")
        self.wallet = self.chain.account("wallet")
        self.chain.set_code(self.wallet)
        self.token = self.chain.deploy_token("TUSD", DECIMALS)
        self.unlisted_token = self.chain.deploy_token("TUSD", DECIMALS)
        self._forwards: dict[str, str] = {}

    def pay_coin(self, to: str, amount: int) -> str:
        onward = self._forwards.get(to)
        if onward is None:
            return self.chain.pay_coin(self.payer, to, amount)
        inner = Step(call=Call(to=onward, value=amount // 2))
        return self.chain.send(self.payer, Call(to=to, value=amount, steps=(inner,)))

    def pay_token(self, to: str, amount: int) -> str:
        return self.chain.pay_token(self.token, self.payer, to, amount)

    def pay_unlisted(self, to: str, amount: int) -> str:
        return self.chain.pay_token(self.unlisted_token, self.payer, to, amount)

    def mint(self, to: str, amount: int) -> str:
        return self.chain.mint_token(self.token, self.payer, to, amount)

    def pay_inside(self, to: str, amount: int) -> str:
        return self.chain.pay_inside(self.payer, self.wallet, to, amount)

    def pay_in_vain(self, to: str, amount: int) -> str:
        paid = Step(call=Call(to=to, value=amount))
        failing = Call(to=self.wallet, steps=(paid,), fails="execution reverted")
        return self.chain.send(self.payer, Call(to=self.wallet, steps=(Step(call=failing),)))

    def pay_many(self, legs: Sequence[Leg]) -> str:
        payments = [Payment(to=leg.to, amount=leg.amount, token=leg.token) for leg in legs]
        return self.chain.pay_many(self.payer, payments, contract=self.wallet)

    def pay_refused(self, amount: int) -> tuple[str, str]:
        refuser = self.new_address()
        self.chain.set_code(refuser)
        how = How(fails="execution reverted")
        return refuser, self.chain.pay_coin(self.payer, refuser, amount, how)

    def new_forwarder(self, onward: str) -> str:
        forwarder = self.new_address()
        self.chain.set_code(forwarder)
        self._forwards[forwarder] = onward
        return forwarder

    def mine(self, blocks: int = 1) -> None:
        self.chain.mine(blocks)

    def height(self) -> int:
        return self.chain.height

    def reorganise(self, depth: int, *, again: Sequence[tuple[str, int]] = ()) -> None:
        first = self.chain.height - depth + 1
        left = [
            tx
            for height in range(first, self.chain.height + 1)
            for tx in self.chain.block(height).transactions
        ]
        place = dict(again)
        drop = [tx for tx in left if tx not in place]
        self.chain.reorganise(depth, length=depth, drop=drop, place=place)

    def ask(self, method: str, *params: Any) -> Any:
        from chains.devnet.methods import answer

        return answer(self.devnet.node(self.chain_id), method, list(params))


class AnvilScript(_Addresses):
    """A real node, with the contracts of contracts.sol."""

    def __init__(self, node: AnvilNode) -> None:
        super().__init__()
        self.node = node
        self.chain_id, self.url, self.socket_url = node.chain_id, node.url, node.socket_url
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
