"""Scanning back newly watched addresses, and reading spans again: what runs between two blocks.

Talks to the source in small pieces, so that the next block never waits long. Gives the facts of each
piece; the loop closes them with a watermark. Never moves the line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from chains.errors import NodeBehind
from chains.line import Taken
from chains.port import ChainSource, Header, WatchedAddresses, WatchEntry
from chains.spans import Spans
from chains.watched import RecentBlocks
from schemas.caip import ChainName
from schemas.facts import AddressCovered, FoundBy

#: Blocks with hits that are read from memory's notes in one piece of work.
_REMEMBERED_MAX: Final = 8
#: Far above any chain's height in halvings: a search that takes longer is lost.
_HALVINGS_MAX: Final = 64


class BackScan(Struct, kw_only=True):
    """Some addresses that were added together, from a moment on, up to a block.

    `next_height` is None until the height of that moment is known.
    """

    entries: Sequence[WatchEntry]
    addresses: frozenset[bytes]
    since: datetime
    upto: int
    next_height: int | None = None
    from_height: int | None = None
    proven: bool = False
    remembered: list[Header] | None = None
    retry_at_s: float = 0.0
    failures: int = 0

    @property
    def lowest_offset(self) -> int:
        """The first watchlist offset that this scan keeps open: entries are in their order."""
        return self.entries[0].offset

    def covered(self, chain: ChainName) -> deque[tuple[int, AddressCovered]]:
        """Give what to announce when the scan is done, each with its watchlist offset."""
        return deque(
            (
                entry.offset,
                AddressCovered(
                    chain=chain,
                    address=entry.display,
                    from_height=self.from_height or 0,
                    from_time=self.since,
                ),
            )
            for entry in self.entries
        )


class ReadAgainScan(Struct, kw_only=True):
    """A span to read once more for every address of ours."""

    next_height: int
    upto: int
    found_by: FoundBy = FoundBy.READ_AGAIN
    retry_at_s: float = 0.0
    failures: int = 0


def scan_of(
    entries: Sequence[WatchEntry], *, now: datetime, span_max_s: float, upto: int
) -> BackScan:
    """Make one scan for several addresses, from the earliest moment that one of them asks for."""
    floor = now - timedelta(seconds=span_max_s)
    since = max(floor, min(entry.since for entry in entries))
    addresses = frozenset(entry.raw for entry in entries)
    in_order = sorted(entries, key=lambda entry: entry.offset)
    return BackScan(entries=in_order, addresses=addresses, since=since, upto=upto)


class BackScanner:
    """Does one piece of a scan at a time."""

    def __init__(self, source: ChainSource, spans: Spans, *, range_blocks: int) -> None:
        self._source = source
        self._spans = spans
        self._range_blocks = range_blocks

    async def piece(
        self, scan: BackScan, recent: RecentBlocks, *, finalized: int
    ) -> list[Taken] | None:
        """Do the next piece; None when the scan is done. **Raises**: `Retryable`, nothing is lost."""
        first = recent.first
        if scan.from_height is None:
            await self._locate(scan, recent)
        if scan.next_height is None or scan.next_height > scan.upto:
            return None
        if first is not None and scan.next_height >= first.height:
            return await self._from_memory(scan, recent)
        end = scan.upto if first is None else min(scan.upto, first.height - 1)
        scan.remembered = None
        await self._prove_history(scan)
        taken = await self.read(scan.next_height, end, scan.addresses, finalized=finalized)
        scan.next_height = taken[-1].header.height + 1
        return [_found_by(one, FoundBy.BACK_SCAN) for one in taken]

    async def read(
        self, first: int, upto: int, watched: WatchedAddresses, *, finalized: int
    ) -> list[Taken]:
        """Read a part of a span from its beginning: a range where it is final, else a few blocks."""
        last = min(upto, finalized, first + self._range_blocks - 1)
        if last > first:
            ends = await self._source.header_at(first), await self._source.header_at(last)
            return await self._spans.ranged(*ends, watched)
        return await self._spans.singly(await self._spans.headers(first, upto), watched)

    async def _locate(self, scan: BackScan, recent: RecentBlocks) -> None:
        """Find the first block at or after the moment, in memory first."""
        first = recent.first
        if first is not None and first.time <= scan.since:
            later = (h.height for h in recent.headers() if h.time >= scan.since)
            height = next(later, scan.upto + 1)
        else:
            height = await self._height_of(scan.since, scan.upto)
        scan.from_height = scan.next_height = height

    async def _height_of(self, moment: datetime, upto: int) -> int:
        """Find the lowest height whose time is at or after a moment, by halving."""
        if upto < 0 or (await self._source.header_at(upto)).time < moment:
            return upto + 1
        step, high = 1, upto
        low = max(0, high - step)
        while low > 0 and (await self._source.header_at(low)).time >= moment:
            step *= 4
            high, low = low, max(0, low - step)
        for _ in range(_HALVINGS_MAX):
            if low >= high:
                break
            middle = (low + high) // 2
            if (await self._source.header_at(middle)).time >= moment:
                high = middle
            else:
                low = middle + 1
        return high

    async def _from_memory(self, scan: BackScan, recent: RecentBlocks) -> list[Taken]:
        """Read only blocks that are known to pay one of these addresses."""
        start = scan.next_height or 0
        if scan.remembered is None:
            scan.remembered = list(recent.paying(scan.addresses, start, scan.upto))
        now, scan.remembered = (
            scan.remembered[:_REMEMBERED_MAX],
            scan.remembered[_REMEMBERED_MAX:],
        )
        taken = await self._spans.singly(now, scan.addresses) if now else []
        rest = [header for header in now if header not in {one.header for one in taken}]
        scan.remembered = rest + scan.remembered
        scan.next_height = scan.remembered[0].height if scan.remembered else scan.upto + 1
        return [_found_by(one, FoundBy.BACK_SCAN) for one in taken]

    async def _prove_history(self, scan: BackScan) -> None:
        """Require a known old receipt: a pruned node answers with an empty list (CH-R09)."""
        if not scan.proven:
            if not await self._source.history_reaches(scan.next_height or 0):
                message = f"no node has receipts of block {scan.next_height}: history is pruned"
                raise NodeBehind(message)
            scan.proven = True


def _found_by(taken: Taken, how: FoundBy) -> Taken:
    return replace(taken, transfers=[replace(seen, found_by=how) for seen in taken.transfers])


def read_again(taken: Iterable[Taken], found_by: FoundBy) -> list[Taken]:
    """Mark what was found by reading again, for whoever asked."""
    return [_found_by(one, found_by) for one in taken]
