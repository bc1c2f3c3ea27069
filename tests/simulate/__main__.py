"""`make simulate`: run seeds, on all cores, and name the one that fails with the command that repeats it."""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulate.run import Outcome, simulate

DEFAULT_SEEDS = "10000"


def main() -> int:
    """Give 0 when every promise was kept."""
    asked = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    asked.add_argument("seeds", nargs="?", default=DEFAULT_SEEDS, help="how many, or FROM:TO")
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked.add_argument("--tell", action="store_true", help="print what happens; for one seed")
    asked.add_argument("--digests", action="store_true", help="print a hash of each run")
    given = asked.parse_args()
    seeds = read_seeds(given.seeds)
    if given.tell:
        return _report([simulate(seed, tell=True) for seed in seeds], digests=True)
    return _report(run(seeds, processes=given.processes), digests=given.digests)


def read_seeds(text: str) -> range:
    """Read `10000` (that many, from 1) or `17:20` (17, 18 and 19)."""
    first, _, last = text.rpartition(":")
    return range(int(first), int(last)) if first else range(1, int(last) + 1)


def run(seeds: range, *, processes: int) -> Iterator[Outcome]:
    """Run seeds, as they come, with a bar where somebody looks."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("", total=len(seeds))
        started_s = time.monotonic()
        with multiprocessing.Pool(min(processes, len(seeds)), initializer=settle_in) as pool:
            for number, outcome in enumerate(pool.imap_unordered(simulate, seeds), start=1):
                pace = number / (time.monotonic() - started_s)
                bar.update(task, advance=1, description=f"{pace:.1f} seeds/s")
                yield outcome


def settle_in() -> None:
    """Let a process run many seeds: quietly, and without looking at what never becomes garbage."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    simulate(0)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _report(outcomes: Iterator[Outcome] | list[Outcome], *, digests: bool) -> int:
    started_s = time.monotonic()
    count = events = 0
    failed: list[Outcome] = []
    for outcome in outcomes:
        count, events = count + 1, events + outcome.events
        if digests:
            print(f"seed {outcome.seed}: {outcome.digest}", flush=True)
        if outcome.violation is not None:
            failed.append(outcome)
            print(
                f"seed {outcome.seed} after {outcome.virtual_s:.1f} s: {outcome.violation}\n"
                f"  again: make simulate SEEDS={outcome.seed}:{outcome.seed + 1} ARGS=--tell",
                flush=True,
            )
    spent_s = time.monotonic() - started_s
    print(
        f"{count} seeds, {events} events checked, {len(failed)} violations, "
        f"{count / spent_s:.2f} seeds/s",
        flush=True,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
