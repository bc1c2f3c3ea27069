"""A real Litecoin node in regtest, where litecoind is on the PATH: a third chain of the demo.

Starts the node in a temporary folder and ends it. Nothing is signed, since the Debian package has no
wallet: the customers' coins are locked by a script that is true, and anybody may spend them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import aiohttp
from msgspec import Struct

from chains.devnet.utxo.transactions import OPEN_SCRIPT
from chains.utxo.address import address_of_script
from chains.utxo.networks import LITECOIN_REGTEST
from reconciler.demo.nodes import HOST, free_ports, running
from reconciler.demo.stage import Money, StageError, Tip
from reconciler.kernel.refusals import Refusal
from schemas.amounts import format_decimal_amount, parse_decimal_amount
from schemas.caip import AssetName

START_TIMEOUT_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 60.0
LOOK_EVERY_S: Final = 0.05
#: How many blocks a story or a person may replace. Older coins alone are spent, so that whatever a
#: replaced block held can be paid again.
DEPTH_MAX: Final = 100
#: Fifty coins may be spent when the first customer comes.
_BLOCKS_BEFORE: Final = LITECOIN_REGTEST.coinbase_maturity + DEPTH_MAX + 50
#: So many of these are right behind each other, up to now: a median of eleven is the chain's time.
_BLOCKS_LATELY: Final = 11
_LONG_AGO_S: Final = 3600
#: **Units**: satoshi, for some 120 bytes. No miner here takes less than 50 a byte.
FEE: Final = 20_000
LOW_FEE: Final = 1_000
_HASTE: Final = 100_000
_LEAST_FEE_RATE: Final = "0.0005"
#: BIP 125: below the last two numbers, a transaction may be replaced.
_REPLACEABLE: Final = 0xFFFF_FFFD
#: The script OP_TRUE, whose hash locks the coins.
_REDEEM_SCRIPT: Final = "51"
_PAYS_WITNESS_KEY: Final = b"\x00\x14"

LITECOIN: Final = Money(
    chain=LITECOIN_REGTEST.chain,
    asset=AssetName(f"{LITECOIN_REGTEST.chain}/slip44:1"),
    symbol="tLTC",
    decimals=8,
    contract=None,
)


class NoLitecoind(Refusal):
    """There is no litecoind on this machine, or it does not answer."""


class Coin(Struct, frozen=True):
    """What can be spent. **Units**: `amount` in satoshi."""

    tx: str
    index: int
    amount: int
    height: int

    @property
    def name(self) -> tuple[str, int]:
        """What tells it from any other."""
        return self.tx, self.index


class LitecoinChain:
    """One litecoind that mines when it is told to."""

    name = LITECOIN_REGTEST.chain
    label = "Litecoin"

    def __init__(self, session: aiohttp.ClientSession, port: int, folder: Path) -> None:
        self.url = ""
        self.first_height = 0
        self._session = session
        self._port = port
        self._cookie = folder / "regtest" / ".cookie"
        self._questions = itertools.count(1)
        self._branches = itertools.count(1)
        self._miner = _address_of(OPEN_SCRIPT)
        self._given: set[tuple[str, int]] = set()
        self._coin_of: dict[str, Coin] = {}
        self._left_waiting: set[str] = set()
        # blocks and coins are asked for and used in several calls
        self._lock = asyncio.Lock()

    async def start(self, process: asyncio.subprocess.Process, *, now_s: int) -> None:
        """Wait until the node answers, then make the blocks that coins come from.

        **Raises**: `NoLitecoind`.
        """
        deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
        while not await self._answers():
            if process.returncode is not None:
                raise NoLitecoind("litecoind: it ended before it answered")
            if asyncio.get_running_loop().time() > deadline:
                message = f"litecoind: no answer on port {self._port} in {START_TIMEOUT_S:.0f} s"
                raise NoLitecoind(message)
            await asyncio.sleep(LOOK_EVERY_S)
        await self._set_time(now_s - _LONG_AGO_S)
        await self._ask("generatetoaddress", _BLOCKS_BEFORE, self._miner)
        for second in range(_BLOCKS_LATELY):
            await self.mine(now_s - _BLOCKS_LATELY + second)
        # the shop takes back what it has read, and below that asks a second node
        self.first_height = (await self.tip()).height - DEPTH_MAX

    async def pay(self, money: Money, to: str, amount: int) -> str:
        """Send with a fee that the next block takes."""
        del money
        return await self._pay(to, amount, fee=FEE)

    async def pay_little_fee(self, to: str, amount: int) -> str:
        """Send with a fee that every node passes on and no miner takes; it may be replaced."""
        tx = await self._pay(to, amount, fee=LOW_FEE)
        self._left_waiting.add(tx)
        return tx

    async def hurry(self, tx: str) -> None:
        """Have the miners take what they left waiting."""
        await self._ask("prioritisetransaction", tx, 0, _HASTE)
        self._left_waiting.discard(tx)

    async def replace(self, tx: str) -> str:
        """Replace what waits by a payment of the whole coin to its owner, for a higher fee."""
        coin = self._coin_of[tx]
        rival: str = await self._ask("sendrawtransaction", await self._made(coin, (), FEE))
        self._left_waiting.discard(tx)
        return rival

    async def mine(self, time_s: int) -> None:
        """Make one block of what waits. The node lifts a time that is not above the median."""
        async with self._lock:
            await self._set_time(time_s)
            await self._ask("generatetoaddress", 1, self._miner)

    async def tip(self) -> Tip:
        """Give the newest block."""
        header = await self._ask("getblockheader", await self._ask("getbestblockhash"))
        return Tip(header["height"], header["time"])

    async def waits(self) -> bool:
        """Tell whether something waits that the next block takes."""
        return not self._left_waiting.issuperset(await self._ask("getrawmempool"))

    async def depth_of(self, tx: str) -> int:
        """Ask for the output to the shop, which nobody spends."""
        found = await self._ask("gettxout", tx, 0, False)  # noqa: FBT003
        return 0 if found is None else int(found["confirmations"])

    async def reorganise(self, depth: int, *, away: Sequence[str] | None = None) -> None:
        """Replace the last blocks; what goes is spent otherwise, so that it never comes back."""
        async with self._lock:
            height = (await self.tip()).height
            if not 1 <= depth <= DEPTH_MAX:
                message = f"expected a depth of 1 to {DEPTH_MAX}, found {depth}"
                raise StageError(message)
            old = [await self._block(n) for n in range(height - depth + 1, height + 1)]
            paid = [tx["txid"] for block in old for tx in block["tx"][1:]]
            gone = [tx for tx in paid if tx in self._coin_of and (away is None or tx in away)]
            first = [await self._made(self._coin_of[tx], (), FEE) for tx in gone]
            # or the node would know the first block as the one that it is told to leave
            to = litecoin_address(f"branch {next(self._branches)}")
            await self._ask("invalidateblock", old[0]["hash"])
            for block in old:
                await self._set_time(block["time"])
                # whole ones: what leaves a deep block is not put back into the mempool
                stay = [tx["hex"] for tx in block["tx"][1:] if tx["txid"] not in gone]
                await self._ask("generateblock", to, [*first, *stay])
                first, to = [], self._miner
            await self._ask("generateblock", self._miner, [])

    async def _pay(self, to: str, amount: int, *, fee: int) -> str:
        async with self._lock:
            coin = await self._next_coin(amount + fee)
            raw = await self._made(coin, ((to, amount),), fee)
            tx: str = await self._ask("sendrawtransaction", raw)
            self._given.add(coin.name)
        self._coin_of[tx] = coin
        return tx

    async def _next_coin(self, amount: int) -> Coin:
        """Give the oldest coin that is worth so much. **Raises**: `StageError`."""
        tip = await self.tip()
        upto = tip.height - LITECOIN_REGTEST.coinbase_maturity - DEPTH_MAX
        found = await self._ask("scantxoutset", "start", [f"raw({OPEN_SCRIPT.hex()})"])
        coins = [
            Coin(one["txid"], one["vout"], _units(one["amount"]), one["height"])
            for one in found["unspents"]
        ]
        fit = [coin for coin in coins if coin.height <= upto and coin.name not in self._given]
        enough = [coin for coin in fit if coin.amount >= amount]
        if not enough:
            most = LITECOIN.words(max((coin.amount for coin in fit), default=0))
            message = f"no customer has so much in one coin; the largest is worth {most}"
            raise StageError(message)
        return min(enough, key=lambda coin: coin.height)

    async def _made(self, coin: Coin, pays: Sequence[tuple[str, int]], fee: int) -> str:
        """Make a transaction; what is left of the coin goes back to its owner."""
        rest = coin.amount - sum(amount for _, amount in pays) - fee
        spent = {"txid": coin.tx, "vout": coin.index, "sequence": _REPLACEABLE}
        outputs = [{to: _text(amount)} for to, amount in (*pays, (self._miner, rest))]
        raw = await self._ask("createrawtransaction", [spent], outputs)
        lock = {"scriptPubKey": OPEN_SCRIPT.hex(), "redeemScript": _REDEEM_SCRIPT}
        known = spent | lock | {"amount": _text(coin.amount)}
        made = await self._ask("signrawtransactionwithkey", raw, [], [known])
        if not made["complete"]:
            message = f"litecoind, signrawtransactionwithkey: {made.get('errors')}"
            raise StageError(message)
        signed: str = made["hex"]
        return signed

    async def _block(self, height: int) -> dict[str, Any]:
        found: dict[str, Any] = await self._ask(
            "getblock", await self._ask("getblockhash", height), 2
        )
        return found

    async def _set_time(self, time_s: int) -> None:
        await self._ask("setmocktime", time_s)

    async def _answers(self) -> bool:
        """Tell whether the node is ready; its password stands in a file that it writes."""
        try:
            cookie = self._cookie.read_text(encoding="utf-8")
            self.url = f"http://{cookie}@{HOST}:{self._port}"
            await self._ask("getblockcount")
        except (OSError, aiohttp.ClientError, StageError):
            return False
        return True

    async def _ask(self, method: str, *params: object) -> Any:
        """Ask the node. Decimals are given as text. **Raises**: `StageError` with its words."""
        question = {"id": next(self._questions), "method": method, "params": params}
        async with self._session.post(self.url, json=question) as response:
            text = await response.text()
        try:
            answer = json.loads(text, parse_float=str)
        except ValueError:
            message = f"litecoind, {method}: status {response.status}"
            raise StageError(message) from None
        if answer["error"] is not None:
            message = f"litecoind, {method}: {answer['error']['message']}"
            raise StageError(message)
        return answer["result"]


def find_litecoind() -> str | None:
    """Give the path of litecoind, if it is on the PATH."""
    return shutil.which("litecoind")


def litecoin_address(name: str) -> str:
    """Give an address of the shop's. Nobody has its key, and nobody needs it."""
    hashed = sha256(f"the demo's shop/{name}".encode()).digest()[:20]
    return _address_of(_PAYS_WITNESS_KEY + hashed)


@asynccontextmanager
async def litecoin_chain(binary: str, *, now_s: int) -> AsyncIterator[LitecoinChain]:
    """Start a node. **Raises**: `NoLitecoind`."""
    async with contextlib.AsyncExitStack() as stack:
        made = tempfile.TemporaryDirectory(
            prefix="reconciler-litecoind-", ignore_cleanup_errors=True
        )
        folder = Path(stack.enter_context(made))
        timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        (port,) = free_ports(1)
        process = await stack.enter_async_context(running(_command(binary, port, folder)))
        chain = LitecoinChain(session, port, folder)
        await chain.start(process, now_s=now_s)
        yield chain


def _command(binary: str, port: int, folder: Path) -> Sequence[str]:
    """Write a command for a node that knows no other and replaces as BIP 125 says.

    It never has MWEB, which regtest has from block 432 on and whose first block needs a wallet: without a
    payment into the extension no block is valid then.
    """
    never = 9_999_999_999
    return (
        *(binary, "-regtest", "-server", f"-datadir={folder}", "-listen=0", "-disablewallet"),
        *(f"-rpcbind={HOST}", f"-rpcallowip={HOST}", f"-rpcport={port}"),
        *("-printtoconsole=0", "-persistmempool=0", "-mempoolreplacement=1"),
        *(f"-blockmintxfee={_LEAST_FEE_RATE}", f"-vbparams=mweb:{never}:{never}"),
    )


def _address_of(script: bytes) -> str:
    address = address_of_script(LITECOIN_REGTEST, script)
    if address is None:
        message = f"no address of {LITECOIN_REGTEST.name} pays {script.hex()}"
        raise StageError(message)
    return address.display


def _units(text: str) -> int:
    return parse_decimal_amount(text, LITECOIN.decimals)


def _text(amount: int) -> str:
    return format_decimal_amount(amount, LITECOIN.decimals)
