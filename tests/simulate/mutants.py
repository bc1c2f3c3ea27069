"""Guards broken on purpose, one at a time: does the simulator see it?

Each mutant is one substitution in the source of one module, made when that module is imported, in a
process of its own; nothing on disk changes. `python -m tests.simulate.mutants` breaks all of them in
turn, runs seeds until one is violated, and writes the table of results beside this file.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from msgspec import Struct

from tests.simulate.mutant_table import MUTANTS, Mutant

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = Path(__file__).with_name("mutants.md")
SEEDS_MAX: Final = 1_000


class Found(Struct, frozen=True, kw_only=True):
    """In which seed a mutant was found; None when it was not in any of `tried`."""

    mutant: Mutant
    seed: int | None
    tried: int
    violation: str
    seconds: float


class _Broken(importlib.machinery.SourceFileLoader):
    """Loads one module with one substitution."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = substituted(self._mutant)
        return compile(source, self.get_filename(fullname), "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        where = str(path_of(self._mutant))
        loader = _Broken(fullname, where, self._mutant)
        return importlib.util.spec_from_file_location(fullname, where, loader=loader)


def path_of(mutant: Mutant) -> Path:
    return ROOT / Path(*mutant.module.split(".")).with_suffix(".py")


def substituted(mutant: Mutant) -> str:
    """Give the module's source with the guard broken. **Raises**: `ValueError` where it is not there once."""
    source = path_of(mutant).read_text(encoding="utf-8")
    count = source.count(mutant.old)
    if count != 1:
        message = (
            f"{mutant.name}: expected its text once in {mutant.module}, found it {count} times"
        )
        raise ValueError(message)
    return source.replace(mutant.old, mutant.new)


def break_guard(name: str) -> None:
    """Break a guard in this process. Nothing of the product may be imported yet."""
    mutant = next(one for one in MUTANTS if one.name == name)
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    sys.meta_path.insert(0, _Finder(mutant))


def hunt(mutant: Mutant, seeds_max: int) -> Found:
    """Run seeds against one broken guard, in a process of its own, until one is violated."""
    command = [sys.executable, "-m", "tests.simulate.mutants", "--one", mutant.name]
    command.append(f"--seeds={seeds_max}")
    started_s = time.monotonic()
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seed, _, violation = said.stdout.strip().rpartition("\n")[2].partition("\t")
    if said.returncode not in {0, 1}:
        message = f"{mutant.name}: {said.stderr[-2_000:]}"
        raise RuntimeError(message)
    return Found(
        mutant=mutant,
        seed=int(seed) if said.returncode == 1 else None,
        tried=seeds_max,
        violation=violation,
        seconds=time.monotonic() - started_s,
    )


def run_one(name: str, seeds_max: int) -> int:
    """Give 1 and print the seed when the broken guard was found."""
    break_guard(name)
    from tests.simulate.__main__ import settle_in
    from tests.simulate.plan import plan_of
    from tests.simulate.run import simulate

    settle_in()
    only_utxo = next(one for one in MUTANTS if one.name == name).utxo
    for seed in range(1, seeds_max + 1):
        if only_utxo and not plan_of(seed).utxo:
            continue
        outcome = simulate(seed)
        if outcome.violation is not None:
            print(f"{seed}\t{outcome.violation}")
            return 1
    return 0


def write_table(found: Sequence[Found]) -> None:
    lines = [
        "# Guards broken on purpose",
        "",
        "Written by `python -m tests.simulate.mutants`. The seed is the first one, counted from 1, in",
        "which a promise was seen broken; what was said is what the reference model said there.",
        "",
        "| guard | what is broken | seed | what was said |",
        "| --- | --- | ---: | --- |",
    ]
    for one in found:
        said = one.violation.replace("|", "/").replace("\n", " ")[:160]
        seed = f"not in {one.tried}" if one.seed is None else str(one.seed)
        lines.append(f"| `{one.mutant.name}` | {one.mutant.broken} | {seed} | {said} |")
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Give 0 when every broken guard was found."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--one")
    asked.add_argument("--only", nargs="*", help="names; the table is then not written")
    asked.add_argument("--seeds", type=int, default=SEEDS_MAX)
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = asked.parse_args()
    if given.one:
        return run_one(given.one, given.seeds)
    chosen = [one for one in MUTANTS if not given.only or one.name in given.only]
    found: list[Found] = []
    with ThreadPoolExecutor(given.processes) as pool:
        for one in pool.map(lambda mutant: hunt(mutant, given.seeds), chosen):
            found.append(one)
            where = "NOT FOUND" if one.seed is None else f"seed {one.seed}"
            print(
                f"{one.mutant.name}: {where}, {one.seconds:.0f} s: {one.violation[:200]}",
                flush=True,
            )
    if not given.only:
        write_table(found)
    return 1 if any(one.seed is None for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
