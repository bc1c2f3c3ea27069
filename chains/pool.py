"""Several nodes of one chain behind one question: order, failover, rest and identity.

Talks through nodes; never sleeps, so that whoever asks decides how to wait. Raises only
`chains.errors`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from chains.clock import Clock
from chains.errors import (
    ChainError,
    NodeBehind,
    NodeBusy,
    NodeUnavailable,
    Retryable,
    Unsupported,
)
from chains.http_node import HttpNode
from chains.pace import chance as _chance

T = TypeVar("T")

_REST_FIRST_S: Final = 0.5
_REST_MAX_S: Final = 60.0
_DOUBLINGS_MAX: Final = 8
#: A chain id is asked again after this long, and after every broken connection.
IDENTIFY_EVERY_S: Final = 60.0


class RpcPool:
    """Several nodes of one chain, in the order in which the settings name them.

    A read goes to one node and stays there; it is repeated whole on the next one when it fails. A
    node that failed is asked last for a while; one that asked for time gets it.
    """

    def __init__(
        self,
        nodes: Sequence[HttpNode],
        *,
        identify: Callable[[HttpNode], Awaitable[None]],
        clock: Clock,
        chance: Callable[[], float] = _chance,
    ) -> None:
        self.nodes = list(nodes)
        self._identify = identify
        self._clock = clock
        self._chance = chance

    async def close(self) -> None:
        """Close every node's connections. May be called twice."""
        for node in self.nodes:
            await node.close()

    async def read(
        self,
        ask: Callable[[HttpNode], Awaitable[T]],
        *,
        among: Callable[[HttpNode], bool] = lambda _: True,
    ) -> T:
        """Ask one node after another until one answers whole.

        **Raises**: `Fatal` from any of them at once; else the last `Retryable` or `Unsupported`.
        """
        last: ChainError | None = None
        for node in self._in_order(among):
            try:
                return await self.ask_one(node, ask)
            except (Retryable, Unsupported) as error:
                last = error
        raise last or self._all_rest(among)

    async def ask_one(self, node: HttpNode, ask: Callable[[HttpNode], Awaitable[T]]) -> T:
        """Ask this node, after its chain id where that is not known freshly; keep how it went.

        **Raises**: `NodeBusy` without asking, while the node has the time that it asked for.
        """
        wait_s = node.busy_until - self._clock.monotonic_s()
        if wait_s > 0:
            message = f"{node.name} asked us to slow down"
            raise NodeBusy(message, retry_after_s=wait_s)
        try:
            if self.is_stale(node):
                await self.identify(node)
            answer = await ask(node)
        except (Retryable, Unsupported) as error:
            self._note_failure(node, error)
            raise
        node.failures, node.free_at = 0, 0.0
        return answer

    async def identify(self, node: HttpNode) -> None:
        """Ask a node which chain it serves. **Raises**: `WrongChain`; `Retryable`."""
        node.identified_at = None
        await self._identify(node)
        node.identified_at = self._clock.monotonic_s()

    def is_stale(self, node: HttpNode) -> bool:
        """Tell whether a node's chain id must be asked again before it is believed."""
        known = node.identified_at
        return known is None or self._clock.monotonic_s() - known >= IDENTIFY_EVERY_S

    def _in_order(self, among: Callable[[HttpNode], bool]) -> list[HttpNode]:
        now = self._clock.monotonic_s()
        awake = [node for node in self.nodes if among(node) and node.busy_until <= now]
        return sorted(awake, key=lambda node: node.free_at > now)

    def _all_rest(self, among: Callable[[HttpNode], bool]) -> ChainError:
        waits = [node.busy_until for node in self.nodes if among(node)]
        if not waits:
            return Unsupported("no node offers this")
        wait = max(0.0, min(waits) - self._clock.monotonic_s())
        return NodeBusy("every node asked us to slow down", retry_after_s=wait)

    def _note_failure(self, node: HttpNode, error: ChainError) -> None:
        """Let a node rest: doubling, with jitter so that watchers do not come back in step."""
        if isinstance(error, Unsupported):
            return
        now = self._clock.monotonic_s()
        if isinstance(error, NodeBusy):
            node.busy_until = now + self._busy_rest_s(node, error)
        if isinstance(error, NodeUnavailable):
            node.identified_at = None
        doublings = 0 if isinstance(error, NodeBehind) else min(node.failures, _DOUBLINGS_MAX)
        node.failures += 1
        node.free_at = now + min(_REST_MAX_S, _REST_FIRST_S * 2**doublings) * (0.5 + self._chance())

    def _busy_rest_s(self, node: HttpNode, error: NodeBusy) -> float:
        if error.retry_after_s is not None:
            return error.retry_after_s
        rest: float = _REST_FIRST_S * 2 ** min(node.failures, _DOUBLINGS_MAX)
        return min(_REST_MAX_S, rest) * (0.5 + self._chance())
