"""What a source asks of several nodes at once: the newest head, a header that any of them has, a witness.

Talks through an `RpcPool`; knows no chain's methods. Every source of a chain uses it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from chains.clock import Clock
from chains.errors import ChainError, NodeUnavailable, Retryable, Unsupported
from chains.http_node import HttpNode
from chains.pool import RpcPool
from chains.port import Head, Header
from schemas.caip import ChainName

T = TypeVar("T")

#: A head older than so many block times, and than this, is compared with those of other nodes.
_OLD_BLOCKS: Final = 4
_OLD_MIN_S: Final = 30.0


class HeaderClient(Protocol):
    """What every family's client of one node can be asked."""

    async def header_at(self, height: int) -> Header:
        """Give the header at a height. **Raises**: `NodeBehind`."""
        ...

    async def header_by_hash(self, block_hash: str) -> Header | None:
        """Give a header by hash, or None."""
        ...


C = TypeVar("C", bound=HeaderClient)


class Several(Generic[C]):
    """Headers of one chain, asked of several nodes, each by its own client."""

    def __init__(self, pool: RpcPool, clients: Mapping[int, C]) -> None:
        self._pool = pool
        self._clients = clients

    async def header_at(self, height: int) -> Header:
        """Give the header at a height of the node's present chain. **Raises**: `NodeBehind`."""
        return await self._pool.read(lambda node: self._client(node).header_at(height))

    async def header_by_hash(self, block_hash: str) -> Header | None:
        """Give a header by hash, of any branch, or None when no node has such a block."""
        return await find_anywhere(
            self._pool, lambda node: self._client(node).header_by_hash(block_hash)
        )

    async def agree(self, header: Header) -> bool:
        """Ask nodes other than the first that answers whether this block is on their chain."""
        return await has_witness(
            self._pool, lambda node: self._client(node).header_at(header.height), header
        )

    def _client(self, node: HttpNode) -> C:
        return self._clients[id(node)]


class NewestHead:
    """The highest tip that nodes tell of. **Units**: seconds of a block time."""

    def __init__(self, pool: RpcPool, *, clock: Clock, block_time_s: float) -> None:
        self._pool = pool
        self._clock = clock
        self._old_s = max(_OLD_MIN_S, _OLD_BLOCKS * block_time_s)
        self._highest = 0

    async def ask(self, head_of: Callable[[HttpNode], Awaitable[Head]]) -> Head:
        """Give the tip; when it is lower than one seen before, or old, ask every other node too."""
        head = await self._pool.read(head_of)
        if head.header.height < self._highest or self._is_old(head):
            for node in self._pool.nodes:
                other = await _head_or(self._pool, node, head_of, head)
                head = max(head, other, key=lambda one: one.header.height)
        self._highest = max(self._highest, head.header.height)
        return head

    def _is_old(self, head: Head) -> bool:
        """Tell a head that should have been followed by others: its node lags or stands still."""
        return (self._clock.now() - head.header.time).total_seconds() > self._old_s


async def greet_all(
    pool: RpcPool, ask: Callable[[HttpNode], Awaitable[object]], chain: ChainName
) -> None:
    """Ask every node something at the start; those that do not answer may come later.

    **Raises**: `WrongChain` and whatever else is `Fatal`; the last `Retryable` when no node answers.
    """
    failure: ChainError | None = None
    answered = False
    for node in pool.nodes:
        try:
            await pool.ask_one(node, ask)
            answered = True
        except Retryable as error:
            failure = error
    if not answered:
        raise failure or NodeUnavailable(f"chain {chain}: no node answers")


async def find_anywhere(pool: RpcPool, ask: Callable[[HttpNode], Awaitable[T | None]]) -> T | None:
    """Ask one node after another until one has it; None when those that answer have not.

    **Raises**: the last `Retryable` or `Unsupported` where no node answered at all.
    """
    failure: ChainError | None = None
    answered = False
    for node in pool.nodes:
        try:
            found = await pool.ask_one(node, ask)
        except (Retryable, Unsupported) as error:
            failure = error
            continue
        answered = True
        if found is not None:
            return found
    if not answered and failure is not None:
        raise failure
    return None


async def has_witness(
    pool: RpcPool, header_at: Callable[[HttpNode], Awaitable[Header]], header: Header
) -> bool:
    """Ask nodes other than the first that answers whether this block is on their chain."""
    witnesses = 0
    for node in pool.nodes:
        try:
            found = await pool.ask_one(node, header_at)
        except Retryable:
            continue
        witnesses += found.hash == header.hash
    return witnesses > 1


async def _head_or(
    pool: RpcPool, node: HttpNode, head_of: Callable[[HttpNode], Awaitable[Head]], other: Head
) -> Head:
    try:
        return await pool.ask_one(node, head_of)
    except (Retryable, Unsupported):
        return other
