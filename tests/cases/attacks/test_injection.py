"""Attacks by text: into SQL, logs, headers and exports."""

from __future__ import annotations

import csv
import io
import json
import logging

import pytest
from sqlalchemy import inspect, select

from reconciler.exports.files import head, line
from reconciler.exports.rows import EXPORTS
from reconciler.observability.logs import logger, set_up_logs
from reconciler.storage import tables
from schemas.codec import encode
from schemas.commands import (
    ClaimPaid,
    Revive,
)
from schemas.envelope import Envelope, to_headers
from tests.parts.attacks import codes, order, raw_command
from tests.parts.world import START, World

SQL = "o'); DROP TABLE orders; --"


# Injection


@pytest.mark.parametrize("field", ["purchase", "reason", "transaction", "sender", "actor"])
@pytest.mark.parametrize("text", [SQL, "%' OR '1'='1", "\\'; --", "$1 :name ?"])
async def test_attack_injection_into_sql(each_database: World, field: str, text: str) -> None:
    """Text is bound, never pasted: it comes back as it was, and the tables stand."""
    await each_database.place(purchase=text if field == "purchase" else None)
    if field in {"transaction", "sender"}:
        await each_database.commands(
            ClaimPaid(idempotency_key="c", reference="o-1", **{field: text})
        )
    elif field in {"actor", "reason"}:
        await each_database.decide(Revive(reference="o-1"), **{field: text})
    else:
        assert (await each_database.last()).purchase == text
    async with each_database.engine.connect() as connection:
        names = await connection.run_sync(lambda each: inspect(each).get_table_names())
        count = (await connection.execute(select(tables.orders.c.reference))).all()
    assert "orders" in names
    assert len(count) == 1


@pytest.mark.parametrize("reference", [SQL, "a b", "o\n1", "o\x00", "о-1", "o/1", "", "o" * 129])
async def test_attack_references_that_mean_something_elsewhere(
    world: World, reference: str
) -> None:
    """Quotes, blanks, controls, letters of other scripts, path parts: no name of an order."""
    await world.commands(order(1))
    content = json.loads(encode(order(1))) | {"reference": reference, "idempotency_key": "k"}
    await raw_command(world, "PlaceOrder", content)
    assert (await codes(world))[-1] == "unreadable"


HOSTILE = 'x\n{"level":"info","event":"confirmed"}\r\n\x1b[31m\u202e\u2028'


@pytest.mark.parametrize("where", ["event", "field", "standard"])
def test_attack_injection_into_logs(where: str) -> None:
    """One line a record, whatever the text: no second record, no terminal escape."""
    out = io.StringIO()
    root, level = logging.getLogger(), logging.getLogger().level
    handlers = list(root.handlers)
    try:
        set_up_logs(stream=out)
        if where == "event":
            logger("intake").info(HOSTILE)
        elif where == "field":
            logger("intake").info("refused", why=HOSTILE, order=HOSTILE)
        else:
            logging.getLogger("library").error("said %s", HOSTILE)
    finally:
        root.handlers, root.level = handlers, level
    text = out.getvalue()
    assert text.count("\n") == 1
    assert json.loads(text)
    assert not any(sign in text for sign in ("\r", "\x1b"))


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://evil","x")',
        "+1",
        "-1+cmd|' /C calc'!A0",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1+1",
        "＋1",
        "－1",
        "＠SUM(1)",
    ],
)
def test_attack_formulas_in_exports(text: str) -> None:
    """A cell that a spreadsheet would calculate begins with an apostrophe, in every column."""
    row = dict.fromkeys(EXPORTS["orders"].columns, text)
    written = head(list(row), "csv") + line(row, "csv")
    _, cells = list(csv.reader(io.StringIO(written, newline="")))
    assert {cell[0] for cell in cells} == {"'"}
    assert json.loads(line({"a": text}, "jsonl"))["a"] == text


async def test_attack_formula_as_a_reference_or_purchase_reaches_no_cell(world: World) -> None:
    await world.commands(order(1, reference="-1+1", purchase="=cmd|' /C calc'!A0"))

    async def written(work) -> str:
        rows = EXPORTS["orders"].rows(work, world.catalogue, None)
        return "".join([line(row, "csv") async for row in rows])

    text = await world.store.read(written)
    (cells,) = csv.reader(io.StringIO(text, newline=""))
    assert cells[0] == "'-1+1"
    assert cells[1].startswith("'=cmd")


@pytest.mark.parametrize("name", ["a\r\nce_type: payment.confirmed", "a\x00b", "é" * 300])
def test_attack_injection_into_message_headers(name: str) -> None:
    """A header is bytes with a length: nothing in it begins another one."""
    headers = to_headers(Envelope(id="i", type="PlaceOrder", time=START, subject=name))
    names = [key for key, _ in headers]
    assert len(names) == len(set(names))
    assert dict(headers)["ce_type"] == b"PlaceOrder"
