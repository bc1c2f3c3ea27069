"""A real anvil on a free port, mining only when it is told to, with contracts for every payment.

Talks plain JSON-RPC through the standard library, so that nothing under test takes part in it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from eth_abi.abi import encode
from eth_hash.auto import keccak

from tests.parts.need import missing
from tests.parts.ports import HOST, answers, free_ports

PARTS = Path(__file__).parents[3] / ".parts" / "anvil"
START_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 30.0
NO_TOKEN = "0x" + "00" * 20


class AnvilRefused(Exception):
    """The node answered with an error."""


def find_binary() -> Path | None:
    """Give the one binary that npm chose for this machine."""
    found = sorted(PARTS.glob("node_modules/@foundry-rs/anvil-*/bin/anvil"))
    return found[0] if found and (PARTS / "contracts.json").is_file() else None


class AnvilNode:
    """One node, one chain. `finality_lag` blocks behind the head is final; it must be even."""

    def __init__(
        self, chain_id: int = 31_337, *, finality_lag: int = 64, block_time_s: int | None = None
    ) -> None:
        binary = find_binary()
        if binary is None:
            missing("anvil", "run `make parts` (it needs nodejs and npm: `make system`)")
        self._binary = binary
        self.chain_id = chain_id
        (self.port,) = free_ports(1)
        slots = ["--slots-in-an-epoch", str(finality_lag // 2)]
        mining = ["--no-mining"] if block_time_s is None else ["--block-time", str(block_time_s)]
        self._options = [*slots, *mining]
        self._codes: dict[str, str] = json.loads((PARTS / "contracts.json").read_text())
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def socket_url(self) -> str:
        return f"ws://{HOST}:{self.port}"

    def start(self) -> None:
        command = [str(self._binary), "--host", HOST, "--port", str(self.port), "--silent"]
        command += ["--chain-id", str(self.chain_id), *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                message = f"anvil did not answer on port {self.port}"
                raise RuntimeError(message)
            time.sleep(0.02)
        self.accounts: list[str] = self.ask("eth_accounts")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def freeze(self) -> None:
        """The port accepts and nothing answers, until `thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ask(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        request = Request(self.url, body.encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=CALL_TIMEOUT_S) as response:
            answer = json.load(response)
        if "error" in answer:
            raise AnvilRefused(method, answer["error"])
        return answer["result"]

    @property
    def height(self) -> int:
        return int(self.ask("eth_blockNumber"), 16)

    def mine(self, blocks: int = 1) -> None:
        self.ask("anvil_mine", hex(blocks))

    def reorganise(self, depth: int, again: Sequence[tuple[str, int]] = ()) -> None:
        """Replace the last blocks by as many; `again` are raw transactions and their new blocks."""
        self.ask("anvil_reorg", depth, [list(pair) for pair in again])

    def rewind(self, depth: int) -> None:
        self.ask("anvil_rollback", depth)

    def raw_transaction(self, tx: str) -> str:
        return self.ask("debug_getRawTransaction", tx)

    def send(self, **transaction: Any) -> str:
        """Send from the first account, unless `sender` says otherwise; gives the hash."""
        sent = {"from": transaction.pop("sender", self.accounts[0]), "gas": hex(3_000_000)}
        numbers = {
            key: hex(one) if isinstance(one, int) else one for key, one in transaction.items()
        }
        return self.ask("eth_sendTransaction", sent | numbers)

    def deploy(self, name: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> str:
        """Deploy a contract of contracts.sol in a block of its own; gives its address."""
        code = self._codes[name] + encode(types, values).hex()
        tx = self.send(data=code)
        self.mine()
        receipt = self.ask("eth_getTransactionReceipt", tx)
        assert receipt["status"] == "0x1"
        return receipt["contractAddress"]

    def call(self, contract: str, signature: str, values: Sequence[Any], **transaction: Any) -> str:
        """Send a call such as `mint(address,uint256)`."""
        types = [one for one in signature.partition("(")[2].rstrip(")").split(",") if one]
        data = keccak(signature.encode())[:4] + encode(types, values)
        return self.send(to=contract, data="0x" + data.hex(), **transaction)
