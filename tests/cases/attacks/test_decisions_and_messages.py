"""Attacks by messages: decisions, oversize and forged records."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.stream.promise import Lane
from reconciler.stream.topics import ORDERS
from schemas.codes import Phase
from schemas.commands import (
    Assign,
    Part,
    Split,
    WriteOff,
)
from tests.parts.attacks import ATTACKER, DUE, codes, order, raw_command
from tests.parts.world import ETHEREUM, POLYGON, SHARED, World, address

# Decisions


@pytest.mark.parametrize(
    ("actor", "reason"),
    [("", "because"), ("ada", ""), (" \t", "because"), ("\u200b", "because"), ("ada", "\u202e")],
)
async def test_attack_decision_without_a_name_or_a_reason(
    world: World, actor: str, reason: str
) -> None:
    await world.place("o-1")
    await world.place("o-2", route="shared")
    paid = world.ethereum.seen(SHARED, DUE)
    await world.mine(3, paid)
    action = {"action": "assign", "transfer": paid.transfer, "reference": "o-1"}
    content = {"idempotency_key": "d", "actor": actor, "reason": reason, "action": action}
    await raw_command(world, "Decide", content)
    assert len(await codes(world)) == 1
    assert (await world.last("o-1")).received_final == 0
    assert set(await world.open_exceptions()) == {"unmatched"}


@pytest.mark.parametrize("missing", ["actor", "reason", "action"])
async def test_attack_decision_that_leaves_a_field_out(world: World, missing: str) -> None:
    content = {
        "idempotency_key": "d",
        "actor": "ada",
        "reason": "because",
        "action": {"action": "accept_short", "reference": "o-1"},
    }
    await world.place()
    del content[missing]
    await raw_command(world, "Decide", content)
    assert len(await codes(world)) == 1
    assert await world.kinds("o-1") == ["awaiting"]


async def test_attack_decision_makes_money(world: World) -> None:
    """Parts that add up to more, one transfer for two orders, dust for a price, another's decision."""
    for name in ("o-1", "o-2"):
        await world.place(name)
    paid = world.ethereum.seen(address(1), DUE)
    await world.mine(3, paid)
    parts = tuple(Part(reference=name, amount=str(DUE)) for name in ("o-1", "o-2"))
    await world.decide(Split(transfer=paid.transfer, parts=parts))
    await world.decide(Assign(transfer=f"{ETHEREUM}/0xnone/log:0", reference="o-2"))
    negative = (parts[0], Part(reference="o-2", amount="-25000000"))
    await world.decide(Split(transfer=paid.transfer, parts=negative))
    assert len(await codes(world)) == 3
    assert (await world.last("o-1")).received_final == DUE
    assert (await world.last("o-2")).received_final == 0
    await world.decide(Assign(transfer=paid.transfer, reference="o-2"))
    received = [int((await world.last(name)).received_final) for name in ("o-1", "o-2")]
    assert sum(received) == DUE


async def test_attack_replayed_decision(world: World) -> None:
    """The same key with the same words is a repeat; with other words it is a conflict."""
    await world.place("o-1", route="shared")
    paid = world.ethereum.seen(SHARED, DUE)
    await world.mine(3, paid)
    await world.decide(WriteOff(transfer=paid.transfer), key="d-1")
    before = len(await world.exceptions())
    await world.decide(WriteOff(transfer=paid.transfer), key="d-1")
    await world.decide(Assign(transfer=paid.transfer, reference="o-1"), key="d-1")
    assert await codes(world) == ["idempotency_conflict"]
    assert len(await world.exceptions()) == before
    assert (await world.last("o-1")).received_final == 0


# Messages


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe\x00",
        b'{"idempotency_key":"k","reference":"o-9","route":"own","amount":NaN}',
        b'{"idempotency_key":"k","reference":"\\ud800","route":"own"}',
        b'{"idempotency_key":"k","reference":"o-9","route":"' + b"r" * 900_000 + b'"}',
    ],
    ids=["empty", "null", "deep", "deeper", "bytes", "nan", "surrogate", "long"],
)
async def test_attack_oversize_and_malformed_messages(each_database: World, value: bytes) -> None:
    """Each is refused by itself; what stands behind it in the same batch is applied."""
    bad = each_database.raw(Lane(ORDERS, 0), "PlaceOrder", value)
    good = each_database.record(Lane(ORDERS, 0), "o-1", order(1))
    await each_database.command_records([bad, good])
    assert await codes(each_database) == ["unreadable"]
    assert await each_database.kinds("o-1") == ["awaiting"]


@pytest.mark.parametrize(("bytes_", "code"), [(16_384, None), (16_385, "lines_too_large")])
async def test_attack_lines_that_fill_every_event(
    world: World, bytes_: int, code: str | None
) -> None:
    text = b'["' + b"x" * (bytes_ - 4) + b'"]'
    await world.commands(order(1, lines=msgspec.Raw(text)))
    assert await codes(world) == ([code] if code else [])


@pytest.mark.parametrize(
    "changes",
    [
        {"chain": POLYGON},
        {"to": ATTACKER},
        {"asset": f"{ETHEREUM}/erc20:{ATTACKER}"},
        {"transfer": f"{POLYGON}/0xforged/log:0"},
    ],
    ids=["chain", "receiver", "asset", "id"],
)
async def test_attack_forged_facts(world: World, changes: dict[str, str]) -> None:
    """Somebody may write to the topic: what contradicts itself is kept, shown and never counted."""
    to = await world.place()
    forged = msgspec.structs.replace(world.ethereum.seen(to, DUE), **changes)
    lane = world.ethereum.lanes[0]
    record = world.record(lane, to.lower(), forged)
    await world.apply_records(lane, [record])
    await world.mine(3)
    assert (await world.last()).received_final == 0
    assert "unreadable_fact" in await world.open_exceptions()


@pytest.mark.parametrize("change", [{"log_id": "log-2"}, {"parent_hash": "0xforged"}])
async def test_attack_forged_watermarks(world: World, change: dict[str, str]) -> None:
    """A block that does not follow confirms nothing, however high it claims to be."""
    to = await world.place()
    await world.facts(world.ethereum.seen(to, DUE), world.ethereum.watermark())
    height = world.ethereum.height
    await world.facts(world.ethereum.watermark(height + 100, **change))
    assert (await world.last()).phase is Phase.DETECTED
    assert set(await world.open_exceptions()) == {"coverage_gap"}
