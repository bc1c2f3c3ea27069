"""Our own line of the chain: what was read, what was said about it, and what is still to be said.

Pure bookkeeping of the loop. Reads blocks that were read whole, writes watermarks; asks no node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from chains.port import Header
from schemas.facts import TransferSeen, Watermark
from schemas.values import ParentRef


class Taken(Struct, frozen=True, kw_only=True):
    """Consecutive blocks that were read whole: one block, or a span in which nothing is ours.

    `parent_hash` is that of the first block; `header` is the last one. Transfers and used nonces are
    there for single blocks only.
    """

    from_height: int
    parent_hash: str
    header: Header
    transfers: Sequence[TransferSeen] = ()
    ignored: Mapping[str, int] = {}
    recipients: frozenset[bytes] | None = None
    spent: Mapping[str, str] = {}


class Line:
    """The blocks from the oldest watermark that is kept to the last block that was read."""

    def __init__(self, watermarks: Sequence[Watermark], *, kept_blocks: int) -> None:
        self.watermarks = linked(watermarks)
        self.silent: Taken | None = None
        self._kept_blocks = kept_blocks
        self._hashes: dict[int, str] = {}
        self._name(self.watermarks)

    @property
    def said(self) -> Watermark | None:
        """The last watermark that was given out."""
        return self.watermarks[-1] if self.watermarks else None

    @property
    def tip(self) -> ParentRef | None:
        """The last block that was read, said or not; None before the first."""
        if self.silent is not None:
            return ParentRef(height=self.silent.header.height, hash=self.silent.header.hash)
        return (
            None if self.said is None else ParentRef(height=self.said.height, hash=self.said.hash)
        )

    @property
    def bottom(self) -> int:
        """The height below the first block of ours; lower, nothing is known."""
        first = self.watermarks[0].from_height if self.watermarks else None
        if first is None:
            first = self.silent.from_height if self.silent else 0
        return first - 1

    @property
    def hashes(self) -> Mapping[int, str]:
        """Every height of which we know the hash."""
        return self._hashes

    def extend_below(self, older: Sequence[Watermark]) -> bool:
        """Add older watermarks of ours that the oldest one follows; tell whether there were any."""
        if not self.watermarks:
            return False
        first = self.watermarks[0]
        lower = [mark for mark in older if mark.height < first.height]
        joined = linked([*lower, *self.watermarks])
        new = joined[: len(joined) - len(self.watermarks)]
        self._name(new)
        self.watermarks = joined
        return bool(new)

    def known_at_or_below(self, height: int) -> int | None:
        """Give the highest known height up to this one."""
        return max((known for known in self._hashes if known <= height), default=None)

    def has_watermark(self, header: Header) -> bool:
        """Tell whether a block has a watermark of its own name."""
        return any(mark.hash == header.hash for mark in reversed(self.watermarks))

    def keep_silent(self, taken: Taken) -> None:
        """Add blocks in which nothing is ours; they share the next watermark."""
        self._note(taken)
        if self.silent is None:
            self.silent = taken
        else:
            self.silent = replace(self.silent, header=taken.header)

    def say(self, taken: Taken, watermark: Watermark) -> None:
        """Add blocks together with the watermark that speaks for them."""
        self._note(taken)
        self.watermarks.append(watermark)
        self.silent = None
        self._prune(watermark.height)

    def say_again(self, watermark: Watermark) -> None:
        """Replace the last watermark by a younger one for the same block."""
        self.watermarks[-1] = watermark

    def cut_above(self, height: int) -> None:
        """Forget every block above a height, and every watermark that spoke for one of them."""
        self.watermarks = [mark for mark in self.watermarks if mark.height <= height]
        self._hashes = {at: name for at, name in self._hashes.items() if at <= height}
        if self.silent is not None and self.silent.header.height > height:
            self.silent = None

    def _name(self, watermarks: Sequence[Watermark]) -> None:
        for mark in watermarks:
            self._hashes[mark.from_height - 1] = mark.parent_hash
            self._hashes[mark.height] = mark.hash

    def _note(self, taken: Taken) -> None:
        self._hashes[taken.from_height - 1] = taken.parent_hash
        self._hashes[taken.header.height] = taken.header.hash

    def _prune(self, height: int) -> None:
        """Keep what a reorganisation within the limit can reach, and one watermark below it."""
        floor = height - self._kept_blocks
        if len(self._hashes) <= 2 * self._kept_blocks:
            return
        kept = [mark for mark in self.watermarks if mark.height >= floor]
        below = [mark for mark in self.watermarks if mark.height < floor]
        self.watermarks = below[-1:] + kept
        bottom = self.bottom
        self._hashes = {at: name for at, name in self._hashes.items() if at >= bottom}


def linked(watermarks: Sequence[Watermark]) -> list[Watermark]:
    """Give the newest run of watermarks that follow each other, oldest first.

    Repeats, and watermarks of spans that were read again, do not follow and are passed over.
    """
    kept: list[Watermark] = []
    for mark in reversed(watermarks):
        if not kept or (mark.height, mark.hash) == (kept[-1].from_height - 1, kept[-1].parent_hash):
            kept.append(mark)
    return kept[::-1]
