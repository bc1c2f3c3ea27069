"""A `FollowLoop` that gives the steps it is told to, and keeps what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from chains.port import Checkpoint, FollowStatus, Step, WatchEntry
from schemas.amounts import BaseUnits
from schemas.facts import (
    BlockRetracted,
    ChainFact,
    Evidence,
    FoundBy,
    TransferSeen,
    Watermark,
)
from schemas.requests import ChainRequest, LookUpTransaction
from schemas.values import BlockRef, ParentRef, transfer_id

CHAIN = "eip155:313371"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def address_number(number: int) -> str:
    """Make an address; all its letters are lower-case, so it carries no checksum."""
    return f"0x{0xA000 + number:040x}".replace("0x0000", "0xffff", 1)


def hash_of(height: int, branch: str = "a") -> str:
    return f"0x{branch}{height:063d}"


def block(height: int, branch: str = "a") -> BlockRef:
    return BlockRef(
        height=height, hash=hash_of(height, branch), time=NOON + timedelta(seconds=height)
    )


def watermark(
    height: int,
    *,
    from_height: int | None = None,
    finalized: int = 0,
    branch: str = "a",
    log_id: str = "log-1",
    upto: int = 0,
) -> Watermark:
    first = height if from_height is None else from_height
    return Watermark(
        chain=CHAIN,
        from_height=first,
        height=height,
        hash=hash_of(height, branch),
        parent_hash=hash_of(first - 1, branch),
        time=NOON + timedelta(seconds=height),
        finalized_height=finalized,
        read_at=NOON + timedelta(seconds=height),
        log_id=log_id,
        watchlist_upto=upto,
    )


def retracted(height: int, branch: str = "a") -> BlockRetracted:
    parent = ParentRef(height=height - 1, hash=hash_of(height - 1, branch))
    return BlockRetracted(chain=CHAIN, height=height, hash=hash_of(height, branch), parent=parent)


def seen(number: int, to: str, height: int, *, branch: str = "a", amount: int = 1) -> TransferSeen:
    return TransferSeen(
        transfer=transfer_id(CHAIN, f"0x{number:064x}", "log:0"),
        chain=CHAIN,
        asset=f"{CHAIN}/slip44:1",
        sender="",
        to=to,
        amount=BaseUnits(amount),
        block=block(height, branch),
        first_seen_at=NOON,
        evidence=Evidence(method="receipts"),
        found_by=FoundBy.WATCH,
    )


class ScriptedLoop:
    """One life of the loop. `taken` are the steps that were given; all but the last are final."""

    def __init__(self, checkpoint: Checkpoint | None, log_id: str) -> None:
        self.checkpoint = checkpoint
        self.log_id = log_id
        self.entries: list[WatchEntry] = []
        self.upto = 0
        self.requests: list[ChainRequest] = []
        self.taken: list[Step] = []
        self.entries_at_first_step: int | None = None
        self.held: str | None = None
        self.look_ups_answered = 0
        self._steps: asyncio.Queue[Step | Exception] = asyncio.Queue()

    def give(self, *facts: ChainFact) -> None:
        self._steps.put_nowait(Step(facts=facts))

    def fail(self, error: Exception) -> None:
        self._steps.put_nowait(error)

    async def next_step(self) -> Step:
        if self.entries_at_first_step is None:
            self.entries_at_first_step = len(self.entries)
        step = await self._steps.get()
        if isinstance(step, Exception):
            raise step
        self.taken.append(step)
        return step

    def add_addresses(self, entries: Sequence[WatchEntry], *, read_upto_offset: int) -> None:
        self.entries.extend(entries)
        self.upto = read_upto_offset

    def request(self, request: ChainRequest) -> None:
        self.requests.append(request)

    @property
    def look_ups(self) -> list[str]:
        """Name the look-ups that it was asked for, in their order."""
        return [one.request for one in self.requests if isinstance(one, LookUpTransaction)]

    def status(self) -> FollowStatus:
        last = self.taken[-1].watermark if self.taken else None
        return FollowStatus(
            head_height=last.height + 2 if last else 0,
            covered_height=last.height if last else 0,
            covered_time=last.time if last else None,
            finalized_height=last.finalized_height if last else 0,
            watched=len(self.entries),
            back_scans_open=0,
            look_ups_open=len(self.look_ups) - self.look_ups_answered,
            retracted_total=0,
            failures_in_a_row=0,
            held=self.held,
        )
