"""A fixed share of seeds on every run of the tests, and that a seed says the same wherever it runs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulate.mutant_table import MUTANTS, Mutant
from tests.simulate.mutants import RESULTS, substituted
from tests.simulate.plan import plan_of
from tests.simulate.run import simulate

#: A process that dies gives no connection back; SQLAlchemy says so when the garbage is collected.
pytestmark = pytest.mark.filterwarnings("ignore:The garbage collector is trying to clean up")

ROOT = Path(__file__).parents[2]
#: As many as fit into half a minute; `make simulate` runs the others.
SEEDS = range(1, 21)
#: Seeds on Bitcoin-like chains, one of them on two.
UTXO_SEEDS = (25, 26, 28, 61)


@pytest.mark.parametrize("seed", [*SEEDS, *UTXO_SEEDS])
def test_every_promise_is_kept_in_seed(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.violation is None, f"make simulate SEEDS={seed}:{seed + 1} ARGS=--tell"
    assert outcome.events > 0


def test_seeds_of_both_families_are_among_them() -> None:
    assert all(plan_of(seed).utxo for seed in UTXO_SEEDS)
    assert {plan_of(seed).utxo for seed in SEEDS} == {False, True}
    assert {plan_of(seed).chains for seed in UTXO_SEEDS} == {1, 2}


def test_seed_tells_the_same_in_another_process_whatever_ran_before_it() -> None:
    here = [simulate(seed).digest for seed in (22, 21)]
    command = [sys.executable, "-m", "tests.simulate", "21:23", "--processes=1", "--digests"]
    said = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    there = re.findall(r"seed \d+: ([0-9a-f]{64})", said)
    assert there == here[::-1]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_guard_can_still_be_broken_as_the_table_says(mutant: Mutant) -> None:
    ast.parse(substituted(mutant))


def test_every_guard_was_hunted_and_at_least_twenty_were_found() -> None:
    """The hunt takes an hour and is no test; its table says what it found last."""
    rows = [line.split("|") for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    told = {row[1].strip().strip("`"): row[3].strip() for row in rows if len(row) > 4}
    assert {mutant.name for mutant in MUTANTS} <= told.keys()
    assert sum(told[mutant.name].isdecimal() for mutant in MUTANTS) >= 20
