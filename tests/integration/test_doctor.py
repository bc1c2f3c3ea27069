"""What `doctor` says of a service's parts, with real ones in their place."""

from datetime import timedelta

import pytest

from chains.devnet import Devnet
from reconciler.cli import run
from reconciler.commands.doctor import examine
from reconciler.kernel import ManualClock, SystemClock
from reconciler.storage import schema_version
from reconciler.wiring import open_engine, open_stream
from tests.parts.settings import CHAIN, OTHER_CHAIN, SETTINGS, TOKEN, settings_of

NUMBER = int(CHAIN.partition(":")[2])


@pytest.fixture
async def devnet():
    async with Devnet() as net:
        chain = net.add_chain(
            NUMBER, block_time_s=1, genesis_time=int(SystemClock().now().timestamp()) - 5
        )
        chain.deploy_token("TUSD", 6, address=TOKEN.rpartition(":")[2])
        chain.deploy_token("TEST", 18, address="0x" + "1" * 40)
        for _ in range(4):
            chain.mine()
        yield net


def settings(tmp_path, url, more=""):
    text = SETTINGS.replace(
        "sqlite+aiosqlite:///reconciler.db", f"sqlite+aiosqlite:///{tmp_path}/r.db"
    )
    text = text.replace("http://127.0.0.1:8545", url)
    return settings_of(text.replace("[catalogue]", more + "[catalogue]"), tmp_path)


async def found(made, clock=None):
    return {finding.part: finding async for finding in examine(made, clock or SystemClock())}


async def migrate(made):
    async with open_engine(made) as engine:
        await schema_version.migrate(engine)
        async with open_stream(made, engine) as stream:
            await stream.create_topics(made.topic_specs())


NODE = f"{CHAIN} 127.0.0.1"


async def test_a_service_with_all_its_parts_is_well(devnet, tmp_path):
    made = settings(tmp_path, devnet.url(NUMBER))
    await migrate(made)
    findings = await found(made)
    assert {part for part, finding in findings.items() if not finding.well} == set(), findings
    assert {"settings", "database", "log", NODE} <= set(findings)


async def test_a_database_without_tables_is_not_well_and_says_what_to_do(devnet, tmp_path):
    findings = await found(settings(tmp_path, devnet.url(NUMBER)))
    assert findings["database"].well
    assert not findings["tables"].well
    assert "run `reconciler migrate`" in findings["tables"].sentence


async def test_a_database_without_topics_is_not_well_and_says_what_to_do(devnet, tmp_path):
    made = settings(tmp_path, devnet.url(NUMBER))
    async with open_engine(made) as engine:
        await schema_version.migrate(engine)
    finding = (await found(made))["log"]
    assert not finding.well
    assert "reconciler migrate" in finding.sentence


async def test_topics_of_another_number_of_lanes_are_named(devnet, tmp_path):
    made = settings(tmp_path, devnet.url(NUMBER))
    await migrate(made)
    other = settings(tmp_path, devnet.url(NUMBER), more="[stream]\norders_partitions = 5\n")
    finding = (await found(other))["log"]
    assert not finding.well
    assert "orders" in finding.sentence
    assert "migrate" in finding.sentence


async def test_a_node_that_is_not_there_is_not_well(tmp_path):
    finding = (await found(settings(tmp_path, "http://127.0.0.1:1")))[NODE]
    assert not finding.well
    assert "refused" in finding.sentence.lower() or "failed" in finding.sentence.lower()


async def test_another_chain_behind_a_url_is_named_with_both_ids(devnet, tmp_path):
    other = int(OTHER_CHAIN.partition(":")[2])
    devnet.add_chain(other)
    finding = (await found(settings(tmp_path, devnet.url(other))))[NODE]
    assert not finding.well
    assert str(NUMBER) in finding.sentence
    assert str(other) in finding.sentence


async def test_a_clock_that_is_hours_away_is_told(devnet, tmp_path):
    clock = ManualClock(SystemClock().now() + timedelta(hours=3))
    findings = await found(settings(tmp_path, devnet.url(NUMBER)), clock)
    assert not findings["clock"].well
    assert "10800 s" in findings["clock"].sentence
    assert not findings[NODE].well


async def test_a_node_that_stands_still_is_not_well(devnet, tmp_path):
    clock = ManualClock(SystemClock().now() + timedelta(minutes=6))
    finding = (await found(settings(tmp_path, devnet.url(NUMBER)), clock))[NODE]
    assert not finding.well
    assert "old" in finding.sentence


def test_the_command_ends_with_1_when_something_is_not_well(tmp_path, capsys):
    settings(tmp_path, "http://127.0.0.1:1")
    path = tmp_path / "reconciler.toml"
    path.write_text(SETTINGS.replace("127.0.0.1:8545", "127.0.0.1:1/secret-path"))
    assert run(["doctor", "--config", str(path)]) == 1
    shown = capsys.readouterr().out
    assert "not well" in shown
    assert "well     settings: routes tusd-one" in shown
    assert "secret-path" not in shown
