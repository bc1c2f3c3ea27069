"""The whole way of one chain: a devnet's block becomes facts in the log, and an event."""

import asyncio
import json
import signal
import sys

import aiohttp
import pytest

from chains.devnet import Devnet
from reconciler.cli import run
from reconciler.commands.watch import watch_jobs
from reconciler.config import load_settings
from reconciler.kernel import Refusal, SystemClock
from reconciler.stream.promise import Lane, Outgoing, read_all
from reconciler.stream.topics import ORDERS, PAYMENT_EVENTS, requests_topic, transfers_topic
from schemas.codec import FACT_KINDS, decode, encode, kind_name
from schemas.commands import PlaceOrder
from schemas.envelope import Envelope, from_headers, to_headers
from schemas.facts import TransferSeen, Watermark
from tests.parts.ports import free_ports
from tests.parts.service import migrate, running, service, write_settings
from tests.parts.settings import CHAIN, OTHER_CHAIN, SETTINGS, TOKEN

NUMBER = int(CHAIN.partition(":")[2])
CONTRACT = TOKEN.rpartition(":")[2]
OURS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


@pytest.fixture
async def devnet():
    async with Devnet() as net:
        now = int(SystemClock().now().timestamp())
        chain = net.add_chain(NUMBER, block_time_s=1, genesis_time=now - 5)
        chain.deploy_token("TUSD", 6, address=CONTRACT)
        chain.deploy_token("TEST", 18, address="0x" + "1" * 40)
        for _ in range(4):
            chain.mine()
        yield net


def settings_file(tmp_path, url, chain_more="start_at = 1"):
    text = SETTINGS.replace("http://127.0.0.1:8545", url).replace("rpc =", chain_more + "\nrpc =")
    return write_settings(tmp_path, text=text)


async def facts(parts):
    return [
        decode(from_headers(r.headers, default_time=r.time).type, r.value, FACT_KINDS)
        for r in await read_all(parts.stream, Lane(transfers_topic(CHAIN), 0))
    ]


async def until(condition, seconds=90):
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


async def place(parts, reference="o-1", amount="25000000"):
    message = PlaceOrder(
        idempotency_key=reference,
        reference=reference,
        route="tusd-one",
        amount=amount,
        address=OURS,
    )
    envelope = Envelope(id=reference, type=kind_name(message), time=SystemClock().now())
    writer = parts.stream.writer("shop")
    await writer.start()
    await writer.append(
        [
            Outgoing(
                lane=Lane(ORDERS, 0),
                key=reference.encode(),
                value=encode(message),
                headers=to_headers(envelope),
            )
        ]
    )


async def test_a_watcher_publishes_blocks_and_goes_on_where_it_stopped(devnet, tmp_path):
    async with service(settings_file(tmp_path, devnet.url(NUMBER))) as parts:
        chain = devnet.chains[NUMBER]

        async def covers(height):
            marks = [fact for fact in await facts(parts) if isinstance(fact, Watermark)]
            return bool(marks) and marks[-1].height >= height

        jobs = watch_jobs(parts, [CHAIN])
        async with running(*jobs.values()):
            await until(lambda: covers(4))
        chain.mine()
        chain.mine()
        async with running(*watch_jobs(parts, [CHAIN]).values()):
            await until(lambda: covers(6))
        marks = [fact for fact in await facts(parts) if isinstance(fact, Watermark)]
        assert marks[0].from_height == 1
        assert len({mark.log_id for mark in marks}) == 1
        heights = [mark.height for mark in marks]
        assert heights == sorted(heights)


async def test_an_empty_log_without_start_at_names_the_setting(devnet, tmp_path):
    async with service(settings_file(tmp_path, devnet.url(NUMBER), "")) as parts:
        with pytest.raises(Refusal, match=f'chains."{CHAIN}".start_at'):
            await watch_jobs(parts, [CHAIN])[f"watch {CHAIN}"]()


async def started(*arguments):
    """Start the command as a process of its own: only those may listen to signals."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from reconciler.cli import main; main()",
        *arguments,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_another_chain_behind_the_url_ends_the_process_with_both_ids(devnet, tmp_path):
    other = int(OTHER_CHAIN.partition(":")[2])
    devnet.add_chain(other)
    path = settings_file(tmp_path, devnet.url(other))
    await migrate(load_settings(path, {}))
    process = await started("watch", CHAIN, "-c", str(path), "--port", "0")
    _, said = await process.communicate()
    last = said.decode().splitlines()[-1]
    assert process.returncode == 2
    assert last.startswith("reconciler: ")
    assert str(NUMBER) in last
    assert str(other) in last


async def test_reading_again_is_a_request_in_the_log(devnet, tmp_path, capsys):
    path = settings_file(tmp_path, devnet.url(NUMBER))
    async with service(path) as parts:
        arguments = ["watch", CHAIN, "--again", "1", "3", "--reason", "gap", "-c", str(path)]
        assert await asyncio.to_thread(run, arguments) == 0
        (record,) = await read_all(parts.stream, Lane(requests_topic(CHAIN), 0))
        asked = json.loads(record.value)
        assert (asked["from_height"], asked["to_height"], asked["reason"]) == (1, 3, "gap")
        assert asked["request"] in capsys.readouterr().out
        assert await asyncio.to_thread(run, [*arguments[:3], "3", "1", *arguments[5:]]) == 2
        assert await asyncio.to_thread(run, ["watch", OTHER_CHAIN, "-c", str(path)]) == 2


async def test_run_carries_a_payment_from_the_node_to_its_event(devnet, tmp_path):
    path = settings_file(tmp_path, devnet.url(NUMBER))
    (port,) = free_ports(1)
    async with service(path) as parts:
        process = await started("run", "--config", str(path), "--port", str(port))
        try:
            await place(parts)

            async def kinds():
                lanes = [Lane(PAYMENT_EVENTS, partition) for partition in range(6)]
                records = [r for lane in lanes for r in await read_all(parts.stream, lane)]
                return [json.loads(record.value)["kind"] for record in records]

            async def has(kind):
                devnet.chains[NUMBER].mine()
                return kind in await kinds()

            await until(lambda: has("awaiting"))
            chain = devnet.chains[NUMBER]
            payer = chain.account("payer")
            chain.give_token(CONTRACT, payer, 10**9)
            chain.pay_token(CONTRACT, payer, OURS, 25_000_000)
            await until(lambda: has("confirmed"))
            assert await kinds() == ["awaiting", "detected", "confirmed"]
            assert any(isinstance(fact, TransferSeen) for fact in await facts(parts))
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
                async with session.get("/readyz") as answer:
                    ready = await answer.json()
                    assert answer.status == 200, ready
                assert {f"head {CHAIN}", f"watch {CHAIN}", "relay/0", "database"} <= set(
                    ready["checks"]
                )
                async with session.get("/metrics") as answer:
                    text = await answer.text()
                assert f'reconciler_chain_covered_height{{chain="{CHAIN}"}}' in text
                assert "reconciler_rpc_requests_total{" in text
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = await process.communicate()
        assert process.returncode == 0, said.decode()[-2_000:]
        lines = [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]
        assert {"watch", "intake", "relay"} <= {line["room"] for line in lines}
