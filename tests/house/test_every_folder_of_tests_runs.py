"""A folder of tests that nobody runs is worth nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NO_TESTS = {"bench", "parts", "__pycache__"}


def test_every_folder_of_tests_is_run() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(settings["tool"]["pytest"]["ini_options"]["testpaths"])
    there = {
        f"tests/{entry.name}"
        for entry in (ROOT / "tests").iterdir()
        if entry.is_dir() and entry.name not in NO_TESTS
    }
    assert there == listed
