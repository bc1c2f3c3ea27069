"""Real processes of the real command line, which a test may kill, freeze and start again."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

COMMAND = Path(sys.executable).with_name("reconciler")
ROOT = Path(__file__).parents[2]
STOP_TIMEOUT_S = 30.0
#: What processes say when they have done something.
WORK = (b"step published", b"applied", b"sent")
#: What a log is quoted with when a test fails.
TAIL_LINES = 15


class ProductProcess:
    """One `reconciler …`, under a name of its own; its words go to `<folder>/<name>.log`."""

    def __init__(self, name: str, *arguments: str, config: Path, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.kills = 0
        self._silent_until = 0
        self._arguments = [*arguments, "--config", str(config), "--port", "0"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, meets: tuple[str, str] | None = None) -> None:
        """Start it; `meets` is a point of `tests.parts.dying`, and the signal that waits there."""
        assert self._process is None, f"{self.name} runs already"
        self._silent_until = self.log.stat().st_size if self.log.exists() else 0
        command = [str(COMMAND), *self._arguments]
        if meets is not None:
            command = [sys.executable, "-m", "tests.parts.dying", *meets, *self._arguments]
        if shutil.which("setpriv"):
            # A process must not outlive a test run that was killed.
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    @property
    def code(self) -> int | None:
        """The exit code of a process that ended by itself; None while it runs."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.poll()

    @property
    def is_down(self) -> bool:
        return self._process is None

    def is_at_work(self) -> bool:
        """Tell whether it has said, since it was started, that it did something."""
        with self.log.open("rb") as log:
            log.seek(self._silent_until)
            said = log.read()
        return any(b'"event":"' + word + b'"' in said for word in WORK)

    def kill(self) -> None:
        """As `kill -9`."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None
        self.kills += 1

    @property
    def is_frozen(self) -> bool:
        """Tell whether it stands still, by whosever signal."""
        assert self._process is not None
        state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> int:
        """Ask it to stop, as an administrator would; gives its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait until it has ended by itself; gives its exit code."""
        deadline = time.monotonic() + timeout_s
        while (code := self.code) is None:
            assert time.monotonic() < deadline, f"{self.name} did not end; {self.tail()}"
            await asyncio.sleep(0.05)
        self._process = None
        return code

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"{self.log} ends with:", *lines])


async def run_command(
    *arguments: str, config: Path, timeout_s: float = 120.0
) -> tuple[int, bytes, bytes]:
    """Run a command to its end; gives its exit code, and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        str(COMMAND),
        *arguments,
        "--config",
        str(config),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(timeout_s):
        written, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, written, said
