"""The demo on two anvil nodes, where anvil is there: the same stories on a real EVM.

Starts the nodes, ends them, and pays from their ready-made accounts. Reads anvil from the PATH or from
`.parts`, where `make parts` puts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from chains.registry import parse_address
from reconciler.demo.chain_time import ChainTime
from reconciler.demo.devnet_stage import make_stage
from reconciler.demo.nodes import HOST, free_ports, running
from reconciler.demo.stage import (
    ASTER_ID,
    BIRCH_ID,
    DECIMALS_ASTER,
    DECIMALS_BIRCH,
    FINALITY_LAG,
    Money,
    Stage,
    StageError,
    Tip,
    chain_name,
)
from reconciler.demo.token_code import CREATION_CODE
from reconciler.kernel.refusals import Refusal

#: Each payment comes from an account of its own; after so many they come round again.
ACCOUNTS: Final = 60
START_TIMEOUT_S: Final = 60.0
ANSWER_TIMEOUT_S: Final = 60.0
GAS: Final = 3_000_000
#: The selectors of `transfer(address,uint256)` and `mint(address,uint256)`.
TRANSFER: Final = "0xa9059cbb"
MINT: Final = "0x40c10f19"
#: Every account has this much of each dollar, in whole dollars.
FLOAT: Final = 1_000_000


class NoAnvil(Refusal):
    """There is no anvil on this machine."""


def find_anvil() -> str:
    """Give the path of anvil. **Raises**: `NoAnvil`, saying how to get it."""
    on_path = shutil.which("anvil")
    if on_path is not None:
        return on_path
    parts = Path(".parts/anvil/node_modules/@foundry-rs")
    found = sorted(parts.glob("anvil-*/bin/anvil"))
    if not found:
        message = "anvil: found neither on the PATH nor in .parts; `make parts` fetches it"
        raise NoAnvil(message)
    return str(found[0])


class AnvilStageChain:
    """One anvil node that mines when it is told to."""

    def __init__(
        self, session: aiohttp.ClientSession, port: int, chain_id: int, label: str
    ) -> None:
        self.name = chain_name(chain_id)
        self.label = label
        self.first_height = 0
        self.url = f"http://{HOST}:{port}"
        self._session = session
        self._questions = itertools.count(1)
        self._payers = itertools.count(1)
        self._accounts: list[str] = []

    async def start(self) -> None:
        """Wait until the node answers. **Raises**: `NoAnvil`."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not self._accounts:
                    with contextlib.suppress(aiohttp.ClientConnectionError):
                        self._accounts = await self.ask("eth_accounts")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            message = f"anvil: no answer at {self.url} within {START_TIMEOUT_S:.0f} s"
            raise NoAnvil(message) from None

    async def deploy_dollar(self, decimals: int, *, time_s: int) -> str:
        """Deploy a dollar and give some to every account; takes two blocks."""
        data = f"0x{CREATION_CODE}{decimals:064x}"
        tx = await self._send(self._accounts[0], data=data)
        await self.mine(time_s)
        receipt = await self.ask("eth_getTransactionReceipt", tx)
        contract = parse_address(self.name, receipt["contractAddress"]).display
        for account in self._accounts:
            call = _call(MINT, account, FLOAT * 10**decimals)
            await self._send(self._accounts[0], to=contract, data=call)
        await self.mine(time_s + 1)
        return contract

    async def pay(self, money: Money, to: str, amount: int) -> str:
        """Send from the next account."""
        sender = self._accounts[next(self._payers) % len(self._accounts)]
        if money.contract is None:
            return await self._send(sender, to=to, value=hex(amount))
        return await self._send(sender, to=money.contract, data=_call(TRANSFER, to, amount))

    async def mine(self, time_s: int) -> None:
        """Make one block of what waits. Here block times always rise."""
        parent = await self.tip()
        await self.ask("evm_setNextBlockTimestamp", max(time_s, parent.time_s + 1))
        await self.ask("evm_mine")

    async def tip(self) -> Tip:
        """Give the newest block."""
        block = await self._block("latest")
        return Tip(int(block["number"], 16), int(block["timestamp"], 16))

    async def waits(self) -> bool:
        """Tell whether a transaction waits for a block."""
        status = await self.ask("txpool_status")
        return int(status["pending"], 16) > 0

    async def depth_of(self, tx: str) -> int:
        """Give how many blocks would have to go for a transaction to go."""
        receipt = await self.ask("eth_getTransactionReceipt", tx)
        if receipt is None:
            return 0
        return (await self.tip()).height - int(receipt["blockNumber"], 16) + 1

    async def reorganise(self, depth: int, *, away: Sequence[str] | None = None) -> None:
        """Replace the last blocks; what stays is mined again in its own place."""
        height = (await self.tip()).height
        if not 1 <= depth <= min(height - 1, FINALITY_LAG):
            message = f"expected a depth of 1 to {min(height - 1, FINALITY_LAG)}, found {depth}"
            raise StageError(message)
        again: list[list[object]] = []
        if away is not None:
            for offset in range(depth):
                block = await self._block(hex(height - depth + 1 + offset))
                stay = [tx for tx in block["transactions"] if tx not in away]
                again += [[await self.ask("debug_getRawTransaction", tx), offset] for tx in stay]
        await self.ask("anvil_reorg", depth, again)

    async def _block(self, which: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.ask("eth_getBlockByNumber", which, False)  # noqa: FBT003
        return found

    async def _send(self, sender: str, **fields: str) -> str:
        sent: str = await self.ask(
            "eth_sendTransaction", {"from": sender, "gas": hex(GAS)} | fields
        )
        return sent

    async def ask(self, method: str, *params: object) -> Any:
        """Ask the node. **Raises**: `StageError` with its words."""
        question = {
            "jsonrpc": "2.0",
            "id": next(self._questions),
            "method": method,
            "params": params,
        }
        async with self._session.post(self.url, json=question) as response:
            answer = await response.json()
        if "error" in answer:
            message = f"anvil, {method}: {answer['error'].get('message')}"
            raise StageError(message)
        return answer["result"]


@asynccontextmanager
async def anvil_stage(time: ChainTime, *, genesis_s: int) -> AsyncIterator[Stage]:
    """Start two nodes with the demo's tokens on them. **Raises**: `NoAnvil`."""
    binary = find_anvil()
    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        ports = free_ports(2)
        nodes = []
        for port, (chain_id, label) in zip(
            ports, ((ASTER_ID, "Aster"), (BIRCH_ID, "Birch")), strict=True
        ):
            await stack.enter_async_context(running(_command(binary, port, chain_id, genesis_s)))
            nodes.append(AnvilStageChain(session, port, chain_id, label))
        aster, birch = nodes
        await asyncio.gather(aster.start(), birch.start())
        first_s = genesis_s + 1
        yield make_stage(
            aster,
            birch,
            dollar=await aster.deploy_dollar(DECIMALS_ASTER, time_s=first_s),
            look_alike=await aster.deploy_dollar(DECIMALS_ASTER, time_s=first_s + 2),
            birch_dollar=await birch.deploy_dollar(DECIMALS_BIRCH, time_s=first_s),
            time=time,
        )


def _command(binary: str, port: int, chain_id: int, genesis_s: int) -> Sequence[str]:
    return (
        *(binary, "--host", HOST, "--port", str(port), "--chain-id", str(chain_id), "--no-mining"),
        *("--accounts", str(ACCOUNTS), "--balance", str(FLOAT), "--order", "fifo", "--silent"),
        *("--timestamp", str(genesis_s), "--slots-in-an-epoch", str(FINALITY_LAG // 2)),
    )


def _call(selector: str, to: str, amount: int) -> str:
    return f"{selector}{to[2:].lower():0>64}{amount:064x}"
