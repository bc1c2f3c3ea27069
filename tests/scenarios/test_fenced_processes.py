"""Old processes that wake up after their successors have begun: they end, and nobody reads them."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from random import Random

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.parts.kafka.cluster import KafkaCluster
from tests.parts.processes import ProductProcess, run_command
from tests.parts.thousand.run import choose_seed, log_folder, stop_all
from tests.parts.thousand.settings import write_settings
from tests.parts.thousand.shop import KafkaShop
from tests.parts.thousand.story import USD, ChainLetter, Payment, address_of
from tests.parts.thousand.street import Street

TAKEN_OVER = 3
ROUNDS = 3
PATIENCE_S = 90.0
BLOCK_S = 0.2
#: Orders that are placed and not told to be paid; more would be another test.
WAITING_MAX = 8
STREAM = """
[stream]
kind = "kafka"
bootstrap = "{bootstrap}"
prefix = "{prefix}"
session = "6s"
"""


class Traffic:
    """Orders placed and paid one after the other, for as long as it is let run."""

    def __init__(self, shop: KafkaShop, street: Street) -> None:
        self.shop = shop
        self.street = street
        self.placed: list[str] = []
        self.payments: list[Payment] = []

    async def run(self) -> None:
        while True:
            await self.shop.listen()
            if len(self.placed) - len(self.confirmed()) < WAITING_MAX:
                await self._one_more()
            await asyncio.to_thread(self.street.mine)
            await asyncio.sleep(BLOCK_S)

    async def _one_more(self) -> None:
        number = len(self.placed) + 1
        reference = f"order-{number}"
        payment = Payment(
            order=reference, chain="a", money="usd", to=address_of(reference), amount=20 * USD
        )
        body = {
            "idempotency_key": reference,
            "reference": reference,
            "route": "a-usd",
            "amount": str(payment.amount),
            "address": payment.to,
        }
        await self.shop.send("PlaceOrder", reference, body)
        self.placed.append(reference)
        self.payments.append(payment)
        await asyncio.to_thread(self.street.pay, [payment])

    def confirmed(self) -> set[str]:
        return {
            order
            for order, events in self.shop.told.events.items()
            if events[-1]["phase"] == "confirmed"
        }

    async def until_more_are_confirmed(self) -> None:
        """Wait until an order that is not placed yet is paid and told."""
        number = len(self.placed)
        async with asyncio.timeout(PATIENCE_S):
            while not any(int(order.partition("-")[2]) > number for order in self.confirmed()):
                await asyncio.sleep(0.1)


@pytest.mark.scenario
@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.anvil
async def test_old_watcher_and_old_relay_that_wake_up_end_and_are_never_read(
    kafka_broker: KafkaCluster,
    kafka_prefix: str,
    postgres_url: str,
    streets: dict[ChainLetter, Street],
):
    random = Random(choose_seed())
    folder = log_folder("fenced")
    stream = STREAM.format(bootstrap=kafka_broker.bootstrap, prefix=kafka_prefix)
    config = write_settings(folder, streets, database=postgres_url, more=stream)
    code, _, said = await run_command("migrate", config=config)
    assert code == 0, said.decode()
    started: list[ProductProcess] = []

    def start(name: str, *arguments: str) -> ProductProcess:
        process = ProductProcess(name, *arguments, config=config, folder=folder)
        process.start()
        started.append(process)
        return process

    def start_pair(turn: int) -> list[ProductProcess]:
        watcher = start(f"watch-{turn}", "watch", streets["a"].name)
        return [watcher, start(f"relay-{turn}", "relay")]

    shop = KafkaShop(kafka_broker.bootstrap, kafka_prefix)
    await shop.open()
    traffic = Traffic(shop, streets["a"])
    try:
        intake = start("intake", "intake")
        pair = start_pair(0)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(traffic.run())
            for turn in range(1, ROUNDS + 1):
                await traffic.until_more_are_confirmed()
                old = pair
                for process in old:
                    await asyncio.sleep(random.uniform(0, 0.5))
                    process.freeze()
                pair = start_pair(turn)
                await traffic.until_more_are_confirmed()
                for process in old:
                    process.thaw()
                for process in old:
                    assert await process.ended() == TAKEN_OVER, process.tail()
                assert all(process.code is None for process in pair)
            running.cancel()
        await until_all_are_confirmed(traffic)
        await stop_all([intake, *pair])
        await check_nothing_is_read_twice(kafka_broker, kafka_prefix, traffic)
    except Exception as error:
        error.add_note(f"logs in {folder}")
        raise
    finally:
        for process in started:
            process.kill()
        await shop.close()
    shutil.rmtree(folder)


async def until_all_are_confirmed(traffic: Traffic) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while traffic.confirmed() != set(traffic.placed):
            await asyncio.to_thread(traffic.street.mine)
            await traffic.shop.listen()
            await asyncio.sleep(0.2)


async def check_nothing_is_read_twice(cluster: KafkaCluster, prefix: str, traffic: Traffic) -> None:
    told = await traffic.shop.hear_all_again()
    for reference in traffic.placed:
        sequences = [event["sequence"] for event in told.events[reference]]
        assert sequences == list(range(1, len(sequences) + 1)), (reference, sequences)
    facts = await facts_of(cluster, f"{prefix}transfers.eip155-313371")
    found = [fact for kind, fact in facts if kind == "TransferSeen"]
    # A watcher that starts may search a young address once more; a block is told once.
    told_of_blocks = Counter(f["transfer"] for f in found if f["found_by"] == "watch")
    assert set(told_of_blocks.values()) <= {1}
    assert len({fact["transfer"] for fact in found}) == len(traffic.placed)
    covered = None
    for kind, fact in facts:
        if kind == "Watermark":
            # What a search finds in an old block says that block once more; a gap is a lost block.
            assert covered is None or fact["from_height"] <= covered + 1, (covered, fact)
            covered = max(covered or 0, fact["height"])


async def facts_of(cluster: KafkaCluster, topic: str) -> list[tuple[str, dict[str, object]]]:
    """Read a topic of one partition as any reader of committed data would."""
    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    consumer.assign([partition])
    found = []
    try:
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += [
                    (dict(record.headers)["ce_type"].decode(), json.loads(record.value))
                    for record in records
                ]
    finally:
        await consumer.stop()
    return found
