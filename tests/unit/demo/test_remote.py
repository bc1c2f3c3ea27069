"""Where a running demo leaves its address, and who may read it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from reconciler.demo.control import _forget, _write_private, only_one
from reconciler.demo.remote import NoDemo, Wish, ask_demo, state_file
from reconciler.kernel.refusals import Refusal


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return state_file()


def test_only_this_user_reads_the_address(state: Path):
    _write_private(state, "http://127.0.0.1:1/first")
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.parent.stat().st_mode) == 0o700


def test_an_older_demo_does_not_take_a_younger_one_away(state: Path):
    _write_private(state, "http://127.0.0.1:1/first")
    _write_private(state, "http://127.0.0.1:1/second")
    _forget(state, "first")
    assert state.read_text().strip().endswith("second")
    _forget(state, "second")
    assert not state.exists()


async def test_a_demo_that_is_gone_is_told_from_one_that_never_ran(state: Path):
    with pytest.raises(NoDemo, match="no demo is running"):
        await ask_demo("orders", Wish())
    _write_private(state, "http://127.0.0.1:1/killed")
    with pytest.raises(NoDemo, match="no longer answers"):
        await ask_demo("orders", Wish())


def test_a_second_demo_is_refused_and_the_first_one_keeps_its_address(state: Path):
    with only_one():
        _write_private(state, "http://127.0.0.1:1/first")
        with pytest.raises(Refusal, match=r"a demo is running already.*--once"), only_one():
            pass
        assert state.read_text().strip().endswith("first")
    with only_one():
        """The first has ended, however."""
