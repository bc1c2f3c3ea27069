"""The customers' money: coins without end that need no signature.

Filled by coinbases, and by the change of what was paid. A coin is given out once, oldest first, so that
no two payments of a script compete unless it says so, and none depends on another that may be taken back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from chains.devnet.hexadecimal import ScriptError
from chains.devnet.utxo.blocks import Block
from chains.devnet.utxo.transactions import (
    OPEN_SCRIPT,
    OPEN_WITNESS,
    Output,
    outpoint_at,
)
from chains.devnet.utxo.world import UtxoWorld

#: More than one coinbase of any real chain makes; nothing that reads blocks adds subsidies up.
#: **Units**: satoshi. All of one coinbase stay below what Bitcoin allows one transaction.
COIN_AMOUNT: Final = 10_000 * 10**8
COINS_A_FILLING: Final = 500
COINS_MIN: Final = 250


class Wallet:
    """Who pays. It looks at the branch that is the chain."""

    def __init__(self, world: UtxoWorld) -> None:
        self.script = OPEN_WITNESS if world.rules.segwit else OPEN_SCRIPT
        self._world = world
        self._coins: deque[bytes] = deque()
        self._known: set[bytes] = set()

    def take(self, amount: int) -> list[bytes]:
        """Give coins that are together worth so much. **Raises**: `ScriptError`."""
        head, taken, total = self._world.tree.head, [], 0
        for _ in range(len(self._coins)):
            coin = self._coins.popleft()
            if self._world.is_there(coin, head):
                taken.append(coin)
                total += self._worth(coin)
            else:
                self._coins.append(coin)
            if total >= amount:
                return taken
        self._coins.extendleft(reversed(taken))
        message = f"the customers have {total} left on this branch, {amount} are asked for"
        raise ScriptError(message)

    def filling(self) -> Sequence[Output]:
        """Give what the next coinbase pays to the customers: nothing while they have enough."""
        missing = len(self._coins) < COINS_MIN
        return [Output(COIN_AMOUNT, self.script)] * COINS_A_FILLING if missing else ()

    def learn(self, block: Block) -> None:
        """Find the customers' coins in a block that joined the chain."""
        for tx in block.transactions:
            for index, output in enumerate(tx.outputs):
                outpoint = outpoint_at(tx.txid, index)
                if output.script == self.script and outpoint not in self._known:
                    self._known.add(outpoint)
                    self._coins.append(outpoint)

    def _worth(self, coin: bytes) -> int:
        output = self._world.output(coin)
        return 0 if output is None else output.amount
