"""A real PostgreSQL server: one for a test run, one database for a test.

It refuses to run as root, so root hands it to an unprivileged user. `fsync` is off, for speed, but
for benchmarks; all else is as it is.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.parts.need import missing
from tests.parts.ports import HOST, free_ports

OWNER = "reconciler"
MAJOR_MIN = 15
START_TIMEOUT_S = 30.0


def find_binaries() -> Path | None:
    """Debian keeps them out of PATH, by version; the newest counts."""
    found = sorted(
        (int(path.parent.parent.name), path.parent)
        for path in Path("/usr/lib/postgresql").glob("[0-9]*/bin/postgres")
    )
    if found and found[-1][0] >= MAJOR_MIN:
        return found[-1][1]
    on_path = shutil.which("postgres")
    return Path(on_path).parent if on_path else None


def unprivileged_user() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class PostgresServer:
    """Start it, ask for databases, stop it."""

    def __init__(self, *, fsync: bool = False) -> None:
        binaries = find_binaries()
        if binaries is None:
            missing(f"PostgreSQL {MAJOR_MIN}", "install the package postgresql (`make system`)")
        self._binaries = binaries
        self._fsync = "on" if fsync else "off"
        self._user = unprivileged_user()
        self._folder = Path(tempfile.mkdtemp(prefix="reconciler-postgres-"))
        self._names = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)

    def start(self) -> None:
        try:
            if self._user is not None:
                shutil.chown(self._folder, self._user)
            self._run(
                "initdb",
                "-D",
                self._data,
                "-U",
                OWNER,
                "-N",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-instructions",
            )
            self._process = self._spawn()
            self._wait_until_answering()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._process is not None:
            # Immediate: nothing of it is needed afterwards.
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """As `kill -9` of the postmaster; its children see that and leave."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        self._process = self._spawn()
        self._wait_until_answering()

    def new_database(self) -> str:
        """An empty database; gives its URL for SQLAlchemy."""
        name = f"test_{next(self._names)}"
        self._run("createdb", "-h", HOST, "-p", self.port, "-U", OWNER, name)
        return self.url(name)

    def drop_database(self, url: str) -> None:
        name = url.rsplit("/", 1)[1]
        self._run("dropdb", "-h", HOST, "-p", self.port, "-U", OWNER, "-f", name)

    def url(self, database: str) -> str:
        return f"postgresql+asyncpg://{OWNER}@{HOST}:{self.port}/{database}"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": self._folder,
            "fsync": self._fsync,
            "max_connections": 200,
            "shared_buffers": "64MB",
            "log_min_messages": "warning",
        }
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._binaries / "postgres"), "-D", str(self._data), *flags]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, **self._as_user()
            )

    def _wait_until_answering(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        probe = [self._binaries / "pg_isready", "-q", "-h", HOST, "-p", str(self.port)]
        while subprocess.run(probe, check=False).returncode != 0:
            stopped = self._process is None or self._process.poll() is not None
            if stopped or time.monotonic() > deadline:
                message = f"PostgreSQL did not start:\n{self._log.read_text()}"
                raise RuntimeError(message)
            time.sleep(0.05)

    def _run(self, program: str, *arguments: str | int | Path) -> None:
        command = [str(self._binaries / program), *map(str, arguments)]
        ran = subprocess.run(
            command, check=False, capture_output=True, cwd=self._folder, **self._as_user()
        )
        if ran.returncode != 0:
            message = f"{program} failed: {ran.stderr.decode()}"
            raise RuntimeError(message)

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        entry = pwd.getpwnam(self._user)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
