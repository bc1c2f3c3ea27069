"""A shop without a client of the log sends its orders on the command line, and is told the answer."""

import json

import pytest

from reconciler.commands.order import Sent, amend, cancel, claim, place
from reconciler.kernel import Refusal
from reconciler.stream.promise import Lane, read_all
from reconciler.stream.topics import ORDERS
from reconciler.wiring import intake_of, relay_of
from tests.parts.scripted_loop import address_number
from tests.parts.service import running, service, write_settings

pytestmark = pytest.mark.usefixtures("logs_apart")
OURS = address_number(1)
ROUTE = "tusd-one"


@pytest.fixture(params=["sql", pytest.param("kafka", marks=pytest.mark.kafka)])
async def parts(request, tmp_path):
    more = ""
    if request.param == "kafka":
        cluster = request.getfixturevalue("kafka_broker")
        prefix = request.getfixturevalue("kafka_prefix")
        more = f'[stream]\nkind = "kafka"\nbootstrap = "{cluster.bootstrap}"\nprefix = "{prefix}"\n'
    async with service(write_settings(tmp_path, more=more)) as opened:
        yield opened


@pytest.fixture
def how(tmp_path):
    def made(**more):
        return Sent(**({"config": tmp_path / "reconciler.toml"} | more))

    return made


async def sent(parts):
    return [
        record
        for partition in range(parts.settings.file.stream.orders_partitions)
        for record in await read_all(parts.stream, Lane(ORDERS, partition))
    ]


async def test_an_order_is_placed_claimed_amended_and_withdrawn(parts, how, capsys):
    def event():
        said = capsys.readouterr()
        assert "sent with --key cli-" in said.err
        assert "accepted: " in said.err
        return json.loads(said.out)

    async with running(intake_of(parts).run, relay_of(parts, 0).run):
        wanted = {"amount_decimal": "25.00", "address": OURS, "lines": '[{"lot": "a"}]'}
        assert await place("o-1", ROUTE, **wanted, how=how(wait="30s")) == 0
        first = event()
        assert (first["kind"], first["sequence"], first["due"]) == ("awaiting", 1, "25000000")
        assert first["address"].lower() == OURS.lower()
        assert first["lines"] == [{"lot": "a"}]
        assert await claim("o-1", transaction="0x" + "ab" * 32, how=how()) == 0
        assert event()["phase"] == "claimed"
        assert await claim("o-1", transaction="I paid!", how=how()) == 0
        said = capsys.readouterr()
        assert "this is no transaction id; it is dropped" in said.err
        assert json.loads(said.out)["phase"] == "claimed"
        assert await amend("o-1", amount="30000000", how=how()) == 0
        assert event()["due"] == "30000000"
        assert await cancel("o-1", reason="sold out", how=how()) == 0
        assert event()["reason"] == "sold out"


async def test_what_the_intake_refuses_is_told_with_its_reason_and_exit_code_1(parts, how, capsys):
    async with running(intake_of(parts).run, relay_of(parts, 0).run):
        assert await place("o-1", "no-such-route", amount="1", how=how(wait="30s")) == 1
        assert "refused: unknown_route: No route has this name." in capsys.readouterr().err
        assert await place("o-1", ROUTE, amount="25000000", how=how()) == 1
        said = capsys.readouterr()
        assert "refused: address_missing" in said.err
        assert said.out == ""


async def test_a_command_without_its_order_is_told_to_wait(parts, how, capsys):
    async with running(intake_of(parts).run, relay_of(parts, 0).run):
        assert await claim("nobody", how=how(wait="3s")) == 1
    assert "no order has the reference nobody yet" in capsys.readouterr().err


async def test_the_same_key_is_the_same_command_and_is_answered_at_once(parts, how, capsys):
    once = {"amount": "25000000", "address": OURS, "how": how(key="k1", wait="30s")}
    async with running(intake_of(parts).run, relay_of(parts, 0).run):
        assert await place("o-1", ROUTE, **once) == 0
        first = capsys.readouterr().out
        assert await place("o-1", ROUTE, **once) == 0
        again = capsys.readouterr()
        assert (again.out, "already carried out" in again.err) == (first, True)
        assert await place("o-2", ROUTE, **once) == 1
        assert "refused: idempotency_conflict" in capsys.readouterr().err


async def test_without_an_intake_it_is_sent_and_the_exit_code_says_that_nobody_answered(
    parts, how, capsys
):
    assert await place("o-1", ROUTE, amount="1", address=OURS, how=how(wait="1ms")) == 1
    said = capsys.readouterr()
    assert "sent and may still be carried out" in said.err
    assert said.out == ""
    (record,) = await sent(parts)
    assert record.key == b"o-1"


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (lambda how: place("o 1", ROUTE, amount="1", how=how), "PlaceOrder"),
        (lambda how: place("o-1", ROUTE, amount="1", lines="[", how=how), "--lines"),
        (lambda how: place("o-1", ROUTE, amount="1", fiat='{"currency": "EUR"}', how=how), "fiat"),
        (lambda how: amend("o-1", deadline="tomorrow", how=how), "deadline"),
        (lambda how: claim("o-1", transaction="x" * 5_000, how=how), "transaction"),
    ],
)
async def test_what_no_intake_could_read_is_not_sent(parts, how, send, words):
    with pytest.raises(Refusal, match=words):
        await send(how())
    assert await sent(parts) == []
