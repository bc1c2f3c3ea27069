"""Who used the processor: the time of this process and of all that it started, by kind.

A rate on a shared machine says little; what a unit of work costs each part says more. Linux only.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def used() -> Counter[str]:
    """Give seconds of processor by kind of process: those of ours that are alive now."""
    parents, kinds, spent = {}, {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(folder.name)
        parents[number], kinds[number] = int(fields[1]), _kind(number, words)
        spent[number] = (int(fields[11]) + int(fields[12])) / TICKS
    found: Counter[str] = Counter()
    for number, kind in kinds.items():
        if _descends(number, parents):
            found[kind] += spent[number]
    return found


def _kind(number: int, words: str) -> str:
    if number == os.getpid():
        return "bench"
    for kind in ("intake", "relay"):
        if f"tests.bench.side {kind}" in words:
            return kind
    if "postgres" in words:
        return "PostgreSQL"
    return "Kafka" if "java" in words else "other"


def _descends(number: int, parents: dict[int, int]) -> bool:
    while number > 1:
        if number == os.getpid():
            return True
        number = parents.get(number, 0)
    return False
