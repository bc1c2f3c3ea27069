"""Reading spans of blocks for the loop: in ranges where they are final, else block by block.

Talks to a `ChainSource`; gives `Taken` spans that follow each other, or raises. Used for going
forward, for scanning back and for reading again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from chains.at_once import first_good
from chains.errors import AnswerRefused
from chains.line import Taken
from chains.port import BlockRead, ChainSource, Header, WatchedAddresses
from schemas.facts import TransferSeen


class Spans:
    """Reads spans of one chain, several blocks at once. **Units**: `at_once` in blocks."""

    def __init__(self, source: ChainSource, *, at_once: int) -> None:
        self._source = source
        self._at_once = at_once

    async def headers(self, first_height: int, upto: int) -> list[Header]:
        """Give headers that follow each other; fewer when the chain moves meanwhile. One at least."""
        asked = range(first_height, min(upto, first_height + self._at_once - 1) + 1)
        found = await first_good([self._header(height) for height in asked])
        linked = found[:1]
        for header in found[1:]:
            if header.parent_hash != linked[-1].hash:
                break
            linked.append(header)
        return linked

    async def singly(self, headers: Sequence[Header], watched: WatchedAddresses) -> list[Taken]:
        """Read blocks one by one, several at once; give the first ones up to one that failed."""
        reads = await first_good([self._read(header, watched) for header in headers])
        return [_taken(read) for read in reads]

    async def ranged(self, first: Header, last: Header, watched: WatchedAddresses) -> list[Taken]:
        """Read a final span in one go, cut so that every block with facts stands by itself."""
        read = await self._source.read_range(first.height, last, watched)
        by_height: defaultdict[int, list[TransferSeen]] = defaultdict(list)
        for seen in read.transfers:
            if seen.block is None or not first.height <= seen.block.height <= last.height:
                message = f"{seen.transfer} does not lie in {first.height} to {last.height}"
                raise AnswerRefused(message)
            by_height[seen.block.height].append(seen)
        pieces: list[Taken] = []
        begins, parent_hash = first.height, first.parent_hash
        for height in sorted(by_height):
            own = first if height == first.height else await self._source.header_at(height)
            if any(seen.block is None or seen.block.hash != own.hash for seen in by_height[height]):
                message = f"block {height} is {own.hash}, transfers were found in another one"
                raise AnswerRefused(message)
            if height > begins:
                before = await self._parent(own)
                pieces.append(Taken(from_height=begins, parent_hash=parent_hash, header=before))
            pieces.append(
                Taken(
                    from_height=height,
                    parent_hash=own.parent_hash,
                    header=own,
                    transfers=by_height[height],
                )
            )
            begins, parent_hash = height + 1, own.hash
        if begins <= last.height:
            pieces.append(Taken(from_height=begins, parent_hash=parent_hash, header=last))
        return pieces

    async def _parent(self, header: Header) -> Header:
        parent = await self._source.header_at(header.height - 1)
        if parent.hash != header.parent_hash:
            message = f"block {parent.height} {parent.hash} is not the parent of {header.hash}"
            raise AnswerRefused(message)
        return parent

    def _header(self, height: int) -> Callable[[], Awaitable[Header]]:
        return lambda: self._source.header_at(height)

    def _read(
        self, header: Header, watched: WatchedAddresses
    ) -> Callable[[], Awaitable[BlockRead]]:
        return lambda: self._source.read_block(header, watched)


def _taken(read: BlockRead) -> Taken:
    return Taken(
        from_height=read.header.height,
        parent_hash=read.header.parent_hash,
        header=read.header,
        transfers=read.transfers,
        ignored=read.ignored,
        recipients=read.recipients,
        spent=read.spent,
    )
