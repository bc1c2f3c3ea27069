"""Orders on a real Litecoin node and a real Bitcoin node, through Kafka and PostgreSQL, to their ends.

One process runs the whole service, and is killed while payments wait in mempools. Every story happens on
both chains: paid, taken back and mined elsewhere, replaced by a payment to oneself, bumped, in two outputs,
one transaction for two orders, in parts, too little, dust, late, at a shared address.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from reconciler.storage import tables
from reconciler.storage.engine import make_engine
from tests.parts.btcd.node import Btcd
from tests.parts.kafka.cluster import KafkaCluster
from tests.parts.litecoind.node import Litecoind
from tests.parts.processes import ProductProcess, run_command
from tests.parts.thousand.run import log_folder
from tests.parts.thousand.shop import KafkaShop
from tests.parts.utxo_script import UtxoScript

COIN = 100_000_000
DUE = COIN // 4
#: Below it nothing counts by itself (the catalogue's number for both chains).
DUST = 300
DEPTH = 3
QUOTE_S = 45
BLOCK_S = 1.0
PATIENCE_S = 120.0
PAID_AT_ONCE = (
    *("exact", "moved", "withdrawn", "bumped", "two", "one-a", "one-b"),
    *("parts", "little", "dust"),
)

FILE = """
[database]
url = "{database}"
[keys]
hashing = "0123456789abcdef0123456789abcdef"
[server]
port = 0
[stream]
kind = "kafka"
bootstrap = "{bootstrap}"
prefix = "{prefix}"
[watch]
watermark_every = "300ms"
"""
CHAIN = """
[chains."{chain}"]
rpc = ["{url}"]
start_at = {start_at}
poll_interval = "200ms"
[[routes]]
name = "{name}"
asset = "{coin}"
deposit = {{ mode = "given" }}
finality = [{{ depth = {depth} }}]
quote = "{quote}s"
claim_extension = "5s"
claim_extension_known = "5s"
claim_patience = "10s"
[[routes]]
name = "{name}-shared"
asset = "{coin}"
deposit = {{ mode = "shared", address = "{shared}", step = "0.00001", steps_max = 50 }}
finality = [{{ depth = {depth} }}]
quote = "{quote}s"
"""


class Chain:
    """One chain of the run, its shop's addresses, and a miner that a story may stop."""

    def __init__(self, name: str, script: UtxoScript) -> None:
        self.name, self.script = name, script
        self.start_at = script.height()
        # One script on two chains is two addresses, but no two shared ones: settings refuse that.
        self.shared = script.address_of(b"\xa9\x14" + sha256(name.encode()).digest()[:20] + b"\x87")
        self.addresses: dict[str, str] = {}
        self.txs: dict[str, str] = {}
        self.paid = {
            **dict.fromkeys(("exact", "moved", "bumped", "two", "one-a", "one-b"), DUE),
            **dict.fromkeys(("parts", "little"), DUE // 3),
        }
        self.lock = asyncio.Lock()

    def order(self, story: str) -> str:
        return f"{self.name}-{story}"

    def address(self, story: str) -> str:
        return self.addresses[story]

    def settings(self) -> str:
        return CHAIN.format(
            name=self.name,
            chain=self.script.chain,
            coin=self.script.coin,
            url=self.script.url,
            start_at=self.start_at,
            depth=DEPTH,
            quote=QUOTE_S,
            shared=self.shared,
        )

    async def do(self, act: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Have the node do something, one thing after the other."""
        async with self.lock:
            return await asyncio.to_thread(act, *arguments, **more)

    async def mine_for_ever(self) -> None:
        while True:
            await self.do(self.script.mine)
            await asyncio.sleep(BLOCK_S)


class Stand:
    """The shop before both chains: what its customers do, and what it is told."""

    def __init__(self, shop: KafkaShop, engine: AsyncEngine) -> None:
        self.shop, self.engine = shop, engine

    async def place(self, chain: Chain, story: str) -> str:
        """Place an order with an address of its own; gives its reference."""
        kinds = (chain.script.new_address, chain.script.new_old_address)
        address = chain.addresses[story] = kinds[len(chain.addresses) % 2]()
        await self._place(chain.order(story), chain.name, address)
        return chain.order(story)

    async def place_shared(self, chain: Chain, story: str) -> tuple[str, int]:
        """Place an order at the shared address; gives its reference, and what it was told to pay."""
        reference = chain.order(story)
        chain.addresses[story] = chain.shared
        await self._place(reference, f"{chain.name}-shared", None)
        return reference, int(self.told(reference)[-1]["due"])

    async def _place(self, reference: str, route: str, address: str | None) -> None:
        body: dict[str, Any] = {
            "idempotency_key": reference,
            "reference": reference,
            "route": route,
            "amount": str(DUE),
        }
        if address is not None:
            body["address"] = address
        await self.shop.send("PlaceOrder", reference, body)
        await self.until(lambda: bool(self.told(reference)), f"{reference} is placed")

    async def claim(self, order: str, tx: str) -> None:
        body = {"idempotency_key": f"claim-{order}", "reference": order, "transaction": tx}
        await self.shop.send("ClaimPaid", order, body)

    def told(self, order: str) -> list[dict[str, Any]]:
        return self.shop.told.events.get(order, [])

    def phases(self, order: str) -> list[str]:
        """Give the phases that an order went through, one after the other."""
        found: list[str] = []
        for event in self.told(order):
            if not found or found[-1] != event["phase"]:
                found.append(event["phase"])
        return found

    def exceptions(self, kind: str, about: str) -> list[dict[str, Any]]:
        return [
            body
            for body in self.shop.told.exceptions.values()
            if body["kind"] == kind and about in str(body)
        ]

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            await self.shop.listen()
            if holds():
                return
            if time.monotonic() > deadline:
                last = {order: events[-1] for order, events in self.shop.told.events.items()}
                message = f"waited for: {what}\n{last}"
                raise AssertionError(message)
            await asyncio.sleep(0.1)

    async def until_stored(self, chain: Chain, tx: str, state: str, block: str | None) -> None:
        """Wait until the service knows the first output of a transaction so."""
        table = tables.transfers
        query = select(table.c.state, table.c.block_hash).where(
            table.c.transfer == f"{chain.script.chain}/{tx}/out:0"
        )
        deadline = time.monotonic() + PATIENCE_S
        async with self.engine.connect() as connection:
            while (found := tuple((await connection.execute(query)).one())) != (state, block):
                assert time.monotonic() < deadline, f"{tx} is {found}, expected {state} in {block}"
                await connection.rollback()
                await asyncio.sleep(0.1)

    async def until_phase(self, order: str, phase: str) -> None:
        await self.until(
            lambda: phase in self.phases(order), f"{order} {phase}, {self.phases(order)}"
        )

    async def until_last(self, order: str, phase: str) -> None:
        await self.until(lambda: self.phases(order)[-1] == phase, f"{order} ends {phase}")


@asynccontextmanager
async def mined(chains: list[Chain]) -> AsyncIterator[None]:
    """Mine a block a second on every chain as long as the block lasts."""
    tasks = [asyncio.create_task(chain.mine_for_ever()) for chain in chains]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.mark.scenario
@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.litecoind
@pytest.mark.btcd
@pytest.mark.timeout(600)
async def test_every_story_of_a_bitcoin_like_payment_ends_right_on_both_nodes(
    kafka_broker: KafkaCluster, kafka_prefix: str, postgres_url: str
):
    folder = log_folder("bitcoin-like")
    with Litecoind() as litecoind, Btcd() as btcd:
        chains = [
            Chain("ltc", await asyncio.to_thread(UtxoScript, litecoind)),
            Chain("btc", await asyncio.to_thread(UtxoScript, btcd)),
        ]
        config = _write(folder, chains, postgres_url, kafka_broker.bootstrap, kafka_prefix)
        code, _, said = await run_command("migrate", config=config)
        assert code == 0, said.decode()
        service = ProductProcess("run", "run", config=config, folder=folder)
        shop = KafkaShop(kafka_broker.bootstrap, kafka_prefix)
        await shop.open()
        engine = make_engine(postgres_url)
        stand = Stand(shop, engine)
        service.start()
        try:
            await asyncio.gather(*(_pay_before_anything_is_mined(stand, one) for one in chains))
            service.kill()
            await asyncio.gather(*(_change_minds(stand, one) for one in chains))
            service.start()
            await asyncio.gather(*(_is_told_what_changed(stand, one) for one in chains))
            await asyncio.gather(*(_reorganise(stand, one) for one in chains))
            async with mined(chains):
                await asyncio.gather(*(_ends(stand, one) for one in chains))
            _check_every_unit(stand, chains)
        finally:
            await shop.close()
            await engine.dispose()
            code = await service.stop()
        assert code == 0, service.tail()
        code, said, more = await run_command("audit", "verify", config=config)
        assert code == 0, (said + more).decode()


async def _pay_before_anything_is_mined(stand: Stand, chain: Chain) -> None:
    """Everybody pays; everything waits in the mempool, and the shop is told of it."""
    script = chain.script
    for story in (*PAID_AT_ONCE, "late", "nothing"):
        await stand.place(chain, story)
    shared, due = await stand.place_shared(chain, "shared")

    async def pay(*legs: tuple[str, int]) -> str:
        return await chain.do(
            script.pay_many, [(chain.address(story), amount) for story, amount in legs]
        )

    for story in ("exact", "moved", "withdrawn", "bumped"):
        chain.txs[story] = await pay((story, DUE))
    chain.txs["two"] = await pay(("two", DUE // 2), ("two", DUE - DUE // 2))
    chain.txs["one-a"] = await pay(("one-a", DUE), ("one-b", DUE))
    chain.txs["parts"] = await pay(("parts", DUE // 3))
    chain.txs["little"] = await pay(("little", DUE // 3))
    chain.txs["dust"] = await pay(("dust", DUST))
    chain.txs["shared"] = await chain.do(script.pay_coin, chain.shared, due)
    chain.paid |= {"shared": due}
    for story in PAID_AT_ONCE:
        if story != "dust":
            await stand.until_phase(chain.order(story), "detected")
    await stand.until_phase(shared, "detected")
    await stand.claim(chain.order("exact"), chain.txs["exact"])
    assert "confirmed" not in str(stand.phases(chain.order("exact")))


async def _change_minds(stand: Stand, chain: Chain) -> None:
    """While nobody watches: one customer takes the money back, one pays the same with a higher fee."""
    del stand
    script = chain.script
    await chain.do(script.replace, chain.txs["withdrawn"])
    legs = (chain.address("bumped"), DUE)
    chain.txs["bumped"] = await chain.do(script.replace, chain.txs["bumped"], legs)


async def _is_told_what_changed(stand: Stand, chain: Chain) -> None:
    """The next watcher finds both in the mempool, though it never saw what they replaced."""
    withdrawn = chain.order("withdrawn")
    await stand.until(
        lambda: stand.told(withdrawn)[-1]["kind"] == "withdrawn", f"{withdrawn} is withdrawn"
    )

    def bumped() -> bool:
        last = stand.told(chain.order("bumped"))[-1]
        waiting = [part for part in last["transfers"] if part["state"] == "seen"]
        return [part["transfer"].split("/")[1] for part in waiting] == [chain.txs["bumped"]]

    await stand.until(bumped, "the replacement alone counts")


async def _reorganise(stand: Stand, chain: Chain) -> None:
    """A block takes the payment in, another branch leaves it out, and a later block of it has it.

    The shop is told of none of this: before it is final it only waits.
    """
    script, order, tx = chain.script, chain.order("moved"), chain.txs["moved"]
    first = await chain.do(script.mine_only, tx)
    await stand.until_stored(chain, tx, "included", first.hash)
    await chain.do(script.reorganise, 1)
    # Another's node had it in its mempool all the time, and so has ours again.
    await stand.until_stored(chain, tx, "seen", None)
    assert stand.phases(order)[-1] == "detected"
    second = await chain.do(script.mine_only, tx)
    await stand.until_stored(chain, tx, "included", second.hash)
    assert [event["kind"] for event in stand.told(order)] == ["awaiting", "detected"]


async def _ends(stand: Stand, chain: Chain) -> None:
    for story in ("exact", "moved", "bumped", "two", "one-a", "one-b", "shared"):
        await stand.until_last(chain.order(story), "confirmed")
    await stand.until_phase(chain.order("parts"), "partially_paid")
    rest = DUE - DUE // 3
    await chain.do(chain.script.pay_coin, chain.address("parts"), rest)
    chain.paid["parts"] = DUE
    await stand.until_last(chain.order("parts"), "confirmed")
    for story, phase in (
        ("little", "underpaid"),
        ("withdrawn", "expired"),
        ("dust", "expired"),
        ("nothing", "expired"),
        ("late", "expired"),
    ):
        await stand.until_last(chain.order(story), phase)
    await chain.do(chain.script.pay_coin, chain.address("late"), DUE)
    chain.paid["late"] = DUE
    late = chain.order("late")
    await stand.until(lambda: stand.told(late)[-1]["kind"] == "late", f"{late} is late")
    await stand.until(
        lambda: bool(stand.exceptions("dust", chain.script.chain)), "dust is an exception"
    )


def _check_every_unit(stand: Stand, chains: list[Chain]) -> None:
    """What counts for each order is what was paid to it, and sequences have no gap."""
    for chain in chains:
        for story in chain.addresses:
            events = stand.told(f"{chain.name}-{story}")
            assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
            counted = int(events[-1]["received_final"])
            expected = chain.paid.get(story, 0)
            assert counted == (0 if story == "late" else expected), (chain.name, story, events[-1])


def _write(folder: Path, chains: list[Chain], database: str, bootstrap: str, prefix: str) -> Path:
    path = folder / "reconciler.toml"
    text = FILE.format(database=database, bootstrap=bootstrap, prefix=prefix)
    path.write_text(text + "".join(chain.settings() for chain in chains))
    return path
