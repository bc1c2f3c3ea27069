"""A story that ends wrong is named, and the demo's exit code says so."""

from __future__ import annotations

import io
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from reconciler.demo.performance import perform
from reconciler.demo.stories import STORIES, Story

EXACT = STORIES[0]


def story_that_expects(**changes: object) -> Story:
    return replace(EXACT, endings=(replace(EXACT.endings[0], **changes),))


async def perform_one(story: Story, folder: Path, **more: float) -> tuple[int, str]:
    output = io.StringIO()
    console = Console(file=output, soft_wrap=True, highlight=False)
    code = await perform(console, folder, once=True, stories=(story,), **more)
    return code, output.getvalue()


async def test_a_story_that_ends_otherwise_is_named_and_the_exit_code_is_1(tmp_path: Path):
    code, said = await perform_one(story_that_expects(counted="24.00"), tmp_path)
    assert code == 1
    assert "1  Paid exactly  ENDED WRONG" in said
    assert "story 1, Paid exactly: exact: expected 24000000 base units to count" in said
    assert "Not all stories ended right" in said


async def test_a_story_that_does_not_end_is_named_as_well(tmp_path: Path):
    never = story_that_expects(kinds=("awaiting", "late"))
    code, said = await perform_one(never, tmp_path, patience_s=1.0)
    assert code == 1
    assert "story 1, Paid exactly: did not end within 1 s" in said


async def test_a_right_story_ends_with_0(tmp_path: Path):
    code, said = await perform_one(EXACT, tmp_path)
    assert code == 0, said
    assert "25.00 DUSD came" in said


async def test_what_is_always_said_fits_a_terminal_of_80_columns(tmp_path: Path):
    _, said = await perform_one(EXACT, tmp_path)
    welcome, _, played = said.partition("\n\n")
    _, _, end = played.partition(" stories ended right")
    assert "How to go on" in end
    assert max(len(line) for line in (*welcome.splitlines(), *end.splitlines()[1:])) < 80
