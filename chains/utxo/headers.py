"""Headers that one node gave, and the median time that follows from them.

Pure memory. A header's hash was made of its own bytes, so it never changes; how high it stands is the
node's word, held against its parent's. Each node has its own memory, so that no node speaks for another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.port import Header
from chains.utxo.header import may_follow
from chains.utxo.rules import BlockRules

#: A block's time is above the median of so many blocks before it.
#: **Source**: Bitcoin Core chain.h, nMedianTimeSpan (BIP 113); Litecoin and Dogecoin have the same.
MEDIAN_SPAN: Final = 11
#: Some weeks of Bitcoin, some days of Dogecoin: a look back reads them once.
HEADERS_MAX: Final = 4_096


class PlacedHeader(Struct, frozen=True, kw_only=True, gc=False):
    """A header at its height. **Units**: `time_s` in seconds since 1970."""

    hash: str
    parent_hash: str
    height: int
    time_s: int
    bits: int


class HeaderMemory:
    """The headers of one node, by hash; the one that was asked for longest ago is forgotten first."""

    def __init__(self, rules: BlockRules, headers_max: int = HEADERS_MAX) -> None:
        self._rules = rules
        self._headers: OrderedDict[str, PlacedHeader] = OrderedDict()
        self._headers_max = headers_max

    def get(self, block_hash: str) -> PlacedHeader | None:
        """Give a header that is known."""
        found = self._headers.get(block_hash)
        if found is not None:
            self._headers.move_to_end(block_hash)
        return found

    def add(self, header: PlacedHeader) -> None:
        """Keep a header."""
        self._headers[header.hash] = header
        while len(self._headers) > self._headers_max:
            self._headers.popitem(last=False)

    def line_of(self, block_hash: str) -> tuple[list[PlacedHeader], str | None]:
        """Give a header and those before it, newest first, as many as the median needs.

        With it the hash of the first one that is missing; None when nothing is. **Raises**:
        `AnswerRefused` where a block and its parent do not stand one above the other.
        """
        line: list[PlacedHeader] = []
        wanted = block_hash
        while len(line) < MEDIAN_SPAN:
            found = self.get(wanted)
            if found is None:
                return line, wanted
            if line:
                self._require_follows(line[-1], found)
            line.append(found)
            if found.height == 0:
                break
            wanted = found.parent_hash
        return line, None

    def _require_follows(self, header: PlacedHeader, parent: PlacedHeader) -> None:
        if header.height != parent.height + 1:
            words = f"is said to stand at {header.height}, its parent at {parent.height}"
        elif not may_follow(header.bits, parent.bits, header.height, self._rules):
            words = f"names the target {header.bits:08x}, after {parent.bits:08x}"
        else:
            return
        del self._headers[header.hash], self._headers[parent.hash]
        message = f"block {header.hash} {words}"
        raise AnswerRefused(message)


def told_header(line: Sequence[PlacedHeader]) -> Header:
    """Give the newest header of a line, with the median time of the line as its coverage time.

    **Source**: Bitcoin Core chain.h, GetMedianTimePast: the one in the middle, the later of the two
    where a young chain has an even number.
    """
    newest = line[0]
    times = sorted(header.time_s for header in line)
    return Header(
        height=newest.height,
        hash=newest.hash,
        parent_hash=newest.parent_hash,
        time=_time(newest.time_s),
        coverage_time=_time(times[len(times) // 2]),
    )


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
