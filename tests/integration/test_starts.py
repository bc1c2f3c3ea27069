"""When a process refuses to start."""

import asyncio
import socket

import pytest
from sqlalchemy import insert

from reconciler.cli import run
from reconciler.config import load_settings
from reconciler.kernel import Refusal, SystemClock
from reconciler.services.apply_commands import apply_commands
from reconciler.services.seal_journal import publish_seals, seal_journal
from reconciler.storage import tables
from reconciler.storage.seals import seals_after
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Batch, Lane, TopicsDiffer
from reconciler.stream.topics import ORDERS
from reconciler.wiring import context_of, open_engine, open_parts
from tests.parts.derived import KEY, place
from tests.parts.ports import free_ports
from tests.parts.service import migrate, write_settings
from tests.parts.settings import CHAIN, OTHER_CHAIN, SETTINGS
from tests.parts.world import World


async def opened(path):
    async with open_parts(load_settings(path, {}), clock=SystemClock()):
        return True


async def test_a_migrated_service_starts(tmp_path):
    path = write_settings(tmp_path)
    await migrate(load_settings(path, {}))
    assert await opened(path)


async def test_topics_that_were_made_otherwise_are_named(tmp_path):
    await migrate(load_settings(write_settings(tmp_path), {}))
    path = write_settings(tmp_path, more="[stream]\nevents_partitions = 7\n")
    with pytest.raises(TopicsDiffer, match=r"payment-events.*migrate"):
        await opened(path)


async def open_order(settings, *, route, chain, is_open=True):
    now = SystemClock().now()
    async with open_engine(settings) as engine, engine.begin() as connection:
        await connection.execute(
            insert(tables.orders).values(
                reference="o-1",
                route=route,
                chain=chain,
                asset="a",
                lane="l",
                family="eip155",
                address_key="0x1",
                phase="claimed" if is_open else "expired",
                is_open=is_open,
                sequence=1,
                assessed_seq=1,
                waits=False,
                page_token="t",
                placed_at=now,
                state=b"",
                journal_hash=b"",
            )
        )


@pytest.mark.parametrize(
    ("route", "chain"), [("gone", CHAIN), ("tusd-one", OTHER_CHAIN), ("gone", OTHER_CHAIN)]
)
async def test_open_orders_need_their_route_and_chain(tmp_path, route, chain):
    path = write_settings(tmp_path)
    settings = load_settings(path, {})
    await migrate(settings)
    await open_order(settings, route=route, chain=chain)
    with pytest.raises(Refusal) as refused:
        await opened(path)
    assert (route == "gone") == ("route 'gone'" in str(refused.value))
    assert (chain == OTHER_CHAIN) == (f"chain {OTHER_CHAIN}" in str(refused.value))


async def test_orders_that_have_ended_need_nothing_of_the_settings(tmp_path):
    path = write_settings(tmp_path)
    settings = load_settings(path, {})
    await migrate(settings)
    await open_order(settings, route="gone", chain=CHAIN, is_open=False)
    assert await opened(path)


@pytest.mark.parametrize("command", ["intake", "relay"])
def test_a_process_without_its_tables_says_so_in_one_sentence(tmp_path, command, capsys):
    path = write_settings(tmp_path)
    assert run([command, "--config", str(path), "--port", "0"]) in {1, 2}
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "run `reconciler migrate`" in said
    assert "SELECT" not in said


def test_a_shard_that_is_not_there_is_refused(tmp_path, capsys):
    path = write_settings(tmp_path)
    assert run(["relay", "--config", str(path), "--shard", "1"]) == 2
    assert "expected 0 to 0, found 1" in capsys.readouterr().err


READS = [
    ["export", "orders"],
    ["audit", "verify"],
    ["watch", CHAIN, "--again", "1", "2"],
    ["decide", "hold", CHAIN, "--actor", "Ana", "--reason", "r"],
]


@pytest.mark.parametrize("arguments", READS, ids=lambda arguments: arguments[0])
def test_a_command_on_an_empty_database_says_what_to_run(arguments, tmp_path, capsys):
    path = write_settings(tmp_path)
    assert run([*arguments, "--config", str(path)]) == 2
    assert "run `reconciler migrate`" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [*READS, ["relay"]], ids=lambda arguments: arguments[0])
def test_a_database_that_is_away_is_no_fault_of_the_settings(arguments, tmp_path, capsys):
    url = f"postgresql+asyncpg://reconciler:hidden-word@127.0.0.1:{free_ports(1)[0]}/reconciler"
    text = SETTINGS.replace("sqlite+aiosqlite:///reconciler.db", url)
    path = write_settings(tmp_path, text=text)
    assert run([*arguments, "--config", str(path)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("reconciler: database.url: ")
    assert "postgresql gives no answer: " in said
    assert "hidden-word" not in said


@pytest.mark.parametrize("arguments", [*READS, ["relay"]], ids=lambda arguments: arguments[0])
def test_a_folder_in_place_of_the_database_is_one_sentence(arguments, tmp_path, capsys):
    path = write_settings(tmp_path)
    (tmp_path / "reconciler.db").mkdir()
    assert run([*arguments, "--config", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "expected a file, found the folder" in said


def test_a_port_that_is_taken_is_named_with_the_way_out(tmp_path, capsys):
    path = write_settings(tmp_path)
    asyncio.run(migrate(load_settings(path, {})))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert run(["intake", "--config", str(path), "--port", port]) == 2
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}" in said
    assert "--port" in said


DERIVED = SETTINGS.replace(
    'deposit = { mode = "given" }', f'deposit = {{ mode = "derived", xpub = "{KEY}" }}'
)
SEALED = '[journal]\nseals = "seals.jsonl"\n'


async def seal_another(settings):
    """Apply something, seal it and let the seal leave, as a running service does."""
    async with open_engine(settings) as engine:
        store = Store(engine)
        number = len(await store.read(lambda work: seals_after(work, 0, limit=99)))
        order = place(number, "tusd-one")
        world = World.without_database()
        lane = Lane(ORDERS, number % 3)
        batch = Batch(lane=lane, records=[world.record(lane, "k", order)], next_offset=1)
        await apply_commands(store, context_of(settings), batch, held=None)
        await seal_journal(store, key=None, now=SystemClock().now())
        await publish_seals(store, settings.seals)


async def test_a_restored_database_hands_no_address_out_where_its_log_was_restored_too(tmp_path):
    path = write_settings(tmp_path, text=DERIVED, more=SEALED)
    settings = load_settings(path, {})
    await migrate(settings)
    assert await opened(path), "nothing was sealed yet"
    await seal_another(settings)
    assert await opened(path)
    database = tmp_path / "reconciler.db"
    backup = database.read_bytes()
    await seal_another(settings)
    assert await opened(path)
    database.write_bytes(backup)
    refusal = r"seals\.jsonl ends .* restored .* tusd-one .* deposit\.first_index"
    with pytest.raises(Refusal, match=refusal):
        await opened(path)
    kept = tmp_path / "seals.jsonl"
    moved = kept.rename(tmp_path / "seals-before-the-restore.jsonl")
    assert await opened(path), "somebody has looked"
    await seal_another(settings)
    moved.rename(kept)
    with pytest.raises(Refusal, match=refusal):
        await opened(path)  # the same number, and another seal


async def test_a_restored_database_starts_where_nothing_is_derived(tmp_path):
    path = write_settings(tmp_path, more=SEALED)
    settings = load_settings(path, {})
    await migrate(settings)
    (tmp_path / "seals.jsonl").write_text(
        '{"number":7,"hash":"00","signature":"","body":{"number":7}}\n'
    )
    assert await opened(path)


async def test_a_file_of_seals_that_cannot_be_read_is_named(tmp_path):
    path = write_settings(tmp_path, text=DERIVED, more=SEALED)
    await migrate(load_settings(path, {}))
    (tmp_path / "seals.jsonl").write_text("no seal\n")
    with pytest.raises(Refusal, match=r"journal\.seals: its last line is no seal"):
        await opened(path)
