"""A thousand orders through Kafka and PostgreSQL, while everything that can die does."""

from __future__ import annotations

import shutil

import pytest

from tests.parts.kafka.cluster import KafkaCluster
from tests.parts.processes import ProductProcess, run_command
from tests.parts.thousand.book import make_book
from tests.parts.thousand.misfortunes import Misfortunes
from tests.parts.thousand.play import Play
from tests.parts.thousand.run import (
    check_nobody_waited_in_a_ring,
    choose_seed,
    live_through,
    log_folder,
    stop_all,
    timed,
    told_of,
)
from tests.parts.thousand.settings import write_settings
from tests.parts.thousand.shop import KafkaShop
from tests.parts.thousand.story import ChainLetter
from tests.parts.thousand.street import Street
from tests.parts.thousand.tie_out import check_the_end

PREFIX = "thousand."
KILLS = 2
STREAM = """
[stream]
kind = "kafka"
bootstrap = "{bootstrap}"
prefix = "{prefix}"
session = "6s"
"""


@pytest.mark.scenario
@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.anvil
@pytest.mark.timeout(900)
async def test_thousand_orders_end_as_their_stories_say_while_everything_dies(
    cluster: KafkaCluster, postgres_url: str, streets: dict[ChainLetter, Street]
):
    seed = choose_seed()
    folder = log_folder("thousand-kafka")
    stream = STREAM.format(bootstrap=cluster.bootstrap, prefix=PREFIX)
    config = write_settings(folder, streets, database=postgres_url, more=stream)
    code, _, said = await run_command("migrate", config=config)
    assert code == 0, said.decode()
    commands = {
        "watch-a": ("watch", streets["a"].name),
        "watch-b": ("watch", streets["b"].name),
        "intake-1": ("intake",),
        "intake-2": ("intake",),
        "intake-3": ("intake",),
        "relay-0": ("relay", "--shard", "0"),
        "relay-1": ("relay", "--shard", "1"),
    }
    processes = [
        ProductProcess(name, *arguments, config=config, folder=folder)
        for name, arguments in commands.items()
    ]
    shop = KafkaShop(cluster.bootstrap, PREFIX)
    await shop.open()
    play = Play(make_book(seed), streets, shop)
    misfortunes = Misfortunes(
        seed,
        processes,
        times=KILLS,
        progress=lambda: play.progress,
        sleepers=[process for process in processes if process.name.startswith("intake")],
        cluster=cluster,
    )
    try:
        for process in processes:
            process.start()
        await live_through(play, misfortunes)
        await play.rest()
        await stop_all(processes)
        with timed("checks"):
            await check_the_end(play, config)
        assert all(process.kills == KILLS for process in processes)
        check_nobody_waited_in_a_ring(processes)
    except Exception as error:
        error.add_note(await told_of(play, postgres_url, folder))
        raise
    finally:
        for process in processes:
            process.kill()
        await shop.close()
    shutil.rmtree(folder)
