"""A story that ends wrong is named, and the demo's exit code says so."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from reconciler.demo.performance import perform
from reconciler.demo.stories import STORIES, Story

EXACT = STORIES[0]
ON_LITECOIN = next(story for story in STORIES if story.on_litecoin)


def story_that_expects(**changes: object) -> Story:
    return replace(EXACT, endings=(replace(EXACT.endings[0], **changes),))


async def perform_one(*stories: Story, folder: Path, **more: float) -> tuple[int, str]:
    output = io.StringIO()
    console = Console(file=output, soft_wrap=True, highlight=False)
    code = await perform(console, folder, once=True, stories=stories, **more)
    return code, output.getvalue()


async def test_a_story_that_ends_otherwise_is_named_and_the_exit_code_is_1(tmp_path: Path):
    code, said = await perform_one(story_that_expects(counted="24.00"), folder=tmp_path)
    assert code == 1
    assert "1  Paid exactly  ENDED WRONG" in said
    assert "story 1, Paid exactly: exact: expected 24000000 base units to count" in said
    assert "Not all stories ended right" in said


async def test_a_story_that_does_not_end_is_named_as_well(tmp_path: Path):
    never = story_that_expects(kinds=("awaiting", "late"))
    code, said = await perform_one(never, folder=tmp_path, patience_s=1.0)
    assert code == 1
    assert "story 1, Paid exactly: did not end within 1 s" in said


async def test_a_right_story_ends_with_0(tmp_path: Path):
    code, said = await perform_one(EXACT, folder=tmp_path)
    assert code == 0, said
    assert "25.00 DUSD came" in said


async def test_a_litecoind_that_does_not_answer_costs_its_stories_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    broken = tmp_path / "litecoind"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, said = await perform_one(EXACT, ON_LITECOIN, folder=tmp_path)
    assert code == 0, said
    assert "1  Paid exactly  ended right" in said
    assert ON_LITECOIN.title not in said
    assert "there is none: litecoind: it ended before it answered." in " ".join(said.split())


async def test_what_is_always_said_fits_a_terminal_of_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    _, said = await perform_one(EXACT, ON_LITECOIN, folder=tmp_path)
    welcome, _, played = said.partition("\n\n")
    _, _, end = played.partition(" stories ended right")
    assert "apt-get install litecoind" in end
    assert "How to go on" in end
    assert max(len(line) for line in (*welcome.splitlines(), *end.splitlines()[1:])) < 80
