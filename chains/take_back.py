"""Finding where the node's line leaves ours, and whether it may take our blocks back.

Talks to a `ChainSource`; changes nothing. The loop retracts what this allows.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from chains.errors import HeldReorganisation, NodeBehind
from chains.forks import where_they_part
from chains.line import Line
from chains.port import ChainSource, Header, LogMemory
from schemas.values import ParentRef


class Allowed(Struct, frozen=True, kw_only=True):
    """What may be taken back: everything above `left`.

    `is_ours` is false when nothing that was ever said is left: then `left` is the block of theirs below.
    """

    left: Header
    is_ours: bool


class TakeBack:
    """Walks down the node's line. A reorganisation beyond the limit needs a second voice."""

    def __init__(self, source: ChainSource, line: Line, *, limit: int, log: LogMemory) -> None:
        self.released = False
        self._source = source
        self._line = line
        self._limit = limit
        self._log = log

    async def allow(self, theirs: Header, tip: ParentRef) -> Allowed:
        """Ask for the chain again, walk down, and give what is left of our line.

        **Raises**: `HeldReorganisation` when it is deeper than the limit and neither a second node nor
        a person agreed; `WrongChain`; `Retryable`.
        """
        await self._source.identify()
        found = await self._walk(theirs, tip.height - self._limit)
        if not found.is_ours:
            await self._require_release(found.left, tip)
            found = await self._walk(theirs, self._line.bottom)
            while not found.is_ours and await self._remember_more(tip):
                found = await self._walk(theirs, self._line.bottom)
        # The block below the first of ours is known by name alone: somebody has to have spoken for it.
        while found.left.height <= self._line.bottom and await self._remember_more(tip):
            pass
        self.released = False
        return found

    async def _remember_more(self, tip: ParentRef) -> bool:
        """Read on in the stream, twice as deep as before; False when it reaches no further."""
        bottom = self._line.bottom
        deeper = bottom - max(tip.height - bottom, self._limit)
        return self._line.extend_below(await self._log.older(max(0, deeper)))

    async def _walk(self, header: Header, floor: int) -> Allowed:
        """Go down parent by parent to a block of ours, or to the floor."""
        hashes: Mapping[int, str] = self._line.hashes
        lowest = max(floor, self._line.bottom, 0)
        walked = [header]
        while header.height > lowest and hashes.get(header.height) != header.hash:
            parent = await self._source.header_by_hash(header.parent_hash)
            if parent is None:
                message = (
                    f"the node does not have {header.parent_hash}, the parent of its own block"
                )
                raise NodeBehind(message)
            header = parent
            walked.append(header)
        common = where_they_part(hashes, walked).common
        return Allowed(left=common or walked[-1], is_ours=common is not None)

    async def _require_release(self, lowest: Header, tip: ParentRef) -> None:
        if self.released or await self._source.agree(lowest):
            return
        message = (
            f"{self._source.chain} wants to take back more than {self._limit} blocks below "
            f"{tip.height}; waiting for a second node or a person to agree"
        )
        raise HeldReorganisation(message)
