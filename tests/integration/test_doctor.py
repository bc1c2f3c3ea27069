"""What `doctor` says of a service's parts, with real ones in their place."""

from datetime import timedelta

import pytest

from chains.devnet import Devnet
from reconciler.cli import run
from reconciler.commands.doctor import examine
from reconciler.kernel import ManualClock, SystemClock
from reconciler.services.apply_commands import apply_commands
from reconciler.services.apply_facts import apply_facts
from reconciler.storage import schema_version
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Batch, Lane
from reconciler.stream.topics import ORDERS, transfers_topic
from reconciler.wiring import context_of, open_engine, open_stream
from tests.parts.derived import KEY, address_at, place
from tests.parts.settings import CHAIN, OTHER_CHAIN, SETTINGS, TOKEN, settings_of
from tests.parts.world import Chain, World

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


def settings(tmp_path, url, more="", text=SETTINGS):
    text = text.replace("sqlite+aiosqlite:///reconciler.db", f"sqlite+aiosqlite:///{tmp_path}/r.db")
    text = text.replace("http://127.0.0.1:8545", url)
    return settings_of(text.replace("[catalogue]", more + "[catalogue]"), tmp_path)


async def found(made, clock=None):
    return {finding.part: finding async for finding in examine(made, clock or SystemClock())}


async def migrate(made):
    async with open_engine(made) as engine:
        await schema_version.migrate(engine)
        async with open_stream(made, engine) as stream:
            await stream.create_topics(made.topic_specs())


def deriving(tmp_path, url, first_index=0):
    text = SETTINGS.replace(
        'deposit = { mode = "given" }',
        f'deposit = {{ mode = "derived", xpub = "{KEY}", first_index = {first_index} }}',
    )
    return settings(tmp_path, url, text=text)


async def of_route(made):
    """What is said of the route: its first addresses, and how far the wallet has to look."""
    findings = [finding async for finding in examine(made, SystemClock())]
    assert all(finding.well for finding in findings), findings
    return [finding.sentence for finding in findings if finding.part == "route tusd-one"]


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


async def test_a_derived_route_shows_the_first_addresses_to_compare_with_the_wallet(
    devnet, tmp_path
):
    made = deriving(tmp_path, devnet.url(NUMBER), first_index=5)
    await migrate(made)
    first, gap = await of_route(made)
    assert first == (
        "compare with the wallet's first addresses: "
        "0/0 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266, "
        "0/1 0x70997970C51812dc3A010C7d01b50e0d17dc79C8, "
        "0/2 0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC; wallets have them below m/44'/60'/0'"
    )
    assert gap == "no address of its key was handed out yet"


async def test_unpaid_orders_make_a_gap_that_a_wallet_does_not_see_behind(devnet, tmp_path):
    made = deriving(tmp_path, devnet.url(NUMBER))
    await migrate(made)
    world = World.without_database()
    orders = [place(n, "tusd-one") for n in range(25)]
    async with open_engine(made) as engine:
        store, context = Store(engine), context_of(made)
        await apply(store, context, world, Lane(ORDERS, 0), *orders[:20])
        assert (await of_route(made))[1] == "the last address of its key is 0/19, none was paid"
        await apply(store, context, world, Lane(ORDERS, 0), *orders[20:])
        said = (await of_route(made))[1]
        assert said.startswith(
            "note: the last address of its key is 0/24, none was paid: 25 unpaid"
        )
        assert "20 ahead (BIP 44)" in said
        paid = Chain(world, CHAIN, 1).seen(address_at(4), 25_000_000, asset=TOKEN)
        await apply(store, context, world, Lane(transfers_topic(CHAIN), 0), paid)
        assert (await of_route(made))[1] == (
            "the last address of its key is 0/24, the highest that was paid is 0/4"
        )


async def apply(store, context, world, lane, *messages):
    records = [
        world.record(lane, getattr(m, "to", getattr(m, "reference", "")).lower(), m)
        for m in messages
    ]
    held = records[0].offset or None
    batch = Batch(lane=lane, records=records, next_offset=records[-1].offset + 1)
    apply_batch = apply_commands if lane.topic == ORDERS else apply_facts
    await apply_batch(store, context, batch, held=held)
