"""The second look at one chain: final blocks read once more, and balances compared.

Reads nodes of its own or the watcher's in another order, and our database; writes requests to the
chain's watcher and nothing else: what it finds comes back as facts, by the one way that facts take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from msgspec import Struct

from chains.addresses import canonical_key
from chains.catalog import ChainEntry
from chains.errors import Retryable, Unsupported
from chains.heed import heed_cancellation
from chains.port import BlockRead, ChainSource, Header
from chains.registry import raw_of_key
from reconciler.audit.ask import Asker
from reconciler.kernel.clock import Clock
from reconciler.lifecycle.counting import end_of_open
from reconciler.lifecycle.phases import was_looked_at
from reconciler.observability import metrics
from reconciler.observability.health import Verdict
from reconciler.observability.logs import logger
from reconciler.observability.metrics import Meters
from reconciler.services.state import decode_state
from reconciler.storage import second_look
from reconciler.storage.engine import DatabaseError
from reconciler.storage.second_look import Balance
from reconciler.storage.unit_of_work import GaveUpError, Store
from reconciler.stream.promise import Lane, StreamUnavailable
from reconciler.stream.topics import transfers_topic
from schemas.caip import AssetName, ChainName, family_of
from schemas.facts import TransferSeen

#: Blocks of one question; a round asks as many times as it needs.
SPAN_BLOCKS: Final = 32
#: Balances asked for in one round, of each reason; the others come in the next.
BALANCES_A_ROUND: Final = 500
#: A balance is asked for again when so long no answer came, or the answer did not settle it.
ASK_AGAIN_AFTER: Final = timedelta(minutes=2)
#: Pages of orders looked through in one round for those that wait for a balance.
PAGES_A_ROUND: Final = 20
#: Money that came is gone through once so long: that walks all transfers.
MOVED_REST: Final = timedelta(hours=1)
#: Blocks that do not explain a balance are read again when so long nothing became of it.
READ_AGAIN_AFTER: Final = timedelta(hours=1)
BACK_OFF_S: Final = (1.0, 5.0, 15.0, 60.0)

log = logger("audit")


class LookTerms(Struct, frozen=True, kw_only=True):
    """What a second look is set to. `entry` tells what is final for it, and how many blocks `back` is.

    `balances`: whether a node of the watcher can be asked what an address holds.
    """

    chain: ChainName
    lanes: int
    entry: ChainEntry
    patience: timedelta | None = None
    back: timedelta = timedelta(hours=48)
    round_every: timedelta = timedelta(seconds=60)
    moved_every: timedelta = timedelta(hours=24)
    balances: bool = True


class Found(Struct):
    """What a round found, for people."""

    blocks: int = 0
    missed: list[str] = []
    unconfirmed: list[str] = []
    unexplained: list[str] = []
    balances_asked: int = 0

    @property
    def is_well(self) -> bool:
        """Tell whether nothing was found that should not be."""
        return not (self.missed or self.unconfirmed or self.unexplained)


class SecondLook:
    """Runs until it is cancelled or another one takes over."""

    def __init__(
        self,
        terms: LookTerms,
        *,
        source: ChainSource,
        store: Store,
        asker: Asker,
        clock: Clock,
        meters: Meters,
    ) -> None:
        self._terms = terms
        self._source = source
        self._store = store
        self._asker = asker
        self._clock = clock
        self._meters = meters
        topic = transfers_topic(terms.chain)
        self._lanes = [Lane(topic, number).name for number in range(terms.lanes)]
        self._next: int | None = None
        self._since: dict[bytes, datetime] = {}
        self._asked: dict[tuple[str, Balance], datetime] = {}
        self._read_again: dict[Balance, tuple[int, int, datetime]] = {}
        self._moved_after: Balance | None = None
        self._moved_again_at: datetime | None = None
        self._failures = 0

    def verdict(self) -> Verdict:
        """Say whether rounds are finished, for readiness."""
        if self._failures > len(BACK_OFF_S):
            return Verdict(ok=False, why=f"{self._failures} rounds in a row were not finished")
        return Verdict(ok=True, why=f"read again up to {(self._next or 0) - 1}")

    async def run(self) -> None:
        """Look, rest, look again. **Raises**: `TakenOver`."""
        try:
            while True:
                heed_cancellation()
                await self._round_or_wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Release the node and the log."""
        await self._source.close()
        await self._asker.close()

    async def _round_or_wait(self) -> None:
        pause_s = self._terms.round_every.total_seconds()
        try:
            await self.round()
            self._failures = 0
        except (
            Retryable,
            Unsupported,
            StreamUnavailable,
            GaveUpError,
            DatabaseError,
            ConnectionError,
        ) as error:
            pause_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
            self._failures += 1
            self._meters.add(metrics.AUDIT_FAILURES, chain=self._terms.chain)
            log.warning(
                "second_look_waits",
                chain=self._terms.chain,
                error=f"{type(error).__name__}: {str(error)[:300]}",
                again_in_s=pause_s,
            )
        await self._clock.sleep(pause_s)

    async def round(self, advance: Callable[[int], None] = lambda _: None) -> Found:
        """Read what became final since the last round, and ask for the balances that are due."""
        await self._source.start()
        await self._asker.start()
        found = Found()
        final = await self.final_height()
        if final <= 0:
            return found
        await self._load_addresses()
        await self._read_blocks(final, found, advance)
        if self._terms.balances:
            header = await self._source.header_at(final)
            await self._ask_for_balances(header.time, found)
        return found

    async def final_height(self) -> int:
        """Give the newest block that is final and that our own lanes have applied."""
        head = await self._source.head()
        chain, lanes = self._terms.chain, self._terms.lanes
        covered = await self._store.read(
            lambda work: second_look.covered_height(work, chain, lanes)
        )
        final = self._terms.entry.settled_height(head.header.height, head.finalized_height)
        return min(final, covered)

    def first_height(self, final: int) -> int:
        """Give the block with which the next round begins."""
        if self._next is not None:
            return self._next
        block_time_s = float(self._terms.entry.block_time_s)
        return max(0, final - int(self._terms.back.total_seconds() / block_time_s))

    # Blocks

    async def _load_addresses(self) -> None:
        """Read every address of ours, and since when what comes to it is ours to know."""
        chain = self._terms.chain
        known = await self._store.read(
            lambda work: second_look.all_addresses(work, family_of(chain))
        )
        self._since = {raw_of_key(chain, row.key): row.watched_since for row in known}

    async def _read_blocks(self, final: int, found: Found, advance: Callable[[int], None]) -> None:
        height = self.first_height(final)
        while height <= final:
            last = await self._source.header_at(min(final, height + SPAN_BLOCKS - 1))
            read = await self._read(height, last)
            await self._compare(height, last, read, found)
            found.blocks += last.height - height + 1
            advance(last.height - height + 1)
            height = self._next = last.height + 1
            self._meters.set(metrics.AUDIT_HEIGHT, last.height, chain=self._terms.chain)

    async def _read(self, first: int, last: Header) -> BlockRead:
        watched = _Watched(self._since)
        if first == last.height:
            return await self._source.read_block(last, watched)
        return await self._source.read_range(first, last, watched)

    async def _compare(self, first: int, last: Header, read: BlockRead, found: Found) -> None:
        lanes = self._lanes
        seen = {one.transfer: one for one in read.transfers if self._is_ours_to_know(one)}
        known = await self._store.read(lambda work: second_look.transfers_named(work, seen))
        standing = await self._store.read(
            lambda work: second_look.transfers_standing(work, lanes, first, last.height)
        )
        missed = [one for one in seen.values() if not _is_known(one, known.get(one.transfer))]
        for one in missed:
            self._tell("missed", one.transfer, found.missed)
        heights = [one.block.height for one in missed if one.block is not None]
        if heights:
            await self._asker.read_again(min(heights), max(heights), reason="a second look")
        blind = bool(self._source.blind_spots())
        every = {one.transfer for one in read.transfers}
        for row in standing:
            inner = row.transfer.rpartition("/")[2].startswith("call:")
            if row.transfer not in every and not (inner and blind):
                self._tell("unconfirmed", row.transfer, found.unconfirmed)

    def _is_ours_to_know(self, seen: TransferSeen) -> bool:
        """Tell whether it came while its address was watched: what is older was never asked for."""
        raw = raw_of_key(self._terms.chain, canonical_key(seen.chain, seen.to))
        since = self._since.get(raw)
        return since is not None and seen.block is not None and seen.block.time >= since

    def _tell(self, kind: str, name: str, names: list[str]) -> None:
        names.append(name)
        chain = self._terms.chain
        self._meters.add(metrics.AUDIT_FINDS, chain=chain, kind=kind)
        log.error("second_look_found", what=kind, chain=chain, transfer=name)

    # Balances

    async def _ask_for_balances(self, final_time: datetime, found: Found) -> None:
        """Ask for what is due, once a reason; again when it was not settled in time."""
        now = self._clock.now()
        self._asked = {k: at for k, at in self._asked.items() if now - at < ASK_AGAIN_AFTER}
        wanted = {
            "never_seen": await self._never_seen(),
            "over": await self._over(final_time, now),
            "moved": await self._moved(now),
            "unexplained": await self._unexplained(found, now),
        }
        due = {
            (why, one)
            for why, balances in wanted.items()
            for one in balances
            if (why, one) not in self._asked
        }
        self._asked |= dict.fromkeys(due, now)
        balances = sorted({(AssetName(one.asset), one.display) for _, one in due})
        if balances:
            await self._asker.see_balances(balances)
        found.balances_asked = len(balances)

    async def _never_seen(self) -> Sequence[Balance]:
        chain = self._terms.chain
        return await self._store.read(
            lambda work: second_look.never_seen(work, chain, limit=BALANCES_A_ROUND)
        )

    async def _moved(self, now: datetime) -> Sequence[Balance]:
        """Give addresses to which money came, once a long while has passed, a page a round."""
        if self._moved_again_at is not None and now < self._moved_again_at:
            return ()
        chain, before, after = self._terms.chain, now - self._terms.moved_every, self._moved_after
        page = await self._store.read(
            lambda work: second_look.moved(
                work, chain, seen_before=before, limit=BALANCES_A_ROUND, after=after
            )
        )
        is_last = len(page) < BALANCES_A_ROUND
        self._moved_after = None if is_last else page[-1]
        rest = min(MOVED_REST, self._terms.moved_every)
        self._moved_again_at = now + rest if is_last else None
        return page

    async def _over(self, final_time: datetime, now: datetime) -> Sequence[Balance]:
        """Give the orders that would end without money, once a final block is past their end."""
        patience, lanes = self._terms.patience, self._lanes
        if patience is None:
            return ()
        waiting: list[Balance] = []
        after: tuple[datetime, str] | None = None
        for _ in range(PAGES_A_ROUND):  # most are not over yet, and come before those that wait
            page = await self._store.read(
                partial(
                    second_look.perhaps_over,
                    lanes=lanes,
                    before=now + patience,
                    limit=BALANCES_A_ROUND,
                    after=after,
                )
            )
            balances = [Balance(o.display, o.asset) for o in page if _waits(o.state, final_time)]
            waiting += [one for one in balances if ("over", one) not in self._asked]
            if len(page) < BALANCES_A_ROUND or len(waiting) >= BALANCES_A_ROUND:
                break
            after = (page[-1].due_time, page[-1].reference)
        return waiting[:BALANCES_A_ROUND]

    async def _unexplained(self, found: Found, now: datetime) -> Sequence[Balance]:
        """Have blocks read again in which a missed transfer would stand, and ask once more.

        Once a difference, and seldom after: every sight of it is of a higher block than the last.
        """
        chain = self._terms.chain
        rows = await self._store.read(
            lambda work: second_look.unexplained(work, chain, limit=BALANCES_A_ROUND)
        )
        before, self._read_again = self._read_again, {}
        for row in rows:
            name = Balance(row.display, row.asset)
            found.unexplained.append(f"{row.display} {row.asset}")
            height, amount, at = before.get(name, (0, 0, now))
            if (height, amount) == (row.height, row.unexplained) and now - at < READ_AGAIN_AFTER:
                self._read_again[name] = (height, amount, at)
                continue
            self._meters.add(metrics.AUDIT_FINDS, chain=chain, kind="balance")
            log.error(
                "second_look_found",
                what="balance",
                chain=chain,
                address=row.display,
                asset=row.asset,
            )
            await self._asker.read_again(row.height + 1, row.seen_height, reason="balance_differs")
            self._read_again[name] = (row.height, row.unexplained, now)
        return [Balance(row.display, row.asset) for row in rows]


class _Watched:
    """The addresses of ours, as a source asks for them."""

    def __init__(self, since: dict[bytes, datetime]) -> None:
        self._since = since

    def __contains__(self, address_bytes: object, /) -> bool:
        return address_bytes in self._since

    def __len__(self) -> int:
        return len(self._since)


def _is_known(seen: TransferSeen, row: second_look.StandingTransfer | None) -> bool:
    """Tell whether we have it where the chain has it."""
    return (
        row is not None
        and row.amount == seen.amount
        and seen.block is not None
        and row.block_hash == seen.block.hash
        and row.state in {"included", "final"}
    )


def _waits(state: bytes, final_time: datetime) -> bool:
    """Tell whether an order waits for a comparison that the newest final block can answer."""
    order = decode_state(state)
    status = order.status
    if status is None or status.received_final or status.received_pending:
        return False
    end = end_of_open(order.terms, order.claims, status.reversed_at)
    return final_time >= end and not was_looked_at(order.looked_until, end)
