"""A `ChainSource` without a node: a tree of blocks in memory, and faults that are told to happen.

Used to test the loop alone, on time that moves only when somebody waits.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from chains.catalog import ChainEntry
from chains.errors import ChainError, NodeBehind, Unsupported, WrongChain
from chains.port import BlockRead, Head, Header, Unmined, WatchedAddresses
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.facts import (
    Evidence,
    FoundBy,
    LookedUpState,
    TransactionLookedUp,
    TransferSeen,
)
from schemas.values import BlockRef, transfer_id

CHAIN = ChainName("eip155:31337")
COIN = f"{CHAIN}/slip44:60"
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
BLOCK_TIME_S = 12


def entry(limit: int = 16) -> ChainEntry:
    return ChainEntry(
        id=CHAIN,
        name="Scripted",
        coin=COIN,
        block_time_s=str(BLOCK_TIME_S),
        least_depth=1,
        reorganisation_limit=limit,
        clock_slack_s=0,
        finalized=True,
        source="a test",
        verified_at="2026-11-30",
    )


def address(number: int) -> bytes:
    return number.to_bytes(20, "big")


def display(raw: bytes) -> str:
    return f"0x{raw.hex()}"


def tx_id(name: str) -> str:
    return f"0x{hashlib.sha256(name.encode()).hexdigest()}"


class StoppedClock:
    """Time that moves only when somebody sleeps."""

    def __init__(self, now: datetime = START) -> None:
        self.moment = now
        self.slept: list[float] = []
        self._start = now

    def now(self) -> datetime:
        return self.moment

    def monotonic_s(self) -> float:
        return (self.moment - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_s(seconds)

    def pass_s(self, seconds: float) -> None:
        self.moment += timedelta(seconds=max(seconds, 0.001))


class Pay(Struct, frozen=True):
    """A payment of a block. `nonce` names what it uses up; the same one twice cannot both stand."""

    name: str
    to: int
    amount: int = 1
    nonce: str = ""

    @property
    def nonce_of(self) -> str:
        return f"0xPayer:{self.nonce or self.name}"

    @property
    def outpoint(self) -> str:
        """What it spends on a chain with outpoints."""
        return f"{tx_id(self.nonce or self.name)}:0"


class Block(Struct, frozen=True):
    header: Header
    pays: tuple[Pay, ...]


class ScriptedSource:
    """A chain source for tests. `mine` grows the present branch, `fork` goes on from an older block."""

    def __init__(self, clock: StoppedClock, *, start: datetime = START) -> None:
        self.clock = clock
        self.blocks: dict[str, Block] = {}
        self.branch: list[str] = []
        self.finalized = 0
        self.lag = 0
        self.wrong_chain = False
        self.blind_to: tuple[str, ...] = ()
        self.second_node_agrees = False
        self.pruned_below = 0
        self.no_balances = False
        self.identified = 0
        self.started = 0
        self.waits = 0
        self.reads: list[int] = []
        self.ranges: list[tuple[int, int]] = []
        #: What waits to be mined; None on a chain whose mempool says nothing, and nothing is spent.
        self.mempool: list[Pay] | None = None
        self.mempool_failures: deque[ChainError] = deque()
        self.looks = 0
        self.failures: deque[ChainError] = deque()
        self.fail_reads: dict[int, deque[ChainError]] = {}
        self.on_wait: Callable[[], None] = lambda: None
        self.on_read: Callable[[int], None] = lambda _: None
        self.transactions: dict[str, LookedUpState] = {}
        self.unanswered: set[str] = set()
        self._forks = 0
        self._start = start
        self.mine()

    # --- the script ---

    def mine(self, *pays: Pay, blocks: int = 1) -> Header:
        """Add a block with payments, or several where only the first one has them."""
        for number in range(blocks):
            self._add(pays if number == 0 else ())
        return self.tip

    def fork(self, depth: int, *branch: Sequence[Pay]) -> None:
        """Replace the last `depth` blocks by others."""
        self._forks += 1
        del self.branch[len(self.branch) - depth :]
        for pays in branch:
            self._add(tuple(pays))

    @property
    def tip(self) -> Header:
        return self.blocks[self.branch[-1]].header

    @property
    def height(self) -> int:
        return len(self.branch) - 1

    def _add(self, pays: Sequence[Pay]) -> None:
        height = len(self.branch)
        parent = self.branch[-1] if self.branch else f"0x{0:064x}"
        text = f"{parent}/{height}/{self._forks}/{[pay.name for pay in pays]}"
        time = self._start + timedelta(seconds=BLOCK_TIME_S * height)
        header = Header(
            height=height, hash=tx_id(text), parent_hash=parent, time=time, coverage_time=time
        )
        self.blocks[header.hash] = Block(header, tuple(pays))
        self.branch.append(header.hash)

    def _used_by(self, pay: Pay) -> str:
        return pay.nonce_of.lower() if self.mempool is None else pay.outpoint

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.popleft()

    # --- the port ---

    @property
    def chain(self) -> ChainName:
        return CHAIN

    async def start(self) -> None:
        self.started += 1
        await self.identify()

    async def close(self) -> None:
        pass

    async def identify(self) -> None:
        self.identified += 1
        if self.wrong_chain:
            message = "expected chain id 31337, found 1"
            raise WrongChain(message)

    def blind_spots(self) -> Sequence[str]:
        return self.blind_to

    async def head(self) -> Head:
        self._fail()
        seen = max(0, self.height - self.lag)
        header = self.blocks[self.branch[seen]].header
        return Head(header=header, finalized_height=min(self.finalized, seen))

    async def header_at(self, height: int) -> Header:
        self._fail()
        if not 0 <= height <= max(0, self.height - self.lag):
            message = f"no block {height}"
            raise NodeBehind(message)
        return self.blocks[self.branch[height]].header

    async def header_by_hash(self, block_hash: str) -> Header | None:
        block = self.blocks.get(block_hash)
        return block.header if block else None

    async def read_block(self, header: Header, watched: WatchedAddresses) -> BlockRead:
        self.on_read(header.height)
        failures = self.fail_reads.get(header.height)
        if failures:
            raise failures.popleft()
        self.reads.append(header.height)
        block = self.blocks[header.hash]
        return BlockRead(
            header=header,
            transfers=self._transfers(block, watched),
            ignored={},
            recipients=frozenset(address(pay.to) for pay in block.pays),
            spent={self._used_by(pay): tx_id(pay.name) for pay in block.pays},
        )

    async def read_range(
        self, first_height: int, last: Header, watched: WatchedAddresses
    ) -> BlockRead:
        self._fail()
        assert last.height <= self.finalized, "ranges are for final blocks only"
        self.ranges.append((first_height, last.height))
        found: list[TransferSeen] = []
        for height in range(first_height, last.height + 1):
            found += self._transfers(self.blocks[self.branch[height]], watched)
        return BlockRead(header=last, transfers=found, ignored={}, recipients=frozenset())

    async def look_up(self, tx: str, watched: WatchedAddresses) -> TransactionLookedUp:
        self._fail()
        if tx in self.unanswered:
            message = f"the receipt of {tx} is not there"
            raise NodeBehind(message)
        state = self.transactions.get(tx, LookedUpState.UNKNOWN)
        return TransactionLookedUp(request="", chain=CHAIN, tx=tx, state=state)

    async def history_reaches(self, height: int) -> bool:
        return height >= self.pruned_below

    async def balance_at(self, asset: AssetName, address: str, header: Header) -> BaseUnits:
        """Everything that the branch's blocks up to this one paid; transfers can be hidden, this not."""
        self._fail()
        if self.no_balances:
            raise Unsupported("no node keeps so old a state")
        upto = self.branch.index(header.hash)
        held = (self.blocks[name] for name in self.branch[: upto + 1])
        raw = int(address, 16)
        return BaseUnits(sum(pay.amount for block in held for pay in block.pays if pay.to == raw))

    async def agree(self, header: Header) -> bool:
        return self.second_node_agrees and header.hash in self.branch

    async def wait_for_change(self, timeout_s: float) -> None:
        self.waits += 1
        self.clock.pass_s(timeout_s)
        self.on_wait()

    @property
    def shows_mempool(self) -> bool:
        return self.mempool is not None

    async def pending(
        self, watched: WatchedAddresses, outpoints: Collection[str]
    ) -> Unmined | None:
        self.looks += 1
        self._fail()
        if self.mempool_failures:
            raise self.mempool_failures.popleft()
        if self.mempool is None:
            return None
        return Unmined(
            transfers=[
                self._seen(pay, None, FoundBy.MEMPOOL)
                for pay in self.mempool
                if address(pay.to) in watched
            ],
            spent={
                pay.outpoint: tx_id(pay.name) for pay in self.mempool if pay.outpoint in outpoints
            },
        )

    def _transfers(self, block: Block, watched: WatchedAddresses) -> list[TransferSeen]:
        return [
            self._seen(pay, block.header, FoundBy.WATCH)
            for pay in block.pays
            if address(pay.to) in watched
        ]

    def _seen(self, pay: Pay, header: Header | None, found_by: FoundBy) -> TransferSeen:
        has_mempool = self.mempool is not None
        return TransferSeen(
            transfer=transfer_id(CHAIN, tx_id(pay.name), "value"),
            chain=CHAIN,
            asset=COIN,
            sender="",
            to=display(address(pay.to)),
            amount=BaseUnits(pay.amount),
            block=header and BlockRef(height=header.height, hash=header.hash, time=header.time),
            first_seen_at=self.clock.now(),
            evidence=Evidence(method="receipts" if header else "mempool"),
            found_by=found_by,
            spends=(pay.outpoint,) if has_mempool else (),
            nonce_of=None if has_mempool else pay.nonce_of,
        )
