"""How a benchmark says what it measured: a table for people, one JSON line for machines.

Machines are shared and noisy: what is compared is measured in the same run, and ratios are quoted.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.console import Console
from rich.table import Table


class Row(Struct, frozen=True, kw_only=True):
    """One line: what, how much, in which unit, against which budget, beside what in the same run."""

    what: str
    value: float
    unit: str
    budget: str = ""
    beside: str = ""


def show(title: str, rows: Sequence[Row]) -> None:
    """Print the rows."""
    table = Table("what", "measured", "budget", "beside, in the same run", title=title)
    for row in rows:
        table.add_row(row.what, f"{row.value:,.4g} {row.unit}", row.budget, row.beside)
    Console(width=120).print(table)
    for row in rows:
        print(json.dumps({"bench": title, **{f: getattr(row, f) for f in row.__struct_fields__}}))


def median_s(run: Callable[[], object], *, times: int, clock: Callable[[], float]) -> float:
    """Measure a run several times and give the median."""
    taken = []
    for _ in range(times):
        started = clock()
        run()
        taken.append(clock() - started)
    return statistics.median(taken)


def percentile(values: Sequence[float], share: float) -> float:
    """Give the value below which a share of the others lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
