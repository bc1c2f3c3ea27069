"""One chain of a run: a real node that the test mines, with wallets that pay many at once.

Time on the chain is the test's own: a second a block, until it is told to jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from web3 import Web3

from tests.parts.anvil.node import NO_TOKEN, AnvilNode
from tests.parts.thousand.story import COIN, USD, Money, Payment

#: As a block takes them without filling up.
LEGS_MAX = 25
GAS = 5_000_000
FINALITY_LAG = 8


@dataclass
class Mined:
    """A block of ours: its transactions, in order, and the payments that each carried."""

    transactions: list[tuple[str, str, tuple[Payment, ...]]] = field(default_factory=list)


class Street:
    """A chain with contracts: dollars, a bridged twin, a look-alike that nobody lists."""

    def __init__(self, chain_id: int) -> None:
        self.node = AnvilNode(chain_id, finality_lag=FINALITY_LAG)
        self.node.start()
        self.node.ask("anvil_setBlockTimestampInterval", 1)
        self.name = f"eip155:{chain_id}"
        self._tokens: dict[Money, str] = {
            "usd": self.node.deploy("TestToken", ["string", "uint8"], ["TUSD", 6]),
            "twin": self.node.deploy("TestToken", ["string", "uint8"], ["TUSD.e", 6]),
            "fake": self.node.deploy("TestToken", ["string", "uint8"], ["TUSD", 6]),
        }
        self._wallet = self.node.deploy("TestWallet")
        self._teller = self.node.deploy("TestTeller")
        self.node.send(to=self._wallet, value=2_000 * COIN)
        for token in self._tokens.values():
            self.node.call(token, "mint(address,uint256)", [self._wallet, 10**9 * USD])
            # Who loses a block's money pays alone, so that nobody else's nonce depends on it.
            self.node.call(token, "mint(address,uint256)", [self.node.accounts[1], 10**9 * USD])
        self.node.mine()
        self.start_at = self.node.height
        self.blocks: list[Mined] = []
        self._waiting = Mined()

    def stop(self) -> None:
        self.node.stop()

    def asset(self, money: Money) -> str:
        if money == "coin":
            return f"{self.name}/slip44:1"
        return f"{self.name}/erc20:{Web3.to_checksum_address(self._tokens[money])}"

    # Paying

    def pay(self, payments: Sequence[Payment]) -> None:
        """Send payments for the next block: those that will be lost from an account of their own."""
        lost = [payment for payment in payments if payment.fate == "lost"]
        for payment in lost:
            self._note(self._transfer(payment), (payment,))
        for crowd in _crowds([payment for payment in payments if payment.fate != "lost"]):
            self._note(self._pay_many(crowd), tuple(crowd))

    def _transfer(self, payment: Payment) -> str:
        token = self._tokens[payment.money]
        arguments = [payment.to, payment.amount]
        return self.node.call(
            token, "transfer(address,uint256)", arguments, sender=self.node.accounts[1]
        )

    def _pay_many(self, crowd: Sequence[Payment]) -> str:
        tokens = [self._tokens.get(payment.money, NO_TOKEN) for payment in crowd]
        return self.node.call(
            self._wallet,
            "payMany(address[],address[],uint256[])",
            [tokens, [payment.to for payment in crowd], [payment.amount for payment in crowd]],
            gas=GAS,
        )

    def _note(self, tx: str, payments: tuple[Payment, ...]) -> None:
        for payment in payments:
            payment.tx = tx
        self._waiting.transactions.append((tx, self.node.raw_transaction(tx), payments))

    # Mining

    @property
    def time(self) -> int:
        return int(self.node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def mine(self, at: int | None = None) -> None:
        """Mine one block, a second after the last one or at a later moment."""
        if at is not None and at > self.time:
            self.node.ask("evm_setNextBlockTimestamp", at)
        self.node.mine()
        self.blocks.append(self._waiting)
        self._waiting = Mined()

    def reorganise(self, depth: int, random: Random) -> None:
        """The node finds another branch: what is not lost stands in other blocks of it."""
        kept = self._take_back(depth)
        places = sorted(random.randrange(depth) for _ in kept)
        again = [(raw, place) for (_, raw, _), place in zip(kept, places, strict=True)]
        self.node.reorganise(depth, again)
        for place in range(depth):
            entries = [one for one, where in zip(kept, places, strict=True) if where == place]
            self.blocks.append(Mined(entries))

    def roll_back(self, depth: int) -> None:
        """The node takes blocks back; what is not lost waits to be mined again."""
        kept = self._take_back(depth)
        self.node.rewind(depth)
        for tx, raw, payments in kept:
            assert self.node.ask("eth_sendRawTransaction", raw) == tx
            self._waiting.transactions.append((tx, raw, payments))

    def _take_back(self, depth: int) -> list[tuple[str, str, tuple[Payment, ...]]]:
        gone = self.blocks[-depth:]
        del self.blocks[-depth:]
        return [
            entry
            for block in gone
            for entry in block.transactions
            if all(payment.fate != "lost" for payment in entry[2])
        ]

    # Looking

    def standing(self) -> list[Payment]:
        """Give what stands on the chain by the node's own receipts."""
        found = []
        for block in self.blocks:
            for tx, _, payments in block.transactions:
                receipt = self.node.ask("eth_getTransactionReceipt", tx)
                assert receipt is not None, f"{tx} is not on {self.name}"
                assert receipt["status"] == "0x1", f"{tx} failed on {self.name}"
                found += payments
        return found

    def balance(self, money: Money, addresses: Iterable[str]) -> int:
        """Ask the chain what our addresses hold together, through web3."""
        web3 = Web3(Web3.HTTPProvider(self.node.url))
        teller = web3.eth.contract(Web3.to_checksum_address(self._teller), abi=_TELLER_ABI)
        token = Web3.to_checksum_address(self._tokens.get(money, NO_TOKEN))
        ours = sorted(set(addresses))
        return sum(
            teller.functions.sum(token, ours[start : start + 200]).call()
            for start in range(0, len(ours), 200)
        )


_TELLER_ABI = [
    {
        "type": "function",
        "name": "sum",
        "stateMutability": "view",
        "inputs": [{"name": "token", "type": "address"}, {"name": "owners", "type": "address[]"}],
        "outputs": [{"name": "", "type": "uint256"}],
    }
]


def _crowds(payments: Sequence[Payment]) -> list[list[Payment]]:
    """Sort payments into transactions: alone, together as agreed, or in a crowd."""
    alone = [[payment] for payment in payments if payment.alone]
    named: dict[str, list[Payment]] = {}
    crowd: list[Payment] = []
    for payment in payments:
        if payment.alone:
            continue
        if payment.together:
            named.setdefault(payment.together, []).append(payment)
        else:
            crowd.append(payment)
    crowds = [crowd[start : start + LEGS_MAX] for start in range(0, len(crowd), LEGS_MAX)]
    return [*alone, *named.values(), *crowds]
