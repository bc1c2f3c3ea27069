"""The one loop that all chains share: head, fork?, read, facts, watermark.

Reads a `ChainSource`, gives `Step`s to whoever publishes them (`chains.port.FollowLoop`). Its only
memory is what the last run left in the stream. Never skips a block, never publishes half of one,
never decides what a transfer pays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from chains.catalog import ChainEntry
from chains.clock import Clock
from chains.errors import ChainError, HeldReorganisation, NoCheckpoint, Retryable, Unsupported
from chains.forks import retractions
from chains.heed import heed_cancellation
from chains.line import Line, Taken
from chains.lost import LostTransfers
from chains.marks import Marks
from chains.mempool import MempoolWatch
from chains.observe import BlockTaken, Observer, ReadFailed, Reorganised, SourceStarted, nobody
from chains.pace import FollowSettings, chance, rest_s
from chains.port import (
    ChainSource,
    Checkpoint,
    FollowStatus,
    Head,
    Header,
    LogMemory,
    Step,
    WatchEntry,
)
from chains.side_work import SideWork
from chains.spans import Spans
from chains.take_back import Allowed, TakeBack
from chains.watched import RecentBlocks, Watched
from schemas.requests import ChainRequest, LookUpTransaction, ReadAgain, SeeBalance
from schemas.values import ParentRef

__all__ = ["FollowSettings", "Follower"]


class Follower:
    """Follows one chain (`chains.port.FollowLoop`).

    It begins after the checkpoint's last watermark, else at `start_at`; with neither, the first
    `next_step` raises `NoCheckpoint`. `log_id` names the log and is copied into every watermark. `log` is
    asked where a reorganisation goes below what is held in memory, and for what waited to be mined when
    the last run ended; what it raises comes out.
    """

    def __init__(
        self,
        source: ChainSource,
        *,
        entry: ChainEntry,
        checkpoint: Checkpoint | None,
        log_id: str,
        start_at: int | None,
        log: LogMemory,
        clock: Clock,
        observer: Observer = nobody,
        settings: FollowSettings | None = None,
        lot: Callable[[], float] = chance,
    ) -> None:
        self._source = source
        self._start_at = start_at
        self._clock = clock
        self._observer = observer
        self._settings = settings or FollowSettings()
        self._lot = lot
        limit = entry.reorganisation_limit
        self._line = Line(checkpoint.watermarks if checkpoint else (), kept_blocks=2 * limit)
        self._marks = Marks(self._line, chain=source.chain, log_id=log_id, clock=clock)
        self._spans = Spans(source, at_once=self._settings.blocks_at_once)
        self._watched = Watched()
        self._recent = RecentBlocks(
            blocks_max=self._settings.recent_blocks_max,
            recipients_max=self._settings.recent_recipients_max,
        )
        self._side = SideWork(
            source,
            self._spans,
            self._marks,
            entry=entry,
            watched=self._watched,
            recent=self._recent,
            clock=clock,
            settings=self._settings,
            failed=self._note_failure,
        )
        self._mempool = MempoolWatch(
            source,
            self._marks,
            log=log,
            watched=self._watched,
            clock=clock,
            settings=self._settings,
            failed=self._note_failure,
        )
        self._marks.watchlist_upto = self._side.watchlist_upto
        self._take_back = TakeBack(source, self._line, limit=limit, log=log)
        self._lost = LostTransfers(kept_blocks=limit)
        self._ready: deque[Taken] = deque()
        self._retraction: Step | None = None
        self._head: Head | None = None
        self._started = False
        self._side_first = False
        self._looked_last = False
        self._identified_at_s = 0.0
        self._retracted_total = 0
        self._failures = 0
        self._blind_since = clock.now()
        self._blind: str | None = None
        self._held: str | None = None
        self._early: str | None = None

    async def next_step(self) -> Step:
        """Wait for and give the next facts; see the port. Only `Fatal` comes out."""
        while True:
            heed_cancellation()
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
        self._side.add_addresses(entries, read_upto_offset)

    def request(self, request: ChainRequest) -> None:
        """Take a request. A release counts only while a reorganisation is held."""
        if isinstance(request, LookUpTransaction | ReadAgain | SeeBalance):
            self._side.add_request(request)
        elif self._held is not None:
            self._take_back.released = True

    def status(self) -> FollowStatus:
        """Tell where the loop stands. Never waits."""
        said = self._line.said
        return FollowStatus(
            head_height=self._head.header.height if self._head else 0,
            covered_height=said.height if said else 0,
            covered_time=said.time if said else None,
            finalized_height=self._marks.finalized,
            watched=len(self._watched) + self._side.incoming,
            back_scans_open=self._side.open_scans,
            look_ups_open=self._side.open_look_ups,
            retracted_total=self._retracted_total,
            failures_in_a_row=self._failures,
            held=self._held or self._blind or self._early,
        )

    async def _turn(self) -> Step | None:
        """Do the next piece of work: the mempool when it is due, the line and the side work by turns.

        A mempool that has more to say than fits into a step does not keep the line waiting.
        """
        if not self._started:
            await self._begin()
        self._welcome()
        self._side_first = not self._side_first
        works = [self._side.next_piece, self._advance]
        works = works if self._side_first else works[::-1]
        look = self._mempool.next_step
        works = [*works, look] if self._looked_last else [look, *works]
        self._looked_last = False
        for work in works:
            step = await work()
            if step is not None:
                self._looked_last = work == look
                return step
        if self._ready or self._is_behind() or self._side.is_due():
            return None
        if self._marks.since_said_s() >= self._settings.resend_s:
            return self._marks.again()
        await self._source.wait_for_change(self._patience_s())
        return None

    async def _begin(self) -> None:
        if self._line.said is None and self._start_at is None:
            message = (
                f"{self._source.chain}: no watermark in the log and no start_at in the settings"
            )
            raise NoCheckpoint(message)
        await self._source.start()
        spots = tuple(self._source.blind_spots())
        self._observer(SourceStarted(chain=self._source.chain, blind_spots=spots))
        self._identified_at_s = self._marks.said_at_s = self._clock.monotonic_s()
        self._started = True

    def _welcome(self) -> None:
        """Take in new addresses; what was read ahead without knowing them is read again."""
        if not self._side.incoming:
            return
        tip = self._line.tip
        new = self._side.welcome(tip.height if tip else (self._start_at or 0) - 1)
        kept: deque[Taken] = deque()
        for taken in self._ready:
            if taken.recipients is None or not taken.recipients.isdisjoint(new):
                break
            kept.append(taken)
        self._ready = kept

    def _is_behind(self) -> bool:
        tip = self._line.tip
        return self._head is not None and tip is not None and self._head.header.height > tip.height

    def _patience_s(self) -> float:
        """Give how long to wait at most: until silent blocks, the last watermark or a look are due."""
        settings = self._settings
        due = settings.empty_watermark_s if self._line.silent else settings.resend_s
        look_s = self._mempool.due_in_s()
        waits = [settings.wait_s, due - self._marks.since_said_s()]
        return max(0.01, min(waits if look_s is None else [*waits, look_s]))

    # --- the line ------------------------------------------------------------------------------

    async def _advance(self) -> Step | None:
        if not self._ready:
            await self._read_on()
        if self._retraction is not None:
            step, self._retraction = self._retraction, None
            return step
        if self._ready:
            return self._take()
        return self._marks.silent_step() if self._is_silent_due() else None

    async def _read_on(self) -> None:
        """Fill the queue with the next blocks, after asking for the head and comparing lines."""
        if self._clock.monotonic_s() - self._identified_at_s >= self._settings.identify_s:
            await self._source.identify()
            self._identified_at_s = self._clock.monotonic_s()
        self._head = head = await self._source.head()
        # What was called final once stays so; only a reorganisation below it takes it back.
        self._marks.finalized = max(self._marks.finalized, head.finalized_height)
        tip = self._line.tip
        if tip is None:
            await self._read_first(head)
        elif head.header.height > tip.height:
            await self._read_above(tip, head)
        else:
            await self._compare_below(tip, head)

    async def _read_first(self, head: Head) -> None:
        start = self._start_at or 0
        if head.header.height < start:
            self._early = (
                f"{self._source.chain} is to be read from block {start} (start_at), and its node has "
                f"blocks up to {head.header.height}"
            )
        else:
            self._early = None
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
        headers = [head.header] if first == last else await self._spans.headers(first, last)
        if await self._follows(headers[0], tip):
            self._ready.extend(await self._spans.singly(headers, self._watched))

    async def _compare_below(self, tip: ParentRef, head: Head) -> None:
        """See whether a head that is not above ours lies on our line: then it lags, else it forks."""
        known = self._line.known_at_or_below(min(tip.height, head.header.height))
        if known is None or known < 0:
            return
        theirs = head.header
        if known != theirs.height:
            theirs = await self._source.header_at(known)
        if theirs.hash == self._line.hashes[known]:
            self._held = None
        else:
            self._retract(await self._take_back.allow(theirs, tip), tip)

    async def _follows(self, header: Header, tip: ParentRef) -> bool:
        if header.parent_hash == tip.hash:
            self._held = None
            return True
        self._retract(await self._take_back.allow(header, tip), tip)
        return False

    def _is_silent_due(self) -> bool:
        due = self._marks.since_said_s() >= self._settings.empty_watermark_s
        return due and self._line.silent is not None

    def _take(self) -> Step | None:
        """Take the next read blocks: silent ones wait for company, one with facts stands alone."""
        taken = self._ready[0]
        speaks = self._lost or taken.transfers or self._mempool.loses_to(taken)
        if speaks and self._line.silent is not None:
            return self._marks.silent_step()
        self._ready.popleft()
        taken, gone = self._mempool.mined(taken)
        dropped = [*self._lost.settle(taken), *gone]
        self._remember(taken)
        if dropped or taken.transfers or self._line.said is None:
            return self._marks.say(taken, [*dropped, *taken.transfers])
        self._line.keep_silent(taken)
        return self._marks.silent_step() if self._is_silent_due() else None

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

    def _retract(self, allowed: Allowed, tip: ParentRef) -> None:
        """Take back everything above what is left, and close it with what is left of a span."""
        left, line = allowed.left, self._line
        gone = [mark for mark in line.watermarks if mark.height > left.height]
        facts = retractions(line.watermarks, ParentRef(height=left.height, hash=left.hash))
        line.cut_above(left.height)
        self._lost.retract_above(left.height)
        self._recent.cut_above(left.height)
        self._side.cut_above(left.height)
        self._marks.finalized = min(self._marks.finalized, left.height)
        self._retracted_total += len(facts)
        self._held = None
        if not allowed.is_ours:
            self._start_at = left.height + 1
        depth = tip.height - left.height
        self._observer(
            Reorganised(chain=self._source.chain, depth=depth, common_height=left.height)
        )
        if gone and allowed.is_ours and gone[0].from_height <= left.height:
            rest = Taken(
                from_height=gone[0].from_height, parent_hash=gone[0].parent_hash, header=left
            )
            self._retraction = self._marks.say(rest, facts)
        elif facts:
            self._retraction = self._marks.again(facts)
            if self._retraction is None:
                self._marks.put_before(facts)

    # --- failures ------------------------------------------------------------------------------

    async def _rest_after(self, error: ChainError) -> None:
        self._failures += 1
        if self._failures == 1:
            self._blind_since = self._clock.now()
        if self._failures >= self._settings.blind_after:
            since = f"{self._blind_since:%Y-%m-%d %H:%M}"
            self._blind = f"{self._source.chain} blind since {since}: {error}"
        await self._clock.sleep(self._note_failure(error, self._failures))

    def _note_failure(self, error: ChainError, failures: int) -> float:
        """Tell of a failure; give how long to rest."""
        self._observer(
            ReadFailed(
                chain=self._source.chain,
                error=type(error).__name__,
                message=str(error)[:500],
                failures_in_a_row=failures,
            )
        )
        return rest_s(failures, error, self._settings, self._lot)
