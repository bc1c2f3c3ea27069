"""What waits in a node's mempool, between two looks.

Pure memory. Takes the names that a node lists and the transactions that were read; gives those still to be
read, and what they pay to watched scripts. Of a transaction that pays nobody of ours it keeps the
scripts, so that an address that is watched a moment later is not missed, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from chains.errors import AnswerRefused
from chains.port import WatchedAddresses
from chains.utxo.block import Paid
from chains.utxo.loose import LooseTransaction
from chains.utxo.told_header import hash_of

#: So many first sights are kept of transactions that paid us and wait no longer.
LEFT_MAX: Final = 100_000


class Sighted(Struct, frozen=True):
    """An output to a watched script, and when its transaction was first seen."""

    paid: Paid
    at: datetime


class _Read(Struct, gc=False):
    """A transaction that was read: when first, and all that it pays."""

    at: datetime
    scripts: tuple[bytes, ...]


class Waiting:
    """One mempool, as far as it was read."""

    def __init__(self) -> None:
        self._read: dict[str, _Read] = {}
        self._sights: dict[str, list[Sighted]] = {}
        self._rivals: dict[str, str] = {}
        self._unread: dict[str, None] = {}
        self._left: dict[str, datetime] = {}
        self._watched = 0

    @property
    def sights(self) -> Iterable[Sighted]:
        """Everything that waits and pays a watched script."""
        return (sighted for found in self._sights.values() for sighted in found)

    def first_sight(self, txid: str) -> datetime | None:
        """Tell when a transaction that pays us was first seen to wait, also when it does no longer."""
        read = self._read.get(txid)
        return self._left.get(txid) if read is None else read.at

    def rivals(self, outpoints: Collection[str]) -> dict[str, str]:
        """Give which waiting transaction spends each of these outpoints."""
        return {name: self._rivals[name] for name in outpoints if name in self._rivals}

    def listed(self, names: Sequence[str], watched: WatchedAddresses) -> None:
        """Take a whole listing: what is not in it waits no longer.

        To be read are, in this order, what pays an address that came to be watched, what is new, and
        what could not be read yet. What was listed before costs little: there may be 100,000.

        **Raises**: `AnswerRefused` where a name is none of a transaction.
        """
        present = set(names)
        for gone in self._read.keys() - present:
            at = self._read.pop(gone).at
            if self._sights.pop(gone, None):
                self._left[gone] = at
        while len(self._left) > LEFT_MAX:
            del self._left[next(iter(self._left))]
        self._rivals = {one: name for one, name in self._rivals.items() if name in present}
        queue = dict.fromkeys(self._to_read_again(watched))
        unread = [name for name in names if name not in self._read]
        for name in unread:
            if hash_of(name) != name:
                message = f"expected the name of a transaction, found {name[:80]!r}"
                raise AnswerRefused(message)
        queue |= dict.fromkeys(name for name in unread if name not in self._unread)
        queue |= dict.fromkeys(unread)
        self._unread = queue

    def next_unread(self, most: int) -> list[str]:
        """Name what to read next, and do not name it again before the next listing."""
        names = list(self._unread)[:most]
        for name in names:
            del self._unread[name]
        return names

    def put_back(self, names: Sequence[str]) -> None:
        """Take that these could not be read: at the next listing they come last."""
        self._unread |= dict.fromkeys(names)

    def take(
        self,
        found: LooseTransaction,
        now: datetime,
        watched: WatchedAddresses,
        outpoints: Collection[str],
    ) -> None:
        """Take a transaction that was read."""
        known = self._read.get(found.txid)
        at = now if known is None else known.at
        self._read[found.txid] = _Read(at, tuple({paid.script for paid in found.pays}))
        ours = [Sighted(paid, at) for paid in found.pays if paid.script in watched]
        if ours:
            self._sights[found.txid] = ours
        self._rivals |= {one: found.txid for one in found.spends if one in outpoints}

    def _to_read_again(self, watched: WatchedAddresses) -> list[str]:
        """Name what pays addresses that came to be watched since the last listing."""
        if len(watched) == self._watched:
            return []
        self._watched = len(watched)
        return [name for name, read in self._read.items() if self._pays_more(name, read, watched)]

    def _pays_more(self, name: str, read: _Read, watched: WatchedAddresses) -> bool:
        ours = [script for script in read.scripts if script in watched]
        if not ours:
            return False
        told = {sighted.paid.script for sighted in self._sights.get(name, ())}
        return not told.issuperset(ours)
