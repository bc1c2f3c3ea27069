"""What happens in chains/, told to whoever counts it. No metrics library is known here.

Written by the node pool and the loop, read by one callable that the caller gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from schemas.caip import ChainName


class RpcRequest(Struct, frozen=True, kw_only=True):
    """One question to a node ended. `outcome` is `ok` or the name of an error of `chains.errors`."""

    chain: ChainName
    node: str
    method: str
    seconds: float
    outcome: str


class BlockTaken(Struct, frozen=True, kw_only=True):
    """Blocks were read whole, from `from_height` to `height`."""

    chain: ChainName
    from_height: int
    height: int
    transfers: int
    ignored: Mapping[str, int]


class Reorganised(Struct, frozen=True, kw_only=True):
    """The chain took blocks back. **Units**: `depth` in blocks."""

    chain: ChainName
    depth: int
    common_height: int


class ReadFailed(Struct, frozen=True, kw_only=True):
    """A read failed and will be tried again; nothing is skipped."""

    chain: ChainName
    error: str
    message: str
    failures_in_a_row: int


class SourceStarted(Struct, frozen=True, kw_only=True):
    """The nodes answered and were recognised. `blind_spots` says what they cannot show."""

    chain: ChainName
    blind_spots: tuple[str, ...]


Observation = RpcRequest | BlockTaken | Reorganised | ReadFailed | SourceStarted
Observer = Callable[[Observation], None]


def nobody(_: Observation) -> None:
    """Count nothing."""
