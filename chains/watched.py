"""The addresses of ours on one chain, and who was paid lately.

Kept by the loop, asked by the parser for every recipient. A million addresses must fit in a small
machine, so an address is its bytes in one set (about 110 bytes each, measured) and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

from chains.port import Header


class Watched:
    """A growing set of address bytes (`chains.port.WatchedAddresses`). Nothing ever leaves."""

    def __init__(self) -> None:
        self._addresses: set[bytes] = set()

    def __contains__(self, address_bytes: object, /) -> bool:
        """Tell whether the bytes are an address of ours."""
        return address_bytes in self._addresses

    def __len__(self) -> int:
        """Count them."""
        return len(self._addresses)

    def add(self, address_bytes: bytes) -> bool:
        """Watch one more; False when it was watched already."""
        before = len(self._addresses)
        self._addresses.add(address_bytes)
        return len(self._addresses) > before


class RecentBlocks:
    """Who was paid in the last blocks, so that a new address needs no node to be scanned back.

    Heights are consecutive. Bounded by blocks and by recipients, whichever comes first.
    """

    def __init__(self, *, blocks_max: int, recipients_max: int) -> None:
        self._blocks: deque[tuple[Header, frozenset[bytes]]] = deque()
        self._blocks_max = blocks_max
        self._recipients_max = recipients_max
        self._recipients = 0

    @property
    def first(self) -> Header | None:
        """The oldest block that is kept."""
        return self._blocks[0][0] if self._blocks else None

    def add(self, header: Header, recipients: frozenset[bytes]) -> None:
        """Keep a block; one that does not follow the last empties the memory first."""
        if self._blocks and self._blocks[-1][0].hash != header.parent_hash:
            self.forget()
        self._blocks.append((header, recipients))
        self._recipients += len(recipients)
        while self._blocks and self._is_full():
            self._recipients -= len(self._blocks.popleft()[1])

    def cut_above(self, height: int) -> None:
        """Forget blocks that left the chain."""
        while self._blocks and self._blocks[-1][0].height > height:
            self._recipients -= len(self._blocks.pop()[1])

    def forget(self) -> None:
        """Forget everything: the next block does not follow."""
        self._blocks.clear()
        self._recipients = 0

    def paying(self, addresses: Collection[bytes], from_height: int, upto: int) -> Iterator[Header]:
        """Give the blocks of a span that pay one of these addresses, oldest first."""
        for header, recipients in self._blocks:
            in_span = from_height <= header.height <= upto
            if in_span and not recipients.isdisjoint(addresses):
                yield header

    def headers(self) -> Iterator[Header]:
        """Give every block that is kept, oldest first."""
        return (header for header, _ in self._blocks)

    def _is_full(self) -> bool:
        return len(self._blocks) > self._blocks_max or self._recipients > self._recipients_max
