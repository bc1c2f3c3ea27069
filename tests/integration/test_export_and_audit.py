"""What finance takes away, and whether the journal is as it was written: on both databases."""

import asyncio
import csv
import json
from datetime import timedelta

import pytest
from msgspec import Raw
from sqlalchemy import delete, insert, select, update

from reconciler.audit.journal import verify_journal
from reconciler.cli import run
from reconciler.exports.files import head, line
from reconciler.exports.rows import EXPORTS
from reconciler.services.apply_commands import apply_commands
from reconciler.services.apply_facts import apply_facts
from reconciler.storage import pages, tables
from reconciler.storage.pages import Narrowed, count_rows, snapshot
from reconciler.stream.promise import Batch, Lane, Record, partition_of
from reconciler.stream.topics import ORDERS, transfers_topic
from reconciler.wiring import context_of
from schemas.codec import encode, kind_name
from schemas.commands import Part, PlaceOrder, Split
from schemas.envelope import Envelope, to_headers
from schemas.facts import AddressCovered
from tests.parts.service import service, write_settings
from tests.parts.settings import CHAIN
from tests.parts.world import ETH, START, World, address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
async def world(url):
    """Three orders: paid, short, and unpaid; and money of a stranger."""
    made = await World.open(url)
    for number, amount in ((1, 25_000_000), (2, 40_000_000), (3, 7_000_000)):
        await made.commands(
            PlaceOrder(
                idempotency_key=made.key(),
                reference=f"o-{number}",
                route="own",
                amount=str(amount),
                address=address(number),
            )
        )
        await made.facts(made.ethereum.covered(address(number)))
    await made.mine(
        4,
        made.ethereum.seen(address(1), 25_000_000),
        made.ethereum.seen(address(2), 10_000_000),
        made.ethereum.seen(address(3), 3 * 10**17, asset=ETH),
    )
    yield made
    await made.close()


async def exported(world, kind):
    async with snapshot(world.store.engine) as work:
        assert await count_rows(work, kind) > 0
        return [row async for row in EXPORTS[kind].rows(work, world.context.catalogue, None)]


async def test_orders_are_exported_with_their_judgement(world):
    rows = await exported(world, "orders")
    assert [row["reference"] for row in rows] == ["o-1", "o-2", "o-3"]
    assert [row["phase"] for row in rows] == ["confirmed", "partially_paid", "awaiting_payment"]
    assert [row["received_final"] for row in rows] == [25_000_000, 10_000_000, 0]
    assert rows[1]["missing"] == 30_000_000
    assert rows[1]["due_decimal"] == "40.000000"
    assert rows[2]["attention"] == ["wrong_asset"]


async def test_transfers_are_exported_with_whom_they_were_given_to(world):
    rows = {row["address"]: row for row in await exported(world, "transfers")}
    assert rows[address(1)]["given_to"] == ["o-1=25000000"]
    assert rows[address(1)]["amount_decimal"] == "25.000000"
    assert rows[address(3)]["given_to"] == ["o-3=300000000000000000"], "given, and not counted"
    assert rows[address(3)]["amount_decimal"] == "0.300000000000000000"
    assert (rows[address(1)]["counted"], rows[address(3)]["counted"]) == (25_000_000, 0)
    assert rows[address(1)]["counted_for"] == ["o-1=25000000"]


async def test_what_counts_of_the_transfers_is_what_the_orders_received(world):
    """With dust, late money, another asset, a split, what is pending, and what a block took back."""
    ethereum = world.ethereum
    for number in (4, 5, 6, 7):
        await world.place(f"o-{number}")
    split = ethereum.seen(address(4), 50_000_000)
    await world.mine(
        4,
        split,
        ethereum.seen(address(4), 9_999),
        ethereum.seen(address(5), 7_000_000, asset=ETH),
        ethereum.seen(address(6), 5_000_000),
    )
    parts = (Part(reference="o-4", amount="20000000"), Part(reference="o-5", amount="30000000"))
    await world.decide(Split(transfer=split.transfer, parts=parts))
    await world.pass_time(timedelta(minutes=61))
    late = ethereum.seen(address(6), 20_000_000)
    await world.mine(3, late)
    await world.place("o-8")
    await world.mine(1, ethereum.seen(address(8), 3_000_000))
    await world.mine(1, ethereum.seen(address(8), 4_000_000))
    await world.facts(ethereum.retraction())

    orders = {row["reference"]: row for row in await exported(world, "orders")}
    transfers = await exported(world, "transfers")
    by_order = dict.fromkeys(orders, 0)
    for row in transfers:
        parts_counted = [text.split("=") for text in row["counted_for"]]
        assert row["counted"] == sum(int(amount) for _, amount in parts_counted)
        for order, amount in parts_counted:
            assert row["asset"] == orders[order]["asset"]
            by_order[order] += int(amount)
    received = {
        reference: row["received_final"] + row["received_pending"]
        for reference, row in orders.items()
    }
    assert by_order == received
    assert received["o-4"] == 20_000_000
    assert received["o-5"] == 30_000_000
    assert received["o-6"] == 5_000_000, "what came late is not counted"
    assert received["o-8"] == 7_000_000, "pending, and waited for"
    uncounted = {row["amount"] for row in transfers if row["given_to"] and not row["counted"]}
    assert {9_999, 7_000_000, 20_000_000} <= uncounted


async def test_exceptions_are_exported_with_their_sentence(world):
    (row,) = [row for row in await exported(world, "exceptions") if row["open"]]
    assert row["kind"] == "wrong_asset"
    assert row["sentence"].endswith(".")
    assert row["amount_decimal"] == "0.300000000000000000"


@pytest.mark.parametrize("kind", list(EXPORTS))
async def test_every_row_has_the_columns_of_the_head(world, kind):
    for row in await exported(world, kind):
        assert tuple(row) == EXPORTS[kind].columns
        cells = next(csv.reader([line(row, "csv")]))
        assert len(cells) == len(next(csv.reader([head(EXPORTS[kind].columns, "csv")])))
        assert tuple(json.loads(line(row, "jsonl"))) == EXPORTS[kind].columns


async def test_where_a_page_ends_changes_nothing(world, monkeypatch):
    whole = {kind: await exported(world, kind) for kind in EXPORTS}
    monkeypatch.setattr(pages, "PAGE_ROWS", 1)
    for kind, rows in whole.items():
        assert [line(row, "jsonl") for row in await exported(world, kind)] == [
            line(row, "jsonl") for row in rows
        ]


async def test_an_export_is_one_moment_whatever_is_written_meanwhile(world, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_ROWS", 1)
    async with snapshot(world.store.engine) as work:
        rows = EXPORTS["orders"].rows(work, world.context.catalogue, None)
        assert (await anext(rows))["reference"] == "o-1"
        await world.mine(3, world.ethereum.seen(address(2), 30_000_000))
        assert [row["phase"] async for row in rows] == ["partially_paid", "awaiting_payment"]
    assert [row["phase"] for row in await exported(world, "orders")][1] == "confirmed"


async def verified(world):
    async with snapshot(world.store.engine) as work:
        return await verify_journal(work, lambda _entries: None)


async def write(world, statement):
    async with world.store.engine.begin() as connection:
        await connection.execute(statement)


async def an_entry(world, kind="status"):
    journal = tables.journal
    statement = select(journal).where(journal.c.kind == kind).order_by(journal.c.id)
    async with world.store.engine.connect() as connection:
        return (await connection.execute(statement)).mappings().first()


async def test_an_untouched_journal_has_no_fault(world):
    found = await verified(world)
    assert found.faults == []
    assert found.entries > 10
    assert found.chains >= 4


async def test_a_changed_entry_is_named(world):
    entry = await an_entry(world)
    changed = update(tables.journal).where(tables.journal.c.id == entry["id"])
    await write(world, changed.values(body=entry["body"].replace(b"{", b"{ ", 1)))
    (fault,) = (await verified(world)).faults
    assert f"entry {entry['id']} of {entry['chain_key']} was changed" == fault


async def test_a_removed_entry_breaks_its_chain(world):
    entry = await an_entry(world)
    await write(world, delete(tables.journal).where(tables.journal.c.id == entry["id"]))
    faults = (await verified(world)).faults
    assert len(faults) == 1
    assert entry["chain_key"] in faults[0]


async def test_a_removed_last_entry_differs_from_the_head(world):
    journal = tables.journal
    async with world.store.engine.connect() as connection:
        statement = select(journal).where(journal.c.chain_key == "order/o-1")
        last = (
            (await connection.execute(statement.order_by(journal.c.id.desc()))).mappings().first()
        )
    await write(world, delete(journal).where(journal.c.id == last["id"]))
    (fault,) = (await verified(world)).faults
    assert fault == "the last entries of order/o-1 are missing or were changed"


async def test_an_inserted_entry_is_named(world):
    entry = dict(await an_entry(world))
    entry.pop("id")
    entry["previous_hash"] = b"\x01" * 32
    await write(world, insert(tables.journal).values(**entry))
    assert (await verified(world)).faults_total >= 2


def test_the_commands_write_a_file_and_verify(tmp_path, capsys):
    import asyncio

    from reconciler.config import load_settings
    from tests.parts.service import migrate

    path = write_settings(tmp_path)
    asyncio.run(migrate(load_settings(path, {})))
    out = tmp_path / "orders.csv"
    arguments = ["export", "orders", "--config", str(path), "--output", str(out)]
    assert run(arguments) == 0
    assert out.read_text().startswith("reference,purchase,route,")
    assert run(arguments) == 2
    assert "already" in capsys.readouterr().err
    assert run(["export", "transfers", "-c", str(path), "-f", "jsonl"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["export", "everything", "-c", str(path)]) == 2
    assert run(["audit", "verify", "-c", str(path)]) == 0
    assert "0 faults" in capsys.readouterr().err


async def test_an_export_may_be_narrowed_to_a_chain_and_a_span(world):
    late = START + timedelta(minutes=1)
    cases = {
        "orders": (Narrowed(time="placed_at", before=late), 3),
        "transfers": (Narrowed(time="first_time", chain="eip155:137"), 0),
        "exceptions": (Narrowed(time="opened_at", chain="eip155:1", since=START), 1),
    }
    for kind, (narrowed, expected) in cases.items():
        async with snapshot(world.store.engine) as work:
            rows = [r async for r in EXPORTS[kind].rows(work, world.context.catalogue, narrowed)]
            assert len(rows) == expected == await count_rows(work, kind, narrowed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["messages", "--format", "csv"], "JSON lines"),
        (["messages", "--from", "2026-11-30"], "whole"),
        (["orders", "--from", "30/11/2026"], "2026-11-30T12:00:00Z"),
        (["orders", "--from", "2026-11-30T12:00:00"], "--from"),
        (["orders", "--chain", "ethereum"], "ethereum"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_sentence(tmp_path, capsys, arguments, words):
    path = write_settings(tmp_path)
    assert run(["export", *arguments, "--config", str(path)]) == 2
    assert words in capsys.readouterr().err


async def test_messages_of_a_service_are_exported_and_told_again(tmp_path, capsys):
    """The whole way by the commands: intake applies, export writes, replay tells the same events."""
    path = write_settings(tmp_path)
    async with service(path) as parts:
        lane = Lane(transfers_topic(CHAIN), 0)
        orders = Lane(ORDERS, partition_of(b"o-1", 3))
        place = PlaceOrder(
            idempotency_key="k", reference="o-1", route="tusd-one", amount="25000000",
            address=address(1), lines=Raw(b'[\n "a machine"\n]'),
        )  # fmt: skip
        covered = AddressCovered(chain=CHAIN, address=address(1), from_height=1, from_time=START)
        context = context_of(parts.settings)
        for number, (where, message) in enumerate([(orders, place), (lane, covered)]):
            headers = to_headers(Envelope(id="", type=kind_name(message), time=START))
            record = Record(
                lane=where, offset=0, key=b"o-1" if number == 0 else address(1).encode(),
                value=encode(message), headers=headers, time=START,
            )  # fmt: skip
            batch = Batch(lane=where, records=[record], next_offset=1)
            apply = apply_commands if where == orders else apply_facts
            await apply(parts.store, context, batch, held=None)
    file = tmp_path / "messages.jsonl"
    arguments = ["--config", str(path)]
    await asyncio.to_thread(run, ["export", "messages", "-o", str(file), *arguments])
    assert len(file.read_text().splitlines()) == 2
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["export", "events", *arguments]) == 0
    told = capsys.readouterr().out
    assert '"lines":["a machine"]' in told
    assert await asyncio.to_thread(run, ["replay", str(file), *arguments]) == 0
    assert capsys.readouterr().out == told
