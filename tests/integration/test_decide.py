"""A person decides on the command line; intake carries it out or refuses it."""

import pytest

from reconciler.commands.decide import Person, app, assign, hold, release, returned, split, undo
from reconciler.kernel import Refusal, SystemClock
from reconciler.stream.promise import Lane, read_all
from reconciler.stream.topics import ORDERS
from reconciler.wiring import intake_of, relay_of
from schemas.codec import decode_as
from schemas.commands import Action, Decide, Hold
from schemas.values import transfer_id
from tests.parts.service import running, service, write_settings
from tests.parts.settings import CHAIN

pytestmark = pytest.mark.usefixtures("logs_apart")
TRANSFER = transfer_id(CHAIN, "0x1", "value")


@pytest.fixture
async def parts(tmp_path):
    async with service(write_settings(tmp_path)) as opened:
        yield opened


def person(tmp_path, **more):
    said = {"actor": "Ana", "reason": "the node lies", "config": tmp_path / "reconciler.toml"}
    return Person(**(said | more))


async def sent(parts):
    found = []
    for partition in range(3):
        found += await read_all(parts.stream, Lane(ORDERS, partition))
    return found


async def test_a_decision_is_carried_out_and_its_key_shown(parts, tmp_path, capsys):
    async with running(intake_of(parts).run, relay_of(parts, 0).run):
        assert await hold(CHAIN, person=person(tmp_path)) == 0
        key = capsys.readouterr().out.split()[0]
        assert await release(CHAIN, person=person(tmp_path)) == 0
        assert await undo(key, person=person(tmp_path)) == 1, "a hold is released, not undone"


async def test_a_refused_decision_says_why_and_exits_with_1(parts, tmp_path, capsys):
    async with running(intake_of(parts).run, relay_of(parts, 0).run):
        assert await assign(TRANSFER, "no-such-order", person=person(tmp_path)) == 1
    said = capsys.readouterr()
    assert "refused: " in said.err
    assert said.out.startswith("cli-")


async def test_the_same_key_with_another_decision_is_a_conflict(parts, tmp_path, capsys):
    async with running(intake_of(parts).run, relay_of(parts, 0).run):
        assert await hold(CHAIN, person=person(tmp_path, key="k1")) == 0
        assert await hold(CHAIN, person=person(tmp_path, key="k1", wait="1s")) == 0
        assert "used before" in capsys.readouterr().err
        assert await hold(CHAIN, person=person(tmp_path, key="k1", reason="another")) == 1
        assert "k1" in capsys.readouterr().err


async def test_without_an_intake_the_decision_is_sent_and_the_exit_code_says_that_nobody_answered(
    parts, tmp_path, capsys
):
    assert await hold(CHAIN, person=person(tmp_path, wait="1ms")) == 1
    said = capsys.readouterr().err
    assert "is sent and may still be carried out" in said
    assert "are an intake and a relay running?" in said
    (record,) = await sent(parts)
    command = decode_as(Decide, record.value)
    assert (command.actor, command.reason, command.action) == (
        "Ana",
        "the node lies",
        Hold(subject=CHAIN),
    )
    assert record.key == CHAIN.encode()
    assert record.time <= SystemClock().now()


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (lambda p: split(TRANSFER, ["a=1", "b"], person=p), "ORDER=AMOUNT"),
        (lambda p: split(TRANSFER, ["a=1"], person=p), "length"),
        (lambda p: split(TRANSFER, ["a b=1", "c=2"], person=p), "parts"),
        (lambda p: returned(TRANSFER, " ", person=p), "TRANSACTION: expected words"),
        (lambda p: assign("0x1", "order", person=p), "a transfer's id such as"),
    ],
)
async def test_what_is_no_decision_is_not_sent(parts, tmp_path, decision, words):
    with pytest.raises(Refusal, match=words):
        await decision(person(tmp_path))
    assert await sent(parts) == []


@pytest.mark.parametrize(
    "change", [{"actor": ""}, {"actor": " "}, {"reason": "  \u200b"}, {"wait": "10"}]
)
async def test_a_decision_needs_a_name_a_reason_and_a_span(parts, tmp_path, change):
    with pytest.raises(Refusal):
        await hold(CHAIN, person=person(tmp_path, **change))
    assert await sent(parts) == []


def test_every_action_of_a_person_has_its_command():
    actions = {kind.__struct_config__.tag.replace("_", "-") for kind in Action.__args__}
    assert actions <= set(app)
