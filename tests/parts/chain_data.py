"""Real chain data, by path; tests that need it are skipped with the reason where it is absent."""

import json
import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("RECONCILER_CHAIN_DATA", "../shared/data"))
if not ROOT.is_absolute():
    ROOT = (Path(__file__).parents[2] / ROOT).resolve()


def chain_file(name: str) -> Path:
    """Give a file of the real data, or skip the test."""
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"no real chain data at {path}; set RECONCILER_CHAIN_DATA")
    return path


def facts_of(chain: str, file: str) -> dict:
    """Read the facts that SOURCES.md states about a file."""
    text = chain_file(f"{chain}/SOURCES.md").read_text()
    part = text.split(f"## {file}\n")[1].split("\n## ")[0]
    return json.loads(part.split("```json\n")[1].split("```")[0])
