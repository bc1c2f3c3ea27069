"""What runs between two blocks: look-ups, back-scans of new addresses, reading again.

Talks to a `ChainSource` in small pieces, so that the next block never waits long. Gives steps that
move no line. Every queue has a most; a piece that fails is put off and loses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from chains.back_scan import BackScan, BackScanner, ReadAgainScan, read_again, scan_of
from chains.catalog import ChainEntry
from chains.clock import Clock
from chains.errors import ChainError, NodeBehind, Retryable, Unsupported
from chains.line import Taken
from chains.marks import Marks
from chains.pace import Allowance, FollowSettings
from chains.port import ChainSource, Step, WatchEntry
from chains.spans import Spans
from chains.watched import RecentBlocks, Watched
from schemas.facts import (
    AddressCovered,
    BalanceSeen,
    ChainFact,
    LookedUpState,
    TransactionLookedUp,
)
from schemas.requests import LookUpTransaction, ReadAgain, SeeBalance
from schemas.values import BlockRef

#: Balances asked in one piece: the next block waits no longer than for so many.
_BALANCES_A_STEP: Final = 16


class LookUp(Struct):
    """One look-up that is not answered yet, or whose answer may still change: then `said` is it."""

    request: LookUpTransaction
    retry_at_s: float = 0.0
    failures: int = 0
    asked: int = 0
    said: LookedUpState | None = None


#: What becomes of such a transaction is not decided yet. What pays us arrives by itself; that one
#: failed, or pays us nothing, only a look-up tells (CH-F01, CH-M11).
_UNSETTLED: Final = frozenset({LookedUpState.UNKNOWN, LookedUpState.PENDING})


class BalanceQuestion(Struct):
    """One balance that is not read yet."""

    request: SeeBalance
    retry_at_s: float = 0.0
    failures: int = 0


Work = LookUp | BackScan | ReadAgainScan | BalanceQuestion
W = TypeVar("W", LookUp, BackScan, ReadAgainScan, BalanceQuestion)


class SideWork:
    """The work between two blocks of one chain."""

    def __init__(
        self,
        source: ChainSource,
        spans: Spans,
        marks: Marks,
        *,
        entry: ChainEntry,
        watched: Watched,
        recent: RecentBlocks,
        clock: Clock,
        settings: FollowSettings,
        failed: Callable[[ChainError, int], float],
    ) -> None:
        self._source = source
        self._marks = marks
        self._entry = entry
        self._watched = watched
        self._recent = recent
        self._clock = clock
        self._settings = settings
        self._failed = failed
        self._scanner = BackScanner(source, spans, range_blocks=settings.range_blocks)
        #: Offsets below are announced by an earlier run: those addresses need no scan.
        said = marks.line.said
        self._announced_upto = said.watchlist_upto if said else 0
        self._read_upto_offset = self._announced_upto
        self._incoming: list[WatchEntry] = []
        self._scans: list[BackScan] = []
        self._covered: deque[deque[tuple[int, AddressCovered]]] = deque()
        self._again: deque[ReadAgainScan] = deque()
        self._balances: deque[BalanceQuestion] = deque()
        self._look_ups: deque[LookUp] = deque()
        self._unsettled: deque[LookUp] = deque(maxlen=settings.requests_max)
        self._allowance = Allowance(settings.look_ups_a_minute)

    # --- what is asked -------------------------------------------------------------------------

    def add_addresses(self, entries: Sequence[WatchEntry], read_upto_offset: int) -> None:
        """Take in addresses; they are watched from `welcome` on."""
        self._incoming.extend(entries)
        self._read_upto_offset = max(self._read_upto_offset, read_upto_offset)

    def add_request(self, request: LookUpTransaction | ReadAgain | SeeBalance) -> None:
        """Take in a request; beyond the most it is not taken, and asked again by who asked."""
        if isinstance(request, LookUpTransaction):
            if len(self._look_ups) < self._settings.requests_max:
                self._look_ups.append(LookUp(request))
        elif isinstance(request, SeeBalance):
            if len(self._balances) < self._settings.requests_max:
                self._balances.append(BalanceQuestion(request))
        elif len(self._again) < self._settings.requests_max:
            self._again.append(
                ReadAgainScan(
                    next_height=request.from_height,
                    upto=request.to_height,
                    found_by=request.found_by,
                )
            )

    def welcome(self, upto: int) -> set[bytes]:
        """Watch what was added, when no block is being read; scans reach up to the line's tip."""
        entries, self._incoming = self._incoming, []
        for entry in entries:
            self._watched.add(entry.raw)
        open_entries = [entry for entry in entries if entry.offset >= self._announced_upto]
        first = self._recent.first
        quick = [entry for entry in open_entries if first and entry.since >= first.time]
        slow = [entry for entry in open_entries if not (first and entry.since >= first.time)]
        for some in filter(None, (quick, slow)):
            most = self._settings.back_scan_s_max
            self._scans.append(scan_of(some, now=self._clock.now(), span_max_s=most, upto=upto))
        # Addresses of fresh orders are quick and come first; days of history can wait.
        self._scans.sort(key=lambda scan: scan.since, reverse=True)
        return {entry.raw for entry in entries}

    def cut_above(self, height: int) -> None:
        """Scan no higher than what is left of the line: the new branch is read with every address."""
        for scan in self._scans:
            scan.upto, scan.remembered = min(scan.upto, height), None

    # --- where it stands -----------------------------------------------------------------------

    @property
    def incoming(self) -> int:
        """Count the addresses that are not watched yet."""
        return len(self._incoming)

    @property
    def open_scans(self) -> int:
        """Count the addresses that are not announced as covered."""
        scanned = sum(len(scan.entries) for scan in self._scans)
        return scanned + sum(len(some) for some in self._covered)

    @property
    def open_look_ups(self) -> int:
        """Count the look-ups that are not answered."""
        return len(self._look_ups)

    def watchlist_upto(self) -> int:
        """Give the lowest watchlist offset whose back-scan is not announced."""
        open_offsets = [scan.lowest_offset for scan in self._scans]
        open_offsets += [some[0][0] for some in self._covered if some]
        open_offsets += [
            entry.offset for entry in self._incoming if entry.offset >= self._announced_upto
        ]
        return min([self._read_upto_offset, *open_offsets])

    def is_due(self) -> bool:
        """Tell whether `next_piece` has something to do now."""
        if self._look_ups_now():
            return True
        if self._marks.line.said is None:
            return False
        works = (self._due(self._scans), self._due(self._again), self._due(self._balances))
        return bool(self._covered or any(works))

    # --- doing it ------------------------------------------------------------------------------

    async def next_piece(self) -> Step | None:
        """Do one piece of one work. None when nothing is due, or the piece found nothing to say."""
        look_ups = self._look_ups_now()
        if look_ups:
            step = await self._look_up(look_ups)
            if step is not None:
                return step
        if self._marks.line.said is None:
            return None
        if self._covered:
            return self._announce()
        for scan in self._due(self._scans):
            return await self._scan_back(scan)
        for again in self._due(self._again):
            return await self._read_again(again)
        if balances := self._due(self._balances)[:_BALANCES_A_STEP]:
            return await self._see_balances(balances)
        return None

    def _look_ups_now(self) -> list[LookUp]:
        """Give the look-ups of one piece, within what a minute allows; the others come later.

        Those that failed least come first: transactions that no node can tell of, named by whoever
        likes, do not stand before those of other customers.
        """
        room = self._allowance.room(self._clock.monotonic_s())
        most = min(self._settings.look_ups_a_step, room)
        if most <= 0 or not (self._look_ups or self._unsettled):
            return []
        fresh = sorted(self._due(self._look_ups), key=lambda one: one.failures)[:most]
        # Half of every minute is left to those that were never asked.
        spare = min(most - len(fresh), room - self._settings.look_ups_a_minute // 2)
        return [*fresh, *self._due(self._unsettled)[: max(0, spare)]]

    async def _look_up(self, due: Sequence[LookUp]) -> Step | None:
        facts: list[TransactionLookedUp] = []
        for one in due:
            self._allowance.take(self._clock.monotonic_s())
            try:
                answer = await self._source.look_up(one.request.tx, self._watched)
            except (Retryable, Unsupported) as error:
                self._put_off(one, error)
                continue
            if answer.state is not one.said:
                facts.append(replace(answer, request=one.request.request))
            self._settle(one, answer.state)
        return Step(facts=facts) if facts else None

    def _settle(self, one: LookUp, state: LookedUpState) -> None:
        """Put an answered look-up away; one whose answer may change is asked again a few times."""
        (self._look_ups if one.said is None else self._unsettled).remove(one)
        rests = self._settings.look_up_again_s
        if state in _UNSETTLED and one.asked < len(rests):
            one.retry_at_s = self._clock.monotonic_s() + rests[one.asked]
            one.asked, one.said, one.failures = one.asked + 1, state, 0
            self._unsettled.append(one)

    def _announce(self) -> Step | None:
        """Say which addresses are covered, together with the watchlist offset that moves by it."""
        some = self._covered[0]
        count = min(len(some), self._settings.covered_a_step)
        facts = [some.popleft()[1] for _ in range(count)]
        if not some:
            self._covered.popleft()
        return self._marks.again(facts)

    async def _scan_back(self, scan: BackScan) -> Step | None:
        begins = scan.next_height
        try:
            found = await self._scanner.piece(scan, self._recent, finalized=self._marks.finalized)
            self._require_ours(found or ())
        except (Retryable, Unsupported) as error:
            # Nothing of a refused piece counts: it is read again from where it began.
            scan.next_height = scan.from_height if begins is None else begins
            scan.remembered = None
            self._put_off(scan, error)
            return None
        scan.failures = 0
        if found is None:
            self._scans.remove(scan)
            self._covered.append(scan.covered(self._source.chain))
            return self._announce()
        return self._say_finds([taken for taken in found if taken.transfers])

    def _say_finds(self, found: Sequence[Taken]) -> Step | None:
        """Publish finds below the line, each block with a watermark of its own.

        What was read and not said yet is said first: a find may lie in it, and coverage must not jump.
        """
        if not found:
            return None
        facts: list[ChainFact] = self._marks.say_silent()
        for taken in found:
            facts += taken.transfers
            if not self._marks.line.has_watermark(taken.header):
                facts.append(self._marks.of(taken))
        return self._marks.again(facts)

    async def _read_again(self, again: ReadAgainScan) -> Step | None:
        said = self._marks.line.said
        upto = min(again.upto, said.height if said else -1)
        if again.next_height > upto:
            self._again.remove(again)
            return None
        try:
            found = await self._scanner.read(
                again.next_height, upto, self._watched, finalized=self._marks.finalized
            )
            self._require_ours(found)
        except (Retryable, Unsupported) as error:
            self._put_off(again, error)
            return None
        again.next_height = found[-1].header.height + 1
        facts: list[ChainFact] = []
        for taken in read_again(found, again.found_by):
            facts += [*taken.transfers, self._marks.of(taken)]
        return self._marks.again(facts)

    async def _see_balances(self, questions: Sequence[BalanceQuestion]) -> Step | None:
        """Ask what addresses held after the newest block that is final and read; none without one."""
        said = self._marks.line.said
        read = said.height if said else 0
        height = min(self._entry.settled_height(read, self._marks.finalized), read)
        if height <= 0:
            for one in questions:
                self._put_off(one, NodeBehind("no block is final yet"))
            return None
        facts: list[ChainFact] = []
        for one in questions:
            seen = await self._balance(one, height)
            if seen is not None:
                facts.append(seen)
        return self._marks.again(facts) if facts else None

    async def _balance(self, one: BalanceQuestion, height: int) -> BalanceSeen | None:
        """Answer one question. One that no node can answer is given up: who asked asks again."""
        request = one.request
        try:
            header = await self._source.header_at(height)
            ours = self._marks.line.hashes.get(height, header.hash)
            if ours != header.hash:
                message = f"block {height} is {header.hash}, ours is {ours}"
                raise NodeBehind(message)
            balance = await self._source.balance_at(request.asset, request.address, header)
        except Unsupported as error:
            self._failed(error, one.failures + 1)
            self._balances.remove(one)
            return None
        except Retryable as error:
            self._put_off(one, error)
            return None
        self._balances.remove(one)
        return BalanceSeen(
            request=request.request,
            chain=request.chain,
            asset=request.asset,
            address=request.address,
            block=BlockRef(height=header.height, hash=header.hash, time=header.time),
            balance=balance,
        )

    def _require_ours(self, found: Sequence[Taken]) -> None:
        """Refuse blocks of another line than ours: the loop has to see that reorganisation first."""
        for taken in found:
            ours = self._marks.line.hashes.get(taken.header.height)
            if ours is not None and ours != taken.header.hash:
                message = f"block {taken.header.height} is {taken.header.hash}, ours is {ours}"
                raise NodeBehind(message)

    def _due(self, works: Iterable[W]) -> list[W]:
        now = self._clock.monotonic_s()
        return [work for work in works if work.retry_at_s <= now]

    def _put_off(self, work: Work, error: ChainError) -> None:
        work.failures += 1
        work.retry_at_s = self._clock.monotonic_s() + self._failed(error, work.failures)
