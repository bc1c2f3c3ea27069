"""The demo as its visitors run it: in a process of its own, and moved from another one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.demo.litecoin_chain import find_litecoind
from reconciler.demo.stories import STORIES, Story
from tests.parts.anvil.node import find_binary
from tests.parts.need import missing

ROOT = Path(__file__).parents[2]
COMMAND = [str(Path(sys.executable).with_name("reconciler")), "demo"]
WAIT_S = 200

pytestmark = pytest.mark.scenario


TEN = [story for story in STORIES if not story.on_litecoin]


def environment(folder: Path, *, litecoind: bool = False) -> dict[str, str]:
    """Without litecoind there is nothing on the PATH at all: the ten stories need nothing of it."""
    return os.environ | {
        "PATH": os.environ["PATH"] if litecoind else str(folder / "nothing"),
        "XDG_STATE_HOME": str(folder / "state"),
        "TMPDIR": str(folder),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "140",
    }


def run(folder: Path, *arguments: str, litecoind: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=environment(folder, litecoind=litecoind),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def require_litecoind() -> None:
    if find_litecoind() is None:
        missing("litecoind", "install the package litecoind (`make system`)")


def check_endings(output: str, stories: Sequence[Story]) -> None:
    """Every story is told once, with its events and its sentence, and with no amount left open."""
    assert len(re.findall(r"  ended right$", output, re.MULTILINE)) == len(stories)
    for story in stories:
        title = rf"^ {story.number:>2}  {re.escape(story.title)}  ended right$"
        events = "".join(
            rf"\n     {re.escape(ending.order)}: awaiting → .+" for ending in story.endings
        )
        words = [re.escape(part) for part in re.split(r"\{\w+\}", story.sentence)]
        sentence = r"[0-9.]+ (?:DUSD|AST|tLTC)".join(words)
        assert len(re.findall(rf"{title}{events}\n     {sentence}$", output, re.MULTILINE)) == 1, (
            story.title
        )


def processes_of(folder: Path) -> list[str]:
    """Name the processes that were started with a path in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").replace("\0", " ")
            if str(folder) in words:
                found.append(words)
    return found


def test_without_litecoind_ten_stories_end_right_and_it_is_said_how_to_see_two_more(
    tmp_path: Path,
):
    done = run(tmp_path, "--once")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    check_endings(done.stdout, TEN)
    assert "A shop, eleven orders and two chains of the demo's own;" in done.stdout
    assert "All ten stories ended right" in done.stdout
    said = " ".join(done.stdout.split())
    assert (
        "Two more stories are told where litecoind is: apt-get install litecoind on Debian" in said
    )
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.litecoind
def test_with_litecoind_two_more_stories_end_right_and_no_node_is_left(tmp_path: Path):
    require_litecoind()
    done = run(tmp_path, "--once", litecoind=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    check_endings(done.stdout, STORIES)
    assert re.search(r"litecoin +#2 seen: 0\.25 tLTC, in no block yet$", done.stdout, re.MULTILINE)
    assert re.search(r"replaced +#3 what was seen is gone$", done.stdout, re.MULTILINE)
    assert "All twelve stories ended right" in done.stdout
    assert "Two more stories" not in done.stdout
    assert processes_of(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.anvil
def test_the_same_stories_on_anvil(tmp_path: Path):
    if find_binary() is None:
        missing("anvil", "run `make parts` (it needs nodejs and npm: `make system`)")
    done = run(tmp_path, "--once", "--chain", "anvil")
    assert done.returncode == 0, done.stdout + done.stderr
    check_endings(done.stdout, TEN)


class RunningDemo:
    """A demo that goes on after its stories, and what it has said so far."""

    def __init__(self, folder: Path, *, litecoind: bool) -> None:
        self.folder = folder
        variables = environment(folder, litecoind=litecoind)
        self.output_path = folder / "output"
        with self.output_path.open("w") as output:
            self.process = subprocess.Popen(
                COMMAND, cwd=ROOT, env=variables, stdout=output, stderr=output
            )

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not re.search(pattern, self.output_path.read_text(), re.MULTILINE):
            assert self.process.poll() is None, self.output_path.read_text()
            assert time.monotonic() < deadline, self.output_path.read_text()
            time.sleep(0.1)

    def say(self, *arguments: str) -> str:
        done = run(self.folder, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def running(folder: Path, *, litecoind: bool = False) -> Iterator[RunningDemo]:
    demo = RunningDemo(folder, litecoind=litecoind)
    try:
        yield demo
    finally:
        demo.process.kill()
        demo.process.wait()


def test_another_terminal_moves_a_running_demo(tmp_path: Path):
    with running(tmp_path) as demo:
        demo.wait_for(r"yours-1 +#1 placed: 40\.00 DUSD")
        assert "sent 40.00 DUSD to yours-1 on Aster" in demo.say("pay", "yours-1", "40")
        demo.wait_for(r"yours-1 +#3 confirmed: 40\.00 DUSD of 40\.00 DUSD")
        demo.say("claim", "yours-2")
        demo.wait_for(r"yours-2 +#2 the customer pressed")
        listed = demo.say("orders")
        assert re.search(
            r"^yours-1 +confirmed +40\.00 of 40\.00 DUSD +Aster$", listed, re.MULTILINE
        )
        assert re.search(r"^yours-2 +says paid", listed, re.MULTILINE)

        demo.say(
            "pay",
            "yours-3",
            "15",
        )
        demo.wait_for(r"yours-3 +#2 seen: 15\.00 DUSD")
        assert "payments in them are gone" in demo.say("reorganise", "20", "--network", "birch")
        demo.wait_for(r"Birch replaced its last 20 blocks")
        demo.wait_for(r"yours-3 +#\d+ (reversed|what was seen is gone)")

        refused = run(tmp_path, "pay", "nobody", "1")
        assert refused.returncode == 2
        assert "there is no order 'nobody'; there are exact, two-parts" in refused.stderr
        assert "found 'ten'" in run(tmp_path, "pay", "yours-2", "ten").stderr

        nothing = run(tmp_path, "pay", "yours-2", "0.00")
        assert nothing.returncode == 2
        assert "expected an amount above zero, found '0.00'" in nothing.stderr
        assert '"paid!" is no transaction id: it is dropped' in demo.say(
            "claim", "yours-2", "paid!"
        )

        second = run(tmp_path)
        assert second.returncode == 2
        assert "a demo is running already" in second.stderr
        assert re.search(r"^yours-1 +confirmed", demo.say("orders"), re.MULTILINE)

        demo.process.send_signal(signal.SIGTERM)
        assert demo.process.wait(WAIT_S) == 0
    assert [path.name for path in (tmp_path / "state").rglob("*") if path.is_file()] == []


@pytest.mark.litecoind
def test_another_terminal_pays_on_litecoin_and_a_killed_demo_leaves_no_node(tmp_path: Path):
    require_litecoind()
    with running(tmp_path, litecoind=True) as demo:
        demo.wait_for(r"yours-4 +#1 placed: 0\.50 tLTC on Litecoin")
        assert "sent 0.50 tLTC to yours-4 on Litecoin" in demo.say("pay", "yours-4", "0.5")
        demo.wait_for(r"yours-4 +#3 confirmed: 0\.50 tLTC of 0\.50 tLTC")
        assert "kept their places" in demo.say("reorganise", "8", "--network", "litecoin", "--keep")
        assert "are gone" in demo.say("reorganise", "40", "--network", "litecoin")
        demo.wait_for(r"yours-4 +#\d+ reversed")
        refused = run(tmp_path, "reorganise", "101", "--network", "litecoin")
        assert "expected a depth of 1 to 100, found 101" in refused.stderr
        assert re.search(r"^yours-4 +reversed .* Litecoin", demo.say("orders"), re.MULTILINE)

        assert processes_of(tmp_path)
        demo.process.kill()
        deadline = time.monotonic() + WAIT_S
        while processes_of(tmp_path):
            assert time.monotonic() < deadline, processes_of(tmp_path)
            time.sleep(0.1)


def test_without_a_demo_the_other_terminal_says_how_to_start_one(tmp_path: Path):
    refused = run(tmp_path, "pay", "yours-1", "40")
    assert refused.returncode == 2
    assert "no demo is running here; start one with `make demo`" in refused.stderr
