"""A service of real processes before a scripted chain, and orders that are placed and paid meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from chains.devnet import Devnet
from reconciler.kernel import SystemClock
from reconciler.stream.promise import Lane, Stream, read_all
from reconciler.stream.topics import transfers_topic
from schemas.caip import ChainName
from schemas.codec import FACT_KINDS, decode
from schemas.envelope import from_headers
from schemas.facts import FoundBy, TransferSeen, Watermark
from tests.parts.processes import ProductProcess, run_command
from tests.parts.service import write_settings
from tests.parts.settings import CHAIN, SETTINGS, TOKEN
from tests.parts.thousand.shop import Shop
from tests.parts.world import address

NUMBER = int(CHAIN.partition(":")[2])
CONTRACT = TOKEN.rpartition(":")[2]
AMOUNT = 25_000_000
LIFE = ["awaiting", "detected", "confirmed"]
BLOCK_S = 0.1
PATIENCE_S = 90.0
#: Orders that are placed and not confirmed; more would be another test.
WAITING_MAX = 6


def settings_of(folder: Path, devnet: Devnet, *, database: str, stream: str) -> Path:
    """Write settings for the chain behind this devnet; `stream` is the stream's table."""
    text = SETTINGS.replace("http://127.0.0.1:8545", devnet.url(NUMBER))
    text = text.replace("rpc =", 'start_at = 1\npoll_interval = "100ms"\nrpc =')
    text = text.replace("sqlite+aiosqlite:///reconciler.db", database)
    return write_settings(folder, text=text.replace("[[routes]]", f"{stream}\n[[routes]]", 1))


def new_chain(devnet: Devnet) -> None:
    now = int(SystemClock().now().timestamp())
    chain = devnet.add_chain(NUMBER, block_time_s=1, genesis_time=now - 5)
    chain.deploy_token("TUSD", 6, address=CONTRACT)
    chain.deploy_token("TEST", 18, address="0x" + "1" * 40)
    chain.mine()
    chain.give_token(CONTRACT, chain.account("payer"), 10**15)


class Traffic:
    """Places an order, pays it, mines; again and again for as long as it is let run."""

    def __init__(self, shop: Shop, devnet: Devnet) -> None:
        self.shop = shop
        self.chain = devnet.chains[NUMBER]
        self.placed: list[str] = []

    async def run(self) -> None:
        while True:
            await self.turn(more=len(self.placed) - len(self.confirmed()) < WAITING_MAX)

    async def turn(self, *, more: bool) -> None:
        await self.shop.listen()
        if more:
            await self._one_more()
        self.chain.mine()
        await asyncio.sleep(BLOCK_S)

    async def _one_more(self) -> None:
        number = len(self.placed) + 1
        reference, to = f"o-{number}", address(number)
        body = {
            "idempotency_key": reference,
            "reference": reference,
            "route": "tusd-one",
            "amount": str(AMOUNT),
            "address": to,
        }
        await self.shop.send("PlaceOrder", reference, body)
        self.placed.append(reference)
        self.chain.pay_token(CONTRACT, self.chain.account("payer"), to, AMOUNT)

    def confirmed(self) -> set[str]:
        events = self.shop.told.events
        return {order for order, told in events.items() if told[-1]["phase"] == "confirmed"}

    async def until_more_are_confirmed(self) -> None:
        """Wait until an order that is not placed yet is confirmed."""
        number = len(self.placed)
        async with asyncio.timeout(PATIENCE_S):
            while not any(int(order.partition("-")[2]) > number for order in self.confirmed()):
                await asyncio.sleep(0.05)

    async def until_all_are_confirmed(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.confirmed() != set(self.placed):
                await self.turn(more=False)

    async def check_everything_was_told_once(self, stream: Stream) -> None:
        """Read all again, as a new consumer would: each order's life, each transfer once, no gap."""
        told = await self.shop.hear_all_again()
        lives = {order: [e["kind"] for e in events] for order, events in told.events.items()}
        # A transfer that was mined before its order was known may be final when it is found.
        assert {order: life for order, life in lives.items() if life[-1] != LIFE[-1]} == {}
        for order, events in told.events.items():
            assert [e["sequence"] for e in events] == list(range(1, len(events) + 1)), order
            assert lives[order] in (LIFE, [LIFE[0], LIFE[2]]), (order, lives[order])
            assert events[-1]["received_final"] == str(AMOUNT)
        assert set(lives) == set(self.placed)
        assert not told.exceptions
        lane = Lane(transfers_topic(ChainName(CHAIN)), 0)
        facts = [
            decode(from_headers(r.headers, default_time=r.time).type, r.value, FACT_KINDS)
            for r in await read_all(stream, lane)
        ]
        seen = [fact for fact in facts if isinstance(fact, TransferSeen)]
        blocks = Counter(fact.transfer for fact in seen if fact.found_by == FoundBy.WATCH)
        assert set(blocks.values()) <= {1}
        assert len({fact.transfer for fact in seen}) == len(self.placed)
        covered = None
        for mark in (fact for fact in facts if isinstance(fact, Watermark)):
            assert covered is None or mark.from_height <= covered + 1, (covered, mark)
            covered = max(covered or 0, mark.height)


class Processes:
    """The processes of one service by their names."""

    def __init__(self, config: Path, folder: Path) -> None:
        self._config, self._folder = config, folder
        self.all: dict[str, ProductProcess] = {}

    def make(self, name: str, *arguments: str) -> ProductProcess:
        process = ProductProcess(name, *arguments, config=self._config, folder=self._folder)
        self.all[name] = process
        return process

    async def migrate(self) -> None:
        code, _, said = await run_command("migrate", config=self._config)
        assert code == 0, said.decode()

    async def verify_journal(self) -> None:
        code, said, why = await run_command("audit", "verify", config=self._config)
        assert code == 0, (said + why).decode()

    def kill_all(self) -> None:
        for process in self.all.values():
            process.kill()
