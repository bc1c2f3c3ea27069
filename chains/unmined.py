"""Transfers that wait to be mined: what was said of them, and what became of them.

Pure bookkeeping of the loop. Reads looks into the mempool and blocks, gives `TransferSeen` without a
block and `TransferDropped`. A transfer is dropped only where another transaction spends one of its
outpoints, in the mempool or in a block; that it is missing decides nothing here: who reads the facts
stops counting on what is not announced any more. After a restart it is taken over from the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from chains.line import Taken
from chains.port import Unmined
from schemas.facts import TransferDropped, TransferSeen
from schemas.values import split_transfer_id

#: A transfer that is missing for so many announcements is forgotten: it was never said to be gone.
MISSES_MAX: Final = 3


class _Known(Struct):
    """One transfer that was announced. `missing_since_s` is None while the mempool has it."""

    seen: TransferSeen
    said_at_s: float
    missing_since_s: float | None = None


class UnminedTransfers:
    """What the mempool paid us, by transfer. **Units**: seconds of a clock that never falls.

    Outpoints are kept by transaction: one may spend a thousand and pay us a thousand times, and all of
    its transfers spend the same.
    """

    def __init__(self, *, again_s: float, transfers_max: int) -> None:
        self._again_s = again_s
        self._transfers_max = transfers_max
        self._known: dict[str, _Known] = {}
        self._by_tx: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._by_outpoint: defaultdict[str, set[str]] = defaultdict(set)

    def __len__(self) -> int:
        """Count the transfers that wait to be mined."""
        return len(self._known)

    @property
    def outpoints(self) -> AbstractSet[str]:
        """What the known transfers spend: whoever else spends one of these replaces them."""
        return self._by_outpoint.keys()

    def take_over(self, announced: Iterable[TransferSeen], now_s: float) -> None:
        """Know what another loop announced; what still waits is said again at the next look."""
        for seen in announced:
            if len(self._known) < self._transfers_max:
                self._remember(_Known(seen, now_s - self._again_s))

    def compare(
        self, found: Unmined, now_s: float, *, facts_max: int
    ) -> list[TransferSeen | TransferDropped]:
        """Give what a look into the mempool says anew, no more than so many facts at a time.

        What is replaced is said before what replaces it, so that one payment never counts twice.
        """
        facts: list[TransferSeen | TransferDropped] = []
        present = {seen.transfer for seen in found.transfers}
        firsts = self._with_first_sights(found.transfers)
        facts += self._gone(present, found, now_s, facts_max)
        for seen in firsts:
            if len(facts) >= facts_max:
                break
            if self._is_news(seen, now_s):
                facts.append(seen)
        return facts

    def inherited(self, taken: Taken) -> Taken:
        """Give a block whose transfers know since when their money waits, under another id too."""
        if not self._known or not taken.transfers:
            return taken
        return replace(taken, transfers=self._with_first_sights(taken.transfers))

    def contested_by(self, taken: Taken) -> AbstractSet[str]:
        """Give what both a block and a waiting transfer spend. A block's own map is made when it is
        first asked for, which it is not where nothing waits.
        """
        if not self._by_outpoint:
            return frozenset()
        return self._by_outpoint.keys() & taken.spent.keys()

    def settle(self, taken: Taken) -> list[TransferDropped]:
        """Compare with a block: what it mined waits no longer, and what it made impossible is gone."""
        for seen in taken.transfers:
            self._forget(seen.transfer)
        dropped: list[TransferDropped] = []
        for outpoint in self.contested_by(taken):
            dropped += self._spent_by(outpoint, taken.spent[outpoint])
        return sorted(dropped, key=lambda fact: fact.transfer)

    def _gone(
        self, present: AbstractSet[str], found: Unmined, now_s: float, facts_max: int
    ) -> Iterator[TransferDropped]:
        missing = [known for name, known in self._known.items() if name not in present]
        uses: dict[str, tuple[str, str] | None] = {}
        for known in missing:
            tx = _tx(known.seen)
            if tx not in uses:
                uses[tx] = _other_use(known.seen, found)
            use = uses[tx]
            if use is not None and facts_max > 0:
                facts_max -= 1
                self._forget(known.seen.transfer)
                yield _dropped(known.seen, *use)
            elif known.missing_since_s is None:
                known.missing_since_s = now_s
            elif now_s - known.missing_since_s > MISSES_MAX * self._again_s:
                self._forget(known.seen.transfer)

    def _spent_by(self, outpoint: str, user: str) -> Iterator[TransferDropped]:
        names = [name for tx in self._by_outpoint.get(outpoint, ()) for name in self._by_tx[tx]]
        for name in sorted(names):
            seen = self._known[name].seen
            self._forget(name)
            if _tx(seen) != user:
                yield _dropped(seen, outpoint, user)

    def _with_first_sights(self, transfers: Sequence[TransferSeen]) -> list[TransferSeen]:
        """A payment of the same money to the same address was first seen when the first of them was."""
        firsts: dict[str, dict[str, datetime]] = {}
        found: list[TransferSeen] = []
        for seen in transfers:
            tx = _tx(seen)
            if tx not in firsts:
                firsts[tx] = self._first_sights(seen.spends)
            first = min(seen.first_seen_at, firsts[tx].get(seen.to, seen.first_seen_at))
            found.append(
                seen if first == seen.first_seen_at else replace(seen, first_seen_at=first)
            )
        return found

    def _first_sights(self, spends: Iterable[str]) -> dict[str, datetime]:
        """Give when each address was first paid with any of these outpoints."""
        firsts: dict[str, datetime] = {}
        for tx in {tx for outpoint in spends for tx in self._by_outpoint.get(outpoint, ())}:
            for name in self._by_tx[tx]:
                seen = self._known[name].seen
                firsts[seen.to] = min(seen.first_seen_at, firsts.get(seen.to, seen.first_seen_at))
        return firsts

    def _is_news(self, seen: TransferSeen, now_s: float) -> bool:
        known = self._known.get(seen.transfer)
        if known is None:
            if len(self._known) >= self._transfers_max:
                return False  # it is found when it is mined
            self._remember(_Known(seen, now_s))
            return True
        known.missing_since_s = None
        if now_s - known.said_at_s < self._again_s:
            return False
        known.said_at_s = now_s
        return True

    def _remember(self, known: _Known) -> None:
        seen, tx = known.seen, _tx(known.seen)
        self._known[seen.transfer] = known
        if tx not in self._by_tx:
            for outpoint in seen.spends:
                self._by_outpoint[outpoint].add(tx)
        self._by_tx[tx][seen.transfer] = None

    def _forget(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is None:
            return
        tx = _tx(known.seen)
        del self._by_tx[tx][name]
        if self._by_tx[tx]:
            return
        del self._by_tx[tx]
        for outpoint in known.seen.spends:
            rivals = self._by_outpoint[outpoint]
            rivals.discard(tx)
            if not rivals:
                del self._by_outpoint[outpoint]


def _other_use(seen: TransferSeen, found: Unmined) -> tuple[str, str] | None:
    """Give an outpoint of a transfer that another waiting transaction spends, and which one."""
    for outpoint in seen.spends:
        user = found.spent.get(outpoint)
        if user is not None and user != _tx(seen):
            return outpoint, user
    return None


def _tx(seen: TransferSeen) -> str:
    return split_transfer_id(seen.transfer)[1]


def _dropped(seen: TransferSeen, outpoint: str, user: str) -> TransferDropped:
    return TransferDropped(
        transfer=seen.transfer,
        chain=seen.chain,
        to=seen.to,
        replaced_by=user,
        reason=f"{outpoint} was used by another",
    )
