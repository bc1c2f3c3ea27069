"""Which transfers an answer about a transaction names. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from schemas.facts import TransferSeen
from schemas.values import TransferName

#: A thousand names fit into a message several times over.
TOLD_MAX: Final = 1_000


def told(transfers: Sequence[TransferSeen]) -> tuple[TransferName, ...]:
    """Name what a transaction pays us, as far as an answer has room: first one of every address."""
    before: Counter[str] = Counter()
    ranked: list[tuple[int, TransferName]] = []
    for seen in transfers:
        ranked.append((before[seen.to], seen.transfer))
        before[seen.to] += 1
    ranked.sort(key=lambda place: place[0])
    return tuple(name for _, name in ranked[:TOLD_MAX])
