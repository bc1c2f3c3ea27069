"""Seals and what they find: on both databases, with a real journal of a small service."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest
from sqlalchemy import delete, func, insert, select, update

from reconciler.audit.events import verify_events
from reconciler.audit.journal import hash_of, verify_journal
from reconciler.audit.published import verify_published
from reconciler.cli import run
from reconciler.intake.sealer import Sealer, SealingTerms
from reconciler.kernel import ManualClock
from reconciler.observability import metrics
from reconciler.observability.metrics import Meters
from reconciler.services.seal_journal import publish_seals, seal_journal
from reconciler.storage import seals, tables
from reconciler.storage.pages import pages, snapshot
from reconciler.storage.seal_file import SealFileError, append_seals, published_seals
from reconciler.storage.seals import SealingKey, read_body
from schemas.commands import PlaceOrder
from tests.parts.service import service, write_settings
from tests.parts.world import START, World, address

KEY = SealingKey("5ea1" * 16)
JOURNAL, SEALS, OUTBOX = tables.journal, tables.seals, tables.outbox


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


async def place(world, number):
    await world.commands(
        PlaceOrder(
            idempotency_key=world.key(),
            reference=f"o-{number}",
            route="own",
            amount="25000000",
            address=address(number),
        )
    )
    await world.facts(world.ethereum.covered(address(number)))


@pytest.fixture
async def world(url):
    """Two orders, the first one paid and confirmed."""
    made = await World.open(url)
    for number in (1, 2):
        await place(made, number)
    await made.mine(4, made.ethereum.seen(address(1), 25_000_000))
    yield made
    await made.close()


async def seal(world, **more):
    return await seal_journal(world.store, key=KEY, now=START, **more)


async def verified(world, public_hex=KEY.public_hex):
    async with snapshot(world.store.engine) as work:
        return await verify_journal(work, lambda _entries: None, public_hex=public_hex)


async def events_verified(world):
    found = await verified(world)
    async with snapshot(world.store.engine) as work:
        await verify_events(work, lambda _entries: None, found)
    return found.faults


async def write(world, *statements):
    async with world.store.engine.begin() as connection:
        for statement in statements:
            await connection.execute(statement)


async def rows_of(world, table, *order):
    async with world.store.engine.connect() as connection:
        return (await connection.execute(select(table).order_by(*order))).mappings().all()


async def bodies(world):
    return [read_body(row["body"]) for row in await rows_of(world, SEALS, SEALS.c.number)]


# Sealing


async def test_every_entry_is_sealed_once_and_nothing_new_makes_no_seal(world):
    total = len(await rows_of(world, JOURNAL, JOURNAL.c.id))
    assert await seal(world, entries_max=5) == -(-total // 5)
    assert await seal(world) == 0
    await place(world, 3)
    assert await seal(world) == 1
    found = await bodies(world)
    ids = [n for body in found for first, last in body.spans for n in range(first, last + 1)]
    assert ids == [row["id"] for row in await rows_of(world, JOURNAL, JOURNAL.c.id)]
    assert found[-1].entries == len(ids) - total
    assert {head.chain for head in found[-1].heads} == {
        "order/o-3",
        f"address/eip155/{address(3)}",
    }, "a seal costs what is new, and names the chains that moved"
    outcome = await verified(world)
    assert (outcome.faults, outcome.unsealed, outcome.seals) == ([], 0, len(found))


async def test_the_sealed_heads_are_those_of_the_chains(world):
    await seal(world, entries_max=4)
    heads = {head.chain: head.hash for body in await bodies(world) for head in body.heads}
    orders = await rows_of(world, tables.orders, tables.orders.c.reference)
    for order in orders:
        assert heads[f"order/{order['reference']}"] == order["journal_hash"].hex()


async def test_two_that_seal_at_once_make_one_line_of_seals(world):
    made = await asyncio.gather(*(seal(world, entries_max=2) for _ in range(3)))
    assert sum(made) == len(await bodies(world)) > 3
    assert (await verified(world)).faults == []


async def test_an_entry_that_commits_late_under_a_lower_id_is_not_skipped(postgres_url):
    world = await World.open(postgres_url)
    drew_its_id, may_commit = asyncio.Event(), asyncio.Event()

    async def slow(work):
        await work.lock_journal(exclusive=False)
        await work.connection.execute(insert(JOURNAL).values(**entry("slow")))
        drew_its_id.set()
        await may_commit.wait()

    async def quick(work):
        await work.lock_journal(exclusive=False)
        await work.connection.execute(insert(JOURNAL).values(**entry("quick")))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(world.store.run(slow))
        await drew_its_id.wait()
        await world.store.run(quick)
        sealing = tasks.create_task(seal(world))
        await waiting_for_a_lock(world)
        assert not sealing.done(), "a seal of now would close the journal over a hole"
        may_commit.set()
    chains = {head.chain for body in await bodies(world) for head in body.heads}
    assert chains == {"quick", "slow"}
    await world.close()


async def waiting_for_a_lock(world):
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    async with world.engine.connect() as connection:
        while not (await connection.exec_driver_sql(query)).scalar_one():
            await connection.rollback()
            await asyncio.sleep(0.01)


def entry(chain):
    return {
        "seq": 1,
        "chain_key": chain,
        "kind": "fact",
        "recorded_at": START,
        "body": b"{}",
        "previous_hash": bytes(32),
        "hash": chain.encode().ljust(32, b"\0"),
    }


async def test_a_rolled_back_id_is_a_hole_and_no_fault(world):
    async def broken(work):
        await work.connection.execute(insert(JOURNAL).values(**entry("gone")))
        message = "rolled back"
        raise RuntimeError(message)

    with pytest.raises(RuntimeError):
        await world.store.run(broken)
    await place(world, 3)
    await seal(world)
    assert (await verified(world)).faults == []


# What a hand leaves behind


async def an_entry(world, chain="order/o-1", place=2):
    found = await rows_of(world, JOURNAL, JOURNAL.c.id)
    return dict([row for row in found if row["chain_key"] == chain][place])


def at(row):
    return JOURNAL.c.id == row["id"]


CHANGES = {
    "body": lambda row: {"body": row["body"].replace(b"25000000", b"25000001", 1)},
    "kind": lambda _row: {"kind": "note"},
    "number": lambda row: {"seq": row["seq"] + 1},
    "time": lambda row: {"recorded_at": row["recorded_at"] + timedelta(seconds=1)},
    "hash": lambda _row: {"hash": b"\x01" * 32},
}


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("what", CHANGES)
async def test_a_flipped_row_is_named_first(world, what, sealed):
    if sealed:
        await seal(world)
    row = await an_entry(world)
    await write(world, update(JOURNAL).where(at(row)).values(**CHANGES[what](row)))
    assert (await verified(world)).faults[0].startswith(f"entry {row['id']} of order/o-1 ")


@pytest.mark.parametrize("place", [0, 2, -1])
async def test_a_deleted_row_is_named_by_its_id_once_it_is_sealed(world, place):
    await seal(world)
    row = await an_entry(world, place=place)
    await write(world, delete(JOURNAL).where(at(row)))
    assert any(f"entry {row['id']}" in f and "missing since seal 1" in f
               for f in (await verified(world)).faults)  # fmt: skip


async def test_an_added_row_is_named_in_a_hole_and_behind(world):
    await seal(world)
    last = (await rows_of(world, JOURNAL, JOURNAL.c.id))[-1]["id"]
    row = await an_entry(world)
    await write(world, delete(JOURNAL).where(at(row)))
    fake = {**entry("order/o-9"), "id": row["id"]}
    await write(world, insert(JOURNAL).values(**fake))
    assert f"entry {row['id']} of order/o-9 was changed" in (await verified(world)).faults
    await write(world, insert(JOURNAL).values(**entry("order/o-8"), id=last + 1))
    assert any("order/o-8" in fault for fault in (await verified(world)).faults)


async def test_rows_in_another_order_are_named(world):
    await seal(world)
    one, two = await an_entry(world, place=1), await an_entry(world, place=2)
    spare = 10**6
    await write(
        world,
        update(JOURNAL).where(at(one)).values(id=spare),
        update(JOURNAL).where(at(two)).values(id=one["id"]),
        update(JOURNAL).where(JOURNAL.c.id == spare).values(id=two["id"]),
    )
    faults = (await verified(world)).faults
    assert faults[0].startswith(f"entry {one['id']} of order/o-1 ")


async def rewrite_chain(world, chain, place, change):
    """Change an entry and write its chain anew to the head, as one who can write the database would."""
    async with snapshot(world.store.engine) as work:
        from reconciler.audit.journal import Entry

        entries = [e async for page in pages(work, Entry, "journal", "id") for e in page]
    mine = [each for each in entries if each.chain_key == chain]
    mine[place].body = change(mine[place].body)
    previous = mine[place].previous_hash
    for each in mine[place:]:
        each.previous_hash = previous
        previous = each.hash = hash_of(each)
    statements = [
        update(JOURNAL)
        .where(JOURNAL.c.id == each.id)
        .values(body=each.body, previous_hash=each.previous_hash, hash=each.hash)
        for each in reversed(mine[place:])
    ]
    orders = tables.orders
    head = update(orders).where(orders.c.reference == chain.removeprefix("order/"))
    await write(world, *statements, head.values(journal_hash=previous))
    return mine[place].id


async def test_a_chain_that_was_written_anew_to_its_head_is_found_by_the_seal_alone(world):
    def cheaper(body):
        return body.replace(b"25000000", b"99000000")

    unsealed = await rewrite_chain(world, "order/o-2", 0, cheaper)
    assert (await verified(world)).faults == [], "chained only: this is what seals are for"
    await rewrite_chain(world, "order/o-2", 0, lambda body: body.replace(b"99000000", b"25000000"))
    await seal(world)
    touched = await rewrite_chain(world, "order/o-2", 0, cheaper)
    assert touched == unsealed
    assert (await verified(world)).faults[
        0
    ] == f"entry {touched} of order/o-2 is not what seal 1 saw"


async def test_a_tail_that_was_taken_away_behind_the_last_seal_is_said_to_be_unsealed(world):
    await seal(world)
    before = await verified(world)
    assert before.unsealed == 0
    await place(world, 3)
    after = await verified(world)
    assert after.unsealed > 0
    chains = (JOURNAL.c.chain_key == "order/o-3", JOURNAL.c.chain_key.contains(address(3)))
    await write(world, *(delete(JOURNAL).where(each) for each in chains))
    faults = (await verified(world)).faults
    assert any("order/o-3" in fault for fault in faults), "the order's row still has its head"
    await write(
        world,
        delete(tables.orders).where(tables.orders.c.reference == "o-3"),
        delete(tables.addresses).where(tables.addresses.c.key == address(3)),
    )
    found = await verified(world)
    assert (found.faults, found.unsealed) == ([], 0), "nobody can tell, and the command says so"


async def test_an_order_that_was_taken_away_leaves_its_chain(world):
    await write(world, delete(tables.orders).where(tables.orders.c.reference == "o-2"))
    assert (await verified(world)).faults == ["order/o-2 has entries and is not there any more"]


# Seals themselves


async def sealed_thrice(world):
    await seal(world)
    for number in (3, 4):
        await place(world, number)
        await seal(world)
    assert (await verified(world)).seals == 3


async def test_a_changed_seal_is_named(world):
    await sealed_thrice(world)
    (row, *_) = [r for r in await rows_of(world, SEALS, SEALS.c.number) if r["number"] == 2]
    body = row["body"].replace(b'"number":2', b'"number": 2')
    await write(world, update(SEALS).where(SEALS.c.number == 2).values(body=body))
    assert (await verified(world)).faults[0] == "seal 2 was changed"


async def test_a_changed_seal_with_a_hash_of_its_own_breaks_the_line_and_the_signature(world):
    await sealed_thrice(world)
    (row, *_) = [r for r in await rows_of(world, SEALS, SEALS.c.number) if r["number"] == 2]
    body = row["body"].replace(b'"number":2', b'"number": 2')
    change = {"body": body, "hash": seals.seal_hash(body)}
    await write(world, update(SEALS).where(SEALS.c.number == 2).values(**change))
    faults = (await verified(world)).faults
    assert any("seal 2 is not signed by" in fault for fault in faults)
    assert "seal 3 does not follow the one before it" in faults


async def test_a_deleted_seal_is_missed(world):
    await sealed_thrice(world)
    await write(world, delete(SEALS).where(SEALS.c.number == 2))
    assert any(fault.startswith("seal 2 is missing") for fault in (await verified(world)).faults)


async def test_an_added_seal_needs_the_key(world):
    await sealed_thrice(world)
    await place(world, 5)
    other = SealingKey("0bad" * 16)
    await seal_journal(world.store, key=other, now=START)
    (fault,) = (await verified(world)).faults
    assert fault.startswith("seal 4 is not signed by")
    assert (await verified(world, other.public_hex)).faults_total == 3


async def test_seals_without_a_key_are_hashed_and_counted_as_unsigned(world):
    await seal_journal(world.store, key=None, now=START)
    found = await verified(world, None)
    assert (found.faults, found.unsigned) == ([], 1)
    assert (await verified(world)).faults == ["seal 1 is not signed"]


# Outside the database


async def published(world, path):
    found = await verified(world)
    async with snapshot(world.store.engine) as work:
        await verify_published(work, path, found)
    return found.faults


async def test_seals_are_published_once_each_and_a_late_start_catches_up(world, tmp_path):
    path = tmp_path / "seals.jsonl"
    await sealed_thrice(world)
    assert await publish_seals(world.store, path) == 3
    assert await publish_seals(world.store, path) == 0
    await place(world, 5)
    await seal(world)
    await asyncio.gather(*(publish_seals(world.store, path) for _ in range(3)))
    assert [line.number for line in published_seals(path)] == [1, 2, 3, 4]
    assert await published(world, path) == []


async def test_a_line_that_a_crash_has_cut_comes_again_whole(world, tmp_path):
    path = tmp_path / "seals.jsonl"
    await sealed_thrice(world)
    await publish_seals(world.store, path)
    path.write_bytes(path.read_bytes()[:-100])
    assert await publish_seals(world.store, path) == 1
    assert [line.number for line in published_seals(path)] == [1, 2, 3]
    assert await published(world, path) == []


async def test_a_database_of_the_day_before_is_found_by_what_was_published(world, tmp_path):
    path = tmp_path / "seals.jsonl"
    await sealed_thrice(world)
    await publish_seals(world.store, path)
    last = (await bodies(world))[1].last_id
    await write(
        world,
        delete(SEALS).where(SEALS.c.number == 3),
        delete(JOURNAL).where(JOURNAL.c.id > last),
        delete(tables.orders).where(tables.orders.c.reference == "o-4"),
        delete(tables.addresses).where(tables.addresses.c.key == address(4)),
    )
    assert (await verified(world)).faults == []
    assert await published(world, path) == ["published seal 3 is not in the database"]
    await place(world, 5)
    await seal(world)
    assert "published seal 3 is another one than the database's" in await published(world, path)
    await place(world, 6)
    await seal(world)
    with pytest.raises(SealFileError, match="ends with seal 3"):
        await publish_seals(world.store, path)


async def test_a_changed_file_is_named(world, tmp_path):
    path = tmp_path / "seals.jsonl"
    await sealed_thrice(world)
    await publish_seals(world.store, path)
    path.write_text(path.read_text().replace('"last_id":', '"last_id": ', 1))
    assert await published(world, path) == [f"published seal 1 was changed in {path}"]
    path.write_text("no seal\n")
    assert "line 1" in (await published(world, path))[0]
    with pytest.raises(SealFileError, match="no seal"):
        append_seals(path, [])


async def test_the_sealer_seals_in_its_interval_and_says_when(world, tmp_path):
    clock, meters = ManualClock(START), Meters()
    terms = SealingTerms(every=timedelta(minutes=1), key=KEY, file=tmp_path / "seals.jsonl")
    sealer = Sealer(terms, store=world.store, clock=clock, meters=meters)
    task = asyncio.create_task(sealer.run())
    for number in (3, 4):
        while not clock.sleepers:
            await asyncio.sleep(0)
        await place(world, number)
        clock.advance(timedelta(minutes=1))
        while meters.value(metrics.JOURNAL_SEALS) < number - 2:
            await asyncio.sleep(0.001)
    task.cancel()
    assert meters.value(metrics.JOURNAL_SEALED_TIMESTAMP) == clock.now().timestamp()
    assert [line.number for line in published_seals(tmp_path / "seals.jsonl")] == [1, 2]


# Events


async def test_events_are_those_of_the_journal(world):
    assert await events_verified(world) == []


async def an_event(world, number=1):
    found = [r for r in await rows_of(world, OUTBOX, OUTBOX.c.id) if r["topic"] == "payment-events"]
    return dict(found[number])


async def test_an_event_that_was_changed_or_taken_away_is_named(world):
    row = await an_event(world)
    name = f"event {json.loads(row['value'])['sequence']} of {row['key'].decode()}"
    value = row["value"].replace(b"25000000", b"25000001")
    await write(world, update(OUTBOX).where(OUTBOX.c.id == row["id"]).values(value=value))
    (fault,) = await events_verified(world)
    assert fault.startswith(f"{name} was told otherwise than entry ")
    await write(world, delete(OUTBOX).where(OUTBOX.c.id == row["id"]))
    (fault,) = await events_verified(world)
    assert fault.startswith(f"{name} (entry ")
    assert fault.endswith("was never told")


async def test_an_event_that_no_entry_promises_is_named(world):
    row = await an_event(world)
    row.pop("id")
    value = row["value"].replace(b'"sequence":', b'"sequence":9')
    await write(world, insert(OUTBOX).values(**{**row, "value": value, "event_id": "made up"}))
    (fault,) = await events_verified(world)
    assert fault.endswith("was told and no entry says so")


# The command


def test_the_command_tells_what_it_saw_and_exits_by_what_it_found(tmp_path, capsys):
    path = write_settings(tmp_path, more="[journal]\nseals = 'seals.jsonl'\n")

    async def a_life():
        async with service(path) as parts:
            world = World(parts.store.engine)
            await place(world, 1)
            await seal_journal(parts.store, key=KEY, now=START)
            await publish_seals(parts.store, parts.settings.seals)
            await place(world, 2)

    asyncio.run(a_life())
    arguments = ["audit", "verify", "--config", str(path)]
    assert run([*arguments, "--public-key", KEY.public_hex]) == 0
    said = capsys.readouterr().err
    assert "1 seals, 1 of them published; signed by " + KEY.public_hex in said
    assert "unsealed, chained only" in said
    assert run([*arguments, "--public-key", SealingKey("0bad" * 16).public_hex]) == 1
    assert "seal 1 is not signed by" in capsys.readouterr().out
    assert run([*arguments, "--public-key", "abc"]) == 2
    (tmp_path / "seals.jsonl").unlink()
    assert run(arguments) == 1, "a file that is named and gone is no good sign"


async def test_the_journal_of_any_story_is_sealed_and_verified(url):
    """What the services write is what the audit expects, also where many orders and chains move."""
    from tests.parts.stories import Teller
    from tests.properties.services.test_cuts import STORIES

    world = await World.open(url, lanes=2)
    try:
        await Teller(world).tell([move for name in sorted(STORIES) for move in STORIES[name]])
        await seal(world, entries_max=7)
        assert await events_verified(world) == []
        async with world.store.engine.connect() as connection:
            counted = await connection.execute(select(func.count()).select_from(JOURNAL))
        assert (await verified(world)).entries == counted.scalar_one() > 30
    finally:
        await world.close()
