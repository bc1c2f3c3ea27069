"""Bars are shown to a person at a terminal, and to nobody else."""

import asyncio
import contextlib

import pytest

from chains.port import FollowStatus
from reconciler.commands.progress import BEHIND_BLOCKS, catching_up, progress
from reconciler.kernel import ManualClock
from tests.parts.scripted_loop import CHAIN, NOON


@pytest.fixture
def terminal(monkeypatch):
    """Standard error looks like a terminal of one width."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


def status(*, behind=0, watched=3, open_scans=0):
    return FollowStatus(
        head_height=1_000,
        covered_height=1_000 - behind,
        covered_time=NOON,
        finalized_height=900,
        watched=watched,
        back_scans_open=open_scans,
        look_ups_open=0,
        retracted_total=0,
        failures_in_a_row=0,
        held=None,
    )


def test_a_bar_says_what_and_how_far(terminal, capsys):
    with progress("orders", 20) as advance:
        advance(15)
    said = capsys.readouterr()
    assert "orders" in said.err
    assert "15/20" in said.err
    assert said.out == ""


def test_no_bar_where_nobody_looks_or_where_the_rows_themselves_are_shown(
    terminal, capsys, monkeypatch
):
    with progress("orders", 20, shown=False) as advance:
        advance(15)
    monkeypatch.delenv("FORCE_COLOR")
    with progress("orders", 20) as advance:
        advance(15)
    assert capsys.readouterr().err == ""


async def shown(capsys, found):
    """What a watcher's bars say after two looks at its status."""
    clock = ManualClock(NOON)
    task = asyncio.create_task(catching_up({CHAIN: lambda: found}, clock))
    while not clock.sleepers:
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return capsys.readouterr().err


async def test_a_watcher_that_is_behind_shows_its_blocks(terminal, capsys):
    said = await shown(capsys, status(behind=BEHIND_BLOCKS + 1))
    assert f"{CHAIN} blocks" in said
    assert "979/1000" in said
    assert "addresses" not in said


async def test_a_back_scan_shows_how_many_addresses_are_searched(terminal, capsys):
    said = await shown(capsys, status(watched=10, open_scans=4))
    assert f"{CHAIN} addresses" in said
    assert "6/10" in said
    assert "blocks" not in said


async def test_a_watcher_at_the_tip_shows_nothing(terminal, capsys):
    assert CHAIN not in await shown(capsys, status(behind=BEHIND_BLOCKS))


async def test_a_watcher_without_a_terminal_has_no_bars(capsys):
    await catching_up({CHAIN: status}, ManualClock(NOON))
    assert capsys.readouterr().err == ""
