"""What the real nodes of Bitcoin-like chains have in common: one process, one folder, JSON-RPC.

Talks through the standard library, so that nothing under test takes part in it. A node mines nothing by
itself and knows no other node: blocks are handed to it (`tests.parts.utxo_script`).
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from chains.utxo.networks import Network
from tests.parts.ports import HOST, free_ports

START_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 30.0
USER, PASSWORD = "reconciler", "made-up"

#: What `submitblock` answers when a block was taken: nothing, or that it stands on a branch that has not
#: more work than the best one.
TAKEN = {None, "inconclusive"}


class NodeRefused(Exception):
    """The node answered with an error, or took no block."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"{method}: {message} ({code})")
        self.code, self.message = code, message


class UtxoNode:
    """One node in regtest. What it keeps on disk stays there until `close`."""

    network: Network

    def __init__(self, binary: Path) -> None:
        (self.port,) = free_ports(1)
        self._binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix=f"reconciler-{binary.name}-"))
        self._process: subprocess.Popen[bytes] | None = None

    def options(self) -> list[str]:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://{USER}:{PASSWORD}@{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        command = [str(self._binary), *self.options()]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, **quiet)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                message = f"{self._binary.name} did not answer on port {self.port}"
                raise RuntimeError(message)
            time.sleep(0.02)

    def stop(self) -> None:
        """End as an operator would; `start` begins again with the same folder and port.

        litecoind waits half a minute for whoever keeps a connection open.
        """
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def freeze(self) -> None:
        """The port accepts and nothing answers, until `thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ask(self, method: str, *params: Any) -> Any:
        return self.ask_all([(method, params)])[0]

    def ask_all(self, asked: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Ask many things in one batch."""
        batch = [
            {"jsonrpc": "1.0", "id": n, "method": method, "params": list(params)}
            for n, (method, params) in enumerate(asked)
        ]
        answers = self._post(batch if len(batch) != 1 else batch[0])
        found = answers if isinstance(answers, list) else [answers]
        for answer in found:
            if answer["error"] is not None:
                error, method = answer["error"], asked[answer["id"]][0]
                raise NodeRefused(method, error["code"], error["message"])
        return [one["result"] for one in sorted(found, key=lambda one: one["id"])]

    def submit(self, *blocks: bytes) -> None:
        """Hand blocks over, parents first."""
        answers = self.ask_all([("submitblock", [block.hex()]) for block in blocks])
        for answer in answers:
            if answer not in TAKEN:
                raise NodeRefused("submitblock", 0, answer)

    @property
    def height(self) -> int:
        return self.ask("getblockcount")

    @property
    def waiting(self) -> list[str]:
        """Name what stands in the mempool."""
        return self.ask("getrawmempool")

    def raw_block(self, block_hash: str) -> bytes:
        return bytes.fromhex(self.ask("getblock", block_hash, 0))

    def _is_ready(self) -> bool:
        try:
            self.ask("getblockhash", 0)
        except (OSError, NodeRefused):
            return False
        return True

    def _post(self, body: Any) -> Any:
        secret = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        headers = {"Content-Type": "application/json", "Authorization": f"Basic {secret}"}
        request = Request(f"http://{HOST}:{self.port}/", json.dumps(body).encode(), headers)
        try:
            with urlopen(request, timeout=CALL_TIMEOUT_S) as response:
                return json.load(response)
        except HTTPError as refused:
            # Errors of the method itself come with status 500 or 404 and are told in the body.
            told = refused.read()
            if not told.startswith(b"{"):
                raise
            return json.loads(told)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
            self._process.wait()
            self._process = None
