"""What finance takes away, and whether the journal is as it was written: on both databases."""

import csv
import json

import pytest
from sqlalchemy import delete, insert, select, update

from reconciler.audit.journal import verify_journal
from reconciler.cli import run
from reconciler.exports.files import head, line
from reconciler.exports.rows import EXPORTS
from reconciler.storage import pages, tables
from reconciler.storage.pages import count_rows, snapshot
from schemas.commands import PlaceOrder
from tests.parts.service import write_settings
from tests.parts.world import ETH, World, address


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
        return [row async for row in EXPORTS[kind].rows(work, world.context.catalogue)]


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
        rows = EXPORTS["orders"].rows(work, world.context.catalogue)
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
