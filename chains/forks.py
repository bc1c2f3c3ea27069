"""Where two lists of headers part. Pure: reads points of two lines, moves nothing.

The loop knows its own line (dense where it read blocks, sparse where only watermarks are left from
an earlier run) and collects the node's line downwards, parent by parent, until both have a point
in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.port import Header
from schemas.facts import BlockRetracted, Watermark
from schemas.values import ParentRef


class Parting(Struct, frozen=True, kw_only=True):
    """Where they part: the highest point on both, or None where ours has no point on theirs."""

    common: Header | None


def where_they_part(ours: Mapping[int, str], theirs: Iterable[Header]) -> Parting:
    """Find the highest header of theirs (given downwards) whose hash ours has at that height.

    **Raises**: `AnswerRefused` when theirs is no line: each must be the parent of the one before it.
    """
    child: Header | None = None
    for header in theirs:
        if child is not None and (header.hash, header.height) != (
            child.parent_hash,
            child.height - 1,
        ):
            message = f"block {header.height} {header.hash} is not the parent of {child.hash}"
            raise AnswerRefused(message)
        if ours.get(header.height) == header.hash:
            return Parting(common=header)
        child = header
    return Parting(common=None)


def retractions(watermarks: Sequence[Watermark], fall_to: ParentRef) -> list[BlockRetracted]:
    """Take back every block above a point that has a watermark, newest first.

    Coverage falls from one watermark to the one before it, and last to the point itself, which may
    lie inside the span of the oldest that is taken back: what is below it stands.
    """
    gone = [mark for mark in reversed(watermarks) if mark.height > fall_to.height]
    parents = [ParentRef(height=mark.height, hash=mark.hash) for mark in gone[1:]] + [fall_to]
    return [
        BlockRetracted(chain=mark.chain, height=mark.height, hash=mark.hash, parent=parent)
        for mark, parent in zip(gone, parents[: len(gone)], strict=True)
    ]
