"""Money inside Litecoin's extension block (MWEB), which only a node's own wallet can move.

The node must have been started with its wallet. Blocks are made by the node as well: it alone writes the
extension block and the transaction that binds it (the HogEx).
"""

from __future__ import annotations

from tests.parts.litecoind.node import Litecoind

#: Votes for the extension have their say after three rounds of 144 blocks; the first block that may have
#: one is the next. **Source**: litecoin 0.21.2.1 src/chainparams.cpp, CRegTestParams.
ACTIVE_FROM = 432


class HiddenMoney:
    """A wallet with coins of both kinds; `entered` is the block by which the first ones went in."""

    def __init__(self, node: Litecoind) -> None:
        self._node = node
        node.ask("createwallet", "wallet")
        node.ask("generatetoaddress", ACTIVE_FROM - 1, node.ask("getnewaddress"))
        self.entering = node.ask("sendtoaddress", node.ask("getnewaddress", "", "mweb"), 2)
        self.entered = self.mine()

    def mine(self) -> str:
        """Mine what waits; gives the block's hash. No block is made twice: each pays a new address."""
        miner = self._node.ask("getnewaddress")
        (block_hash,) = self._node.ask("generatetoaddress", 1, miner)
        return block_hash

    def pay_openly(self, address: str, litecoins: float) -> str:
        return self._node.ask("sendtoaddress", address, litecoins)

    def pay_from_hidden(self, address: str, litecoins: float) -> str:
        """Pay out of the extension block; the id given is that of no transaction in any block."""
        open_coins = [
            {key: coin[key] for key in ("txid", "vout")}
            for coin in self._node.ask("listunspent")
            if "vout" in coin
        ]
        self._node.ask("lockunspent", False, open_coins)
        sent = self._node.ask("sendtoaddress", address, litecoins)
        self._node.ask("lockunspent", True, open_coins)
        return sent
