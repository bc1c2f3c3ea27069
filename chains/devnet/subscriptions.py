"""What one websocket connection has subscribed to, and what it must be told of each change.

Reads changes of the chain; gives notices. No I/O: `chains.devnet.server` sends them. A node that lags
or stands still tells of its own view only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from chains.devnet.answers import header_answer
from chains.devnet.blocks import Block
from chains.devnet.faults import Notice, TellTwice, Withhold
from chains.devnet.hexadecimal import data, keccak, word
from chains.devnet.lies import colour
from chains.devnet.log_filter import LogFilter, read_filter
from chains.devnet.node import DevnetNode
from chains.devnet.rpc_errors import invalid_params, unknown_method
from chains.devnet.scripted import Transaction

SUBSCRIPTIONS_MAX: Final = 100


class Subscription(Struct, frozen=True, kw_only=True):
    """One `eth_subscribe`."""

    id: str
    kind: str
    wanted: LogFilter | None = None


class Subscriptions:
    """Those of one connection."""

    def __init__(self, node: DevnetNode, salt: int) -> None:
        self._node = node
        self._salt = salt
        self._made = 0
        self._live: dict[str, Subscription] = {}
        self._told: Block = node.head

    def subscribe(self, params: list[Any]) -> str:
        """Begin one. **Raises**: `RpcError`."""
        kind = params[0] if params else None
        if not self._node.switches.subscriptions:
            raise unknown_method("eth_subscribe")
        if kind not in {"newHeads", "logs", "newPendingTransactions"}:
            raise invalid_params(f'no "{kind}" subscription in eth namespace')
        if len(self._live) >= SUBSCRIPTIONS_MAX:
            raise invalid_params("too many subscriptions")
        self._made += 1
        name = data(keccak(word(self._salt) + word(self._made))[:16])
        asked = params[1] if len(params) > 1 and isinstance(params[1], dict) else {}
        wanted = read_filter(asked) if kind == "logs" else None
        self._live[name] = Subscription(id=name, kind=kind, wanted=wanted)
        return name

    def unsubscribe(self, params: list[Any]) -> bool:
        """End one. **Raises**: `RpcError` when there is none of that id."""
        if not params or params[0] not in self._live:
            raise invalid_params("subscription not found")
        del self._live[params[0]]
        return True

    def on_change(self) -> list[bytes]:
        """Give the notices of what this node's chain has become since the last ones."""
        tree, head = self._node.chain.world.tree, self._node.head
        left, joined = [], []
        block = self._told
        while not tree.is_ancestor(block, head):
            left.append(block)
            block = tree.parent(block)
        for height in range(block.height + 1, head.height + 1):
            found = tree.ancestor(head, height)
            if found is not None:
                joined.append(found)
        self._told = head
        return [
            notice
            for subscription in self._live.values()
            for result in self._results(subscription, left, joined)
            for notice in self._notices(subscription, result)
        ]

    def on_waiting(self, tx: Transaction) -> list[bytes]:
        """Give the notices of a transaction that came into the mempool."""
        pending = [one for one in self._live.values() if one.kind == "newPendingTransactions"]
        return [notice for one in pending for notice in self._notices(one, data(tx.hash))]

    def _results(
        self, subscription: Subscription, left: list[Block], joined: list[Block]
    ) -> Iterator[Any]:
        if subscription.kind == "newHeads":
            yield from (header_answer(block) for block in joined)
        elif subscription.wanted is not None:
            if self._node.switches.removed_logs:
                for block in left:
                    yield from subscription.wanted.rows(block, removed=True)
            for block in joined:
                yield from subscription.wanted.rows(block)

    def _notices(self, subscription: Subscription, result: Any) -> list[bytes]:
        faults = self._node.faults.take(subscription.kind, Notice)
        if any(isinstance(fault, Withhold) for fault in faults):
            return []
        listed = [result] if subscription.kind == "logs" else result
        coloured = colour(listed, self._node.switches)
        params = {
            "subscription": subscription.id,
            "result": coloured[0] if subscription.kind == "logs" else coloured,
        }
        message = {"jsonrpc": "2.0", "method": "eth_subscription", "params": params}
        times = 2 if any(isinstance(fault, TellTwice) for fault in faults) else 1
        return [msgspec.json.encode(message)] * times
