"""The one loop that all chains share: head, fork?, read, facts, watermark.

Reads a `ChainSource`, gives `Step`s to whoever publishes them (`chains.port.FollowLoop`). Its only
memory is what the last run left in the stream. Never skips a block, never publishes half of one,
never decides what a transfer pays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import SystemRandom
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from chains.back_scan import BackScan, BackScanner, ReadAgainScan, read_again, scan_of
from chains.catalog import ChainEntry
from chains.clock import Clock
from chains.errors import (
    ChainError,
    HeldReorganisation,
    NoCheckpoint,
    NodeBehind,
    NodeBusy,
    Retryable,
    Unsupported,
)
from chains.forks import retractions, where_they_part
from chains.line import Line, Taken
from chains.lost import LostTransfers
from chains.observe import BlockTaken, Observer, ReadFailed, Reorganised, nobody
from chains.port import (
    ChainSource,
    Checkpoint,
    FollowStatus,
    Head,
    Header,
    Step,
    WatchEntry,
)
from chains.spans import Spans
from chains.watched import RecentBlocks, Watched
from schemas.facts import AddressCovered, ChainFact, TransactionLookedUp, Watermark
from schemas.requests import ChainRequest, LookUpTransaction, ReadAgain
from schemas.values import ParentRef

_chance: Final = SystemRandom().random


class FollowSettings(Struct, frozen=True, kw_only=True):
    """How the loop paces itself. **Units**: in the names; blocks where none is named."""

    empty_watermark_s: float = 1.0
    resend_s: float = 30.0
    identify_s: float = 60.0
    wait_s: float = 1.0
    back_scan_s_max: float = 86_400.0
    blocks_at_once: int = 8
    range_blocks: int = 64
    #: A range is worth its extra questions from this many final blocks on.
    range_blocks_min: int = 4
    recent_blocks_max: int = 1_024
    recent_recipients_max: int = 200_000
    look_ups_a_step: int = 20
    covered_a_step: int = 1_000
    requests_max: int = 10_000
    rest_first_s: float = 0.25
    rest_s_max: float = 30.0
    #: So many failures in a row show as blindness in the status.
    blind_after: int = 5


class _LookUp(Struct):
    request: LookUpTransaction
    retry_at_s: float = 0.0
    failures: int = 0


class Follower:
    """Follows one chain (`chains.port.FollowLoop`).

    It begins after the checkpoint's last watermark, else at `start_at`; with neither, the first
    `next_step` raises `NoCheckpoint`. `log_id` names the log and is copied into every watermark.
    """

    def __init__(
        self,
        source: ChainSource,
        *,
        entry: ChainEntry,
        checkpoint: Checkpoint | None,
        log_id: str,
        start_at: int | None,
        clock: Clock,
        observer: Observer = nobody,
        settings: FollowSettings | None = None,
        chance: Callable[[], float] = _chance,
    ) -> None:
        self._source = source
        self._entry = entry
        self._log_id = log_id
        self._start_at = start_at
        self._clock = clock
        self._observer = observer
        self._settings = settings or FollowSettings()
        self._chance = chance
        self._line = Line(
            checkpoint.watermarks if checkpoint else (),
            kept_blocks=2 * entry.reorganisation_limit,
        )
        self._spans = Spans(source, at_once=self._settings.blocks_at_once)
        self._scanner = BackScanner(source, self._spans, range_blocks=self._settings.range_blocks)
        self._watched = Watched()
        self._recent = RecentBlocks(
            blocks_max=self._settings.recent_blocks_max,
            recipients_max=self._settings.recent_recipients_max,
        )
        self._lost = LostTransfers(kept_blocks=entry.reorganisation_limit)
        self._ready: deque[Taken] = deque()
        self._retraction: Step | None = None
        self._prefix: list[ChainFact] = []
        self._announced_upto = self._line.said.watchlist_upto if self._line.said else 0
        self._read_upto_offset = self._announced_upto
        self._incoming: list[WatchEntry] = []
        self._scans: list[BackScan] = []
        self._covered: deque[deque[tuple[int, AddressCovered]]] = deque()
        self._again: deque[ReadAgainScan] = deque()
        self._look_ups: deque[_LookUp] = deque()
        self._released = False
        self._started = False
        self._side_first = False
        self._head: Head | None = None
        self._finalized = self._line.said.finalized_height if self._line.said else 0
        self._identified_at_s = 0.0
        self._said_at_s = 0.0
        self._retracted_total = 0
        self._failures = 0
        self._blind: str | None = None
        self._held: str | None = None
        self._blind_since = clock.now()

    async def next_step(self) -> Step:
        """Wait for and give the next facts; see the port. Only `Fatal` comes out."""
        while True:
            try:
                step = await self._turn()
            except HeldReorganisation as held:
                self._held = str(held)
                await self._source.wait_for_change(self._settings.wait_s)
            except (Retryable, Unsupported) as error:
                await self._rest_after(error)
            else:
                self._failures, self._blind = 0, None
                if step is not None:
                    return step

    def add_addresses(self, entries: Sequence[WatchEntry], *, read_upto_offset: int) -> None:
        """Watch these too, from the next turn on."""
        self._incoming.extend(entries)
        self._read_upto_offset = max(self._read_upto_offset, read_upto_offset)

    def request(self, request: ChainRequest) -> None:
        """Take a request. A release counts only while a reorganisation is held."""
        if isinstance(request, LookUpTransaction):
            if len(self._look_ups) < self._settings.requests_max:
                self._look_ups.append(_LookUp(request))
        elif isinstance(request, ReadAgain):
            if len(self._again) < self._settings.requests_max:
                self._again.append(
                    ReadAgainScan(next_height=request.from_height, upto=request.to_height)
                )
        elif self._held is not None:
            self._released = True

    def status(self) -> FollowStatus:
        """Tell where the loop stands. Never waits."""
        said = self._line.said
        return FollowStatus(
            head_height=self._head.header.height if self._head else 0,
            covered_height=said.height if said else 0,
            covered_time=said.time if said else None,
            finalized_height=self._finalized,
            watched=len(self._watched) + len(self._incoming),
            back_scans_open=sum(len(scan.entries) for scan in self._scans)
            + sum(len(some) for some in self._covered),
            retracted_total=self._retracted_total,
            failures_in_a_row=self._failures,
            held=self._held or self._blind,
        )

    async def _turn(self) -> Step | None:
        """Do the next piece of work: the line and the side work by turns, then wait."""
        if not self._started:
            await self._begin()
        self._welcome()
        works = [self._advance, self._side_work]
        self._side_first = not self._side_first
        for work in works[:: -1 if self._side_first else 1]:
            step = await work()
            if step is not None:
                return step
        if self._ready or self._is_behind() or self._is_side_work_due():
            return None
        if self._clock.monotonic_s() - self._said_at_s >= self._settings.resend_s:
            closing = self._closing()
            if closing is not None:
                return self._step([closing])
        await self._source.wait_for_change(self._patience_s())
        return None

    def _is_behind(self) -> bool:
        tip = self._line.tip
        return self._head is not None and tip is not None and self._head.header.height > tip.height

    async def _begin(self) -> None:
        if self._line.said is None and self._start_at is None:
            message = f"{self._entry.id}: no watermark in the log and no start_at in the settings"
            raise NoCheckpoint(message)
        await self._source.start()
        self._identified_at_s = self._said_at_s = self._clock.monotonic_s()
        self._started = True

    def _patience_s(self) -> float:
        """Give how long to wait at most: until silent blocks or the last watermark are due."""
        since = self._clock.monotonic_s() - self._said_at_s
        settings = self._settings
        due = settings.empty_watermark_s if self._line.silent else settings.resend_s
        return min(settings.wait_s, max(0.01, due - since))

    # --- the line ------------------------------------------------------------------------------

    async def _advance(self) -> Step | None:
        if not self._ready:
            await self._read_on()
        if self._retraction is not None:
            step, self._retraction = self._retraction, None
            return step
        if not self._ready:
            return self._say_silent() if self._is_silent_due() else None
        return self._take()

    async def _read_on(self) -> None:
        """Fill the queue with the next blocks, after asking for the head and comparing lines."""
        await self._identify_in_time()
        head = await self._source.head()
        self._note_head(head)
        tip = self._line.tip
        if tip is None:
            await self._read_first(head)
        elif head.header.height > tip.height:
            await self._read_above(tip, head)
        else:
            await self._compare_below(tip, head)

    async def _identify_in_time(self) -> None:
        if self._clock.monotonic_s() - self._identified_at_s >= self._settings.identify_s:
            await self._source.identify()
            self._identified_at_s = self._clock.monotonic_s()

    def _note_head(self, head: Head) -> None:
        """Keep what the chain calls final; it never falls, except when final blocks were taken back."""
        self._head = head
        self._finalized = max(self._finalized, head.finalized_height)

    async def _read_first(self, head: Head) -> None:
        start = self._start_at or 0
        if head.header.height >= start:
            headers = [await self._source.header_at(start)]
            self._ready.extend(await self._spans.singly(headers, self._watched))

    async def _read_above(self, tip: ParentRef, head: Head) -> None:
        first, last = tip.height + 1, head.header.height
        final = min(last, head.finalized_height, tip.height + self._settings.range_blocks)
        if final - tip.height >= self._settings.range_blocks_min:
            ends = await self._source.header_at(first), await self._source.header_at(final)
            if await self._follows(ends[0], tip):
                self._ready.extend(await self._spans.ranged(*ends, self._watched))
            return
        if first == last:
            headers = [head.header]
        else:
            headers = await self._spans.headers(first, last)
        if await self._follows(headers[0], tip):
            self._ready.extend(await self._spans.singly(headers, self._watched))

    async def _compare_below(self, tip: ParentRef, head: Head) -> None:
        """See whether a head that is not above ours lies on our line: then it lags, else it forks."""
        height = min(tip.height, head.header.height)
        known = self._line.known_at_or_below(height)
        if known is None or known < 0:
            return
        theirs = head.header
        if known != theirs.height:
            theirs = await self._source.header_at(known)
        if theirs.hash == self._line.hashes[known]:
            self._held = None
        else:
            await self._take_back(theirs, tip)

    async def _follows(self, header: Header, tip: ParentRef) -> bool:
        if header.parent_hash == tip.hash:
            self._held = None
            return True
        await self._take_back(header, tip)
        return False

    def _is_silent_due(self) -> bool:
        since = self._clock.monotonic_s() - self._said_at_s
        return self._line.silent is not None and since >= self._settings.empty_watermark_s

    def _take(self) -> Step | None:
        """Take the next read blocks: silent ones wait for company, one with facts stands alone."""
        taken = self._ready[0]
        if (self._lost or taken.transfers) and self._line.silent is not None:
            return self._say_silent()
        self._ready.popleft()
        dropped = self._lost.settle(taken)
        self._remember(taken)
        if not dropped and not taken.transfers and self._line.said is not None:
            self._line.keep_silent(taken)
            return self._say_silent() if self._is_silent_due() else None
        watermark = self._watermark(taken)
        self._line.say(taken, watermark)
        return self._step([*dropped, *taken.transfers, watermark])

    def _remember(self, taken: Taken) -> None:
        self._lost.publish(taken)
        if taken.recipients is None:
            self._recent.forget()
        else:
            self._recent.add(taken.header, taken.recipients)
        self._observer(
            BlockTaken(
                chain=self._source.chain,
                from_height=taken.from_height,
                height=taken.header.height,
                transfers=len(taken.transfers),
                ignored=taken.ignored,
            )
        )

    def _say_silent(self) -> Step | None:
        silent = self._line.silent
        if silent is None:
            return None
        watermark = self._watermark(silent)
        self._line.say(silent, watermark)
        return self._step([watermark])

    def _watermark(self, taken: Taken) -> Watermark:
        now = self._clock.now()
        return Watermark(
            chain=self._source.chain,
            from_height=taken.from_height,
            height=taken.header.height,
            hash=taken.header.hash,
            parent_hash=taken.parent_hash,
            time=min(taken.header.coverage_time, now),
            finalized_height=self._finalized,
            read_at=now,
            log_id=self._log_id,
            watchlist_upto=self._watchlist_upto(),
        )

    def _closing(self) -> Watermark | None:
        """Give a watermark that closes a step without moving the line: the last one, said again."""
        said = self._line.said
        if said is None:
            return None
        again = replace(
            said,
            read_at=self._clock.now(),
            finalized_height=self._finalized,
            watchlist_upto=self._watchlist_upto(),
        )
        self._line.say_again(again)
        return again

    def _step(self, facts: Sequence[ChainFact]) -> Step:
        prefix, self._prefix = self._prefix, []
        self._said_at_s = self._clock.monotonic_s()
        return Step(facts=(*prefix, *facts))

    # --- reorganisations -----------------------------------------------------------------------

    async def _take_back(self, theirs: Header, tip: ParentRef) -> None:
        """Retract what the node's line does not have, once it is surely the right chain.

        **Raises**: `HeldReorganisation` when it is deeper than the chain's limit and neither a second
        node nor a person agreed.
        """
        await self._source.identify()
        walked = await self._walk(theirs, tip.height - self._entry.reorganisation_limit)
        common = where_they_part(self._line.hashes, walked).common
        if common is None and walked[-1].height > self._line.bottom:
            await self._require_release(walked[-1], tip)
            walked = await self._walk(theirs, self._line.bottom)
            common = where_they_part(self._line.hashes, walked).common
        elif common is None:
            await self._require_release(walked[-1], tip)
        self._retract(common, walked[-1], tip)
        self._released, self._held = False, None

    async def _walk(self, header: Header, floor: int) -> list[Header]:
        """Go down the node's line, parent by parent, to a block of ours or to the floor."""
        walked = [header]
        lowest = max(floor, self._line.bottom, 0)
        while header.height > lowest and self._line.hashes.get(header.height) != header.hash:
            parent = await self._source.header_by_hash(header.parent_hash)
            if parent is None:
                message = (
                    f"the node does not have {header.parent_hash}, the parent of its own block"
                )
                raise NodeBehind(message)
            header = parent
            walked.append(header)
        return walked

    async def _require_release(self, lowest: Header, tip: ParentRef) -> None:
        if self._released or await self._source.agree(lowest):
            return
        message = (
            f"{self._source.chain} wants to take back more than "
            f"{self._entry.reorganisation_limit} blocks below {tip.height}; "
            f"waiting for a second node or a person to agree"
        )
        raise HeldReorganisation(message)

    def _retract(self, common: Header | None, lowest: Header, tip: ParentRef) -> None:
        """Take back everything above the common block, and say again what is left of a span."""
        height = self._line.bottom if common is None else common.height
        gone = [mark for mark in self._line.watermarks if mark.height > height]
        left = common or lowest
        facts = retractions(self._line.watermarks, ParentRef(height=left.height, hash=left.hash))
        self._line.cut_above(height)
        self._lost.retract_above(height)
        self._recent.cut_above(height)
        self._ready.clear()
        for scan in self._scans:
            scan.upto, scan.remembered = min(scan.upto, height), None
        self._finalized = min(self._finalized, max(0, height))
        self._retracted_total += len(facts)
        self._observer(
            Reorganised(
                chain=self._source.chain, depth=tip.height - height, common_height=max(0, height)
            )
        )
        if facts:
            self._close_retraction(facts, gone[0], common)

    def _close_retraction(
        self, facts: Sequence[ChainFact], oldest: Watermark, common: Header | None
    ) -> None:
        """Close a retraction with the watermark of what is left; with none, the next block does."""
        closing: Watermark | None
        if common is not None and oldest.from_height <= common.height:
            left = Taken(
                from_height=oldest.from_height, parent_hash=oldest.parent_hash, header=common
            )
            closing = self._watermark(left)
            self._line.say(left, closing)
        else:
            closing = self._closing()
        if closing is None:
            self._prefix = [*facts]
        else:
            self._retraction = self._step([*facts, closing])

    # --- side work -----------------------------------------------------------------------------

    def _welcome(self) -> None:
        """Take in new addresses, when no block is being read."""
        entries, self._incoming = self._incoming, []
        if not entries:
            return
        for entry in entries:
            self._watched.add(entry.raw)
        self._drop_ready_that_pay({entry.raw for entry in entries})
        open_entries = [entry for entry in entries if entry.offset >= self._announced_upto]
        tip = self._line.tip
        upto = tip.height if tip else (self._start_at or 0) - 1
        first = self._recent.first
        now = self._clock.now()
        quick = [entry for entry in open_entries if first and entry.since >= first.time]
        slow = [entry for entry in open_entries if not (first and entry.since >= first.time)]
        for some in (quick, slow):
            if some:
                scan = scan_of(some, now=now, span_max_s=self._settings.back_scan_s_max, upto=upto)
                self._scans.append(scan)
        self._scans.sort(key=lambda scan: scan.since, reverse=True)

    def _drop_ready_that_pay(self, addresses: set[bytes]) -> None:
        """Throw away what was read ahead without knowing these addresses; it is read again."""
        kept: deque[Taken] = deque()
        for taken in self._ready:
            if taken.recipients is None or not taken.recipients.isdisjoint(addresses):
                break
            kept.append(taken)
        self._ready = kept

    def _watchlist_upto(self) -> int:
        """Give the lowest watchlist offset whose back-scan is not announced."""
        open_offsets = [scan.lowest_offset for scan in self._scans]
        open_offsets += [some[0][0] for some in self._covered if some]
        open_offsets += [
            entry.offset for entry in self._incoming if entry.offset >= self._announced_upto
        ]
        return min([self._read_upto_offset, *open_offsets])

    def _is_side_work_due(self) -> bool:
        now = self._clock.monotonic_s()
        if any(one.retry_at_s <= now for one in self._look_ups):
            return True
        if self._line.said is None:
            return False
        works: list[BackScan | ReadAgainScan] = [*self._scans, *self._again]
        return bool(self._covered) or any(one.retry_at_s <= now for one in works)

    async def _side_work(self) -> Step | None:
        """Answer look-ups, announce covered addresses, scan back, read again: one piece of one."""
        now = self._clock.monotonic_s()
        due = [one for one in self._look_ups if one.retry_at_s <= now]
        if due:
            step = await self._look_up(due[: self._settings.look_ups_a_step])
            if step is not None:
                return step
        if self._line.said is None:
            return None
        if self._covered:
            return self._announce()
        for scan in self._scans:
            if scan.retry_at_s <= now:
                return await self._scan_back(scan)
        for again in self._again:
            if again.retry_at_s <= now:
                return await self._read_again(again)
        return None

    async def _look_up(self, due: Sequence[_LookUp]) -> Step | None:
        facts: list[TransactionLookedUp] = []
        for one in due:
            try:
                answer = await self._source.look_up(one.request.tx, self._watched)
            except (Retryable, Unsupported) as error:
                self._put_off(one, error)
                continue
            facts.append(replace(answer, request=one.request.request))
            self._look_ups.remove(one)
        return Step(facts=facts) if facts else None

    def _announce(self) -> Step | None:
        """Say which addresses are covered, together with the watchlist offset that moves by it."""
        some = self._covered[0]
        count = min(len(some), self._settings.covered_a_step)
        facts = [some.popleft()[1] for _ in range(count)]
        if not some:
            self._covered.popleft()
        return self._closed(facts)

    async def _scan_back(self, scan: BackScan) -> Step | None:
        begins = scan.next_height
        try:
            found = await self._scanner.piece(scan, self._recent, finalized=self._finalized)
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
        facts: list[ChainFact] = []
        for taken in found:
            if taken.transfers:
                facts += taken.transfers
                if not self._line.has_watermark(taken.header):
                    facts.append(self._watermark(taken))
        return self._closed([*self._silent_first(), *facts]) if facts else None

    def _silent_first(self) -> list[ChainFact]:
        """Say what was read and not said yet: a find may lie in it, and coverage must not jump."""
        silent = self._line.silent
        if silent is None:
            return []
        watermark = self._watermark(silent)
        self._line.say(silent, watermark)
        return [watermark]

    async def _read_again(self, again: ReadAgainScan) -> Step | None:
        said = self._line.said
        upto = min(again.upto, said.height if said else -1)
        if again.next_height > upto:
            self._again.remove(again)
            return None
        try:
            found = await self._scanner.read(
                again.next_height, upto, self._watched, finalized=self._finalized
            )
            self._require_ours(found)
        except (Retryable, Unsupported) as error:
            self._put_off(again, error)
            return None
        again.next_height = found[-1].header.height + 1
        facts: list[ChainFact] = []
        for taken in read_again(found):
            facts += [*taken.transfers, self._watermark(taken)]
        return self._closed(facts)

    def _closed(self, facts: Sequence[ChainFact]) -> Step | None:
        closing = self._closing()
        return None if closing is None else self._step([*facts, closing])

    def _require_ours(self, found: Sequence[Taken]) -> None:
        """Refuse blocks of another line than ours: the loop has to see that reorganisation first."""
        for taken in found:
            ours = self._line.hashes.get(taken.header.height)
            if ours is not None and ours != taken.header.hash:
                message = f"block {taken.header.height} is {taken.header.hash}, ours is {ours}"
                raise NodeBehind(message)

    # --- failures ------------------------------------------------------------------------------

    def _put_off(self, work: BackScan | ReadAgainScan | _LookUp, error: ChainError) -> None:
        work.failures += 1
        work.retry_at_s = self._clock.monotonic_s() + self._rest_s(work.failures, error)
        self._tell(error, work.failures)

    async def _rest_after(self, error: ChainError) -> None:
        self._failures += 1
        if self._failures == 1:
            self._blind_since = self._clock.now()
        if self._failures >= self._settings.blind_after:
            since = f"{self._blind_since:%Y-%m-%d %H:%M}"
            self._blind = f"{self._source.chain} blind since {since}: {error}"
        self._tell(error, self._failures)
        await self._clock.sleep(self._rest_s(self._failures, error))

    def _rest_s(self, failures: int, error: ChainError) -> float:
        """Double the rest with jitter, up to the most; never shorter than the node asked for."""
        settings = self._settings
        rest: float = settings.rest_first_s * 2 ** min(failures - 1, 16)
        rest = min(settings.rest_s_max, rest) * (0.5 + self._chance() / 2)
        asked = error.retry_after_s if isinstance(error, NodeBusy) else None
        return max(rest, asked or 0.0)

    def _tell(self, error: ChainError, failures: int) -> None:
        self._observer(
            ReadFailed(
                chain=self._source.chain,
                error=type(error).__name__,
                message=str(error)[:500],
                failures_in_a_row=failures,
            )
        )
