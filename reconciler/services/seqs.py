"""The numbers of one unit of work's records: rising, and in the order in which they are applied."""

from __future__ import annotations

from collections import deque

from reconciler.storage.unit_of_work import Work


class Seqs:
    """Draws numbers in bulk. Draw after the locks; whoever takes more locks draws anew.

    Two units of work that touch the same order wait for each other at a lock. Who waited must have the
    higher number, else a recording in the order of numbers would tell another story than what happened.
    """

    def __init__(self, work: Work, count: int) -> None:
        self._work = work
        self._left = count
        self._drawn: deque[int] = deque()

    async def take(self) -> int:
        """Give the next record's number."""
        if not self._drawn:
            self._drawn.extend(await self._work.next_seqs(max(1, self._left)))
        self._left -= 1
        return self._drawn.popleft()

    def draw_anew(self) -> None:
        """Leave what is drawn unused: a lock was taken since."""
        self._drawn.clear()
