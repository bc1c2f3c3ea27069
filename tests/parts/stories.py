"""Random stories: what customers, the chain and people may do, in any order, told to a small world.

A story is a list of plain moves, so that a failing one can be read, shrunk and given back. Telling it
makes a script: the records as they stand on their lanes, with how far `orders` was applied in between.
The same script can then be applied again, cut into other batches and swept at other times.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
from hypothesis import strategies as st
from sqlalchemy import select

from reconciler.services.apply_commands import apply_commands, mark_inbox
from reconciler.services.apply_facts import apply_facts
from reconciler.services.claims import request_id
from reconciler.services.sweep import sweep_lane
from reconciler.storage import positions, tables
from reconciler.storage.unit_of_work import Store
from reconciler.stream.promise import Batch, Lane, Record
from reconciler.stream.topics import ORDERS, PAYMENT_EVENTS, PAYMENT_EXCEPTIONS
from schemas.amounts import AMOUNT_LIMIT
from schemas.commands import (
    AcceptShort,
    AmendOrder,
    Assign,
    CancelOrder,
    ClaimPaid,
    Close,
    Decide,
    Hold,
    Part,
    PlaceOrder,
    Reject,
    Release,
    Returned,
    Revive,
    Split,
    Undo,
    WriteOff,
)
from schemas.facts import LookedUpState, TransactionLookedUp, TransferSeen, Watermark
from schemas.values import Message
from tests.parts.world import ETH, ETHEREUM, POLYGON, SHARED, USDC, USDT, Chain, World, address

PRICE = 25_000_000
#: How much of what is due comes, in percent; 0.02 % is dust.
SHARES = (100, 100, 100, 40, 60, 130, 0.02, 20_000)
HOLDS = (str(ETHEREUM), str(USDT), "own", "shared")


def moves() -> st.SearchStrategy[list[tuple]]:
    """A story; the words are the methods of `Teller`."""
    order = st.integers(0, 5)
    small = st.integers(0, 3)
    one = st.one_of(
        st.tuples(st.just("place"), order, st.sampled_from(["own", "own", "shared", "eth"]), small),
        st.tuples(st.just("cover"), order),
        st.tuples(
            st.just("pay"),
            order,
            st.sampled_from(SHARES),
            st.sampled_from(["usdt", "usdt", "usdt", "usdc", "matic"]),
            st.booleans(),
        ),
        st.tuples(st.just("pay"), order, st.just(100), st.just("usdt"), st.just(False)),
        st.tuples(st.just("see"), order, st.sampled_from(SHARES)),
        st.tuples(st.just("see_again"), small),
        st.tuples(st.just("mine_seen"), small),
        st.tuples(st.just("drop"), small),
        st.tuples(st.just("mine"), st.integers(1, 4)),
        st.tuples(st.just("mine"), st.integers(1, 4)),
        st.tuples(st.just("mine_polygon"), st.integers(1, 4)),
        st.tuples(st.just("wait"), st.sampled_from([5, 12, 30, 61, 130])),
        st.tuples(st.just("retract"), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("claim"), order, st.integers(0, 4)),
        st.tuples(st.just("look_up"), order, st.sampled_from(list(LookedUpState))),
        st.tuples(st.just("balance"), order, st.sampled_from([0, 0, 7])),
        st.tuples(st.just("cancel"), order, st.booleans()),
        st.tuples(st.just("amend"), order, small),
        st.tuples(st.just("decide"), st.integers(0, 8), order, small),
        st.tuples(st.just("undo"), small),
        st.tuples(st.just("hold"), small),
        st.tuples(st.just("release"), small),
        st.tuples(st.just("close"), small),
        st.tuples(st.just("garbage"), order, small),
        st.tuples(
            st.just("gap"),
        ),
        st.tuples(
            st.just("close_gap"),
        ),
        st.tuples(
            st.just("inbox_behind"),
        ),
    )
    first = st.lists(
        st.tuples(
            st.just("place"),
            order,
            st.sampled_from(["own", "own", "shared", "eth"]),
            small,
        ),
        min_size=2,
        max_size=4,
    )
    covered = st.lists(st.tuples(st.just("cover"), order), max_size=4)
    return st.builds(
        lambda *parts: [move for part in parts for move in part],
        first,
        covered,
        st.lists(one, max_size=40),
    )


@dataclass
class Step:
    """One record on its lane, or a note of how far `orders` was applied."""

    record: Record | None = None
    inbox_until: datetime | None = None


@dataclass
class Teller:
    """Tells moves to a world, one record at a time, and keeps the script."""

    world: World
    script: list[Step] = field(default_factory=list)
    placed: dict[int, str] = field(default_factory=dict)
    seen: list[TransferSeen] = field(default_factory=list)
    mempool: list[TransferSeen] = field(default_factory=list)
    blocks: list[TransferSeen] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)
    claims: dict[int, list[str]] = field(default_factory=dict)
    skipped: Watermark | None = None

    async def tell(self, story: Sequence[tuple]) -> list[Step]:
        for word, *rest in story:
            await getattr(self, word)(*rest)
        return self.script

    # How things reach the world

    async def _record(self, lane: Lane, record: Record) -> None:
        self.script.append(Step(record=record))
        await Driver(self.world.store, self.world.context).apply(lane, [record])

    async def _inbox(self, until: datetime) -> None:
        self.script.append(Step(inbox_until=until))
        await self.world.inbox(until)

    async def _fact(self, fact: Message, chain: Chain | None = None) -> None:
        """A fact of an address goes to its lane, one of the chain to all of them."""
        line = chain or self.world.ethereum
        text = getattr(fact, "to", None) or getattr(fact, "address", None)
        names = [lane.name for lane in line.lanes]
        if text is not None:
            names = [self.world.context.lane_of(line.chain, text.lower())]
        for lane in line.lanes:
            if lane.name in names:
                key = text.lower() if text else str(line.chain)
                await self._record(lane, self.world.record(lane, key, fact))

    async def _command(self, command: Message) -> None:
        lane = Lane(ORDERS, 0)
        key = getattr(command, "reference", "desk")
        await self._record(lane, self.world.record(lane, key, command))

    async def _watermark(self, line: Chain, upto: int | None = None) -> None:
        mark = line.watermark(upto)
        self.world.now = max(self.world.now, mark.time)
        await self._inbox(self.world.now - timedelta(seconds=self._behind_s))
        await self._fact(mark, line)

    _behind_s = 0

    # Moves

    async def inbox_behind(self) -> None:
        self._behind_s = 0 if self._behind_s else 1_000

    async def place(self, number: int, route: str, purchase: int) -> None:
        reference = f"o-{number}"
        self.placed.setdefault(number, SHARED if route == "shared" else address(number))
        amount = PRICE if route != "eth" else PRICE * 10**9
        await self._command(
            PlaceOrder(
                idempotency_key=self.world.key(),
                reference=reference,
                route=route,
                amount=str(amount),
                address=None if route == "shared" else address(number),
                purchase=f"p-{purchase}" if purchase < 2 else None,
                lines=msgspec.Raw(b'[{"sku": "machine"}]'),
            )
        )

    async def cover(self, number: int) -> None:
        if number in self.placed:
            await self._fact(self.world.ethereum.covered(self.placed[number]))

    async def _transfer(
        self, number: int, percent: float, kind: str, *, same_tx: bool, in_block: bool
    ) -> TransferSeen | None:
        to = self.placed.get(number)
        if to is None:
            return None
        line = self.world.polygon if kind == "matic" else self.world.ethereum
        asset = {"usdt": USDT, "usdc": USDC, "matic": f"{POLYGON}/slip44:966"}[kind]
        due = await self._due(number)
        if due > PRICE * 10**6:
            asset = ETH if kind == "usdt" else asset
        tx, position = None, "log:0"
        if same_tx and self.seen and self.seen[-1].chain == line.chain:
            tx = self.seen[-1].transfer.split("/")[1]
            position = f"log:{len(self.seen)}"
        return line.seen(
            to,
            max(1, due * round(percent * 100) // 10_000),
            asset=asset,
            tx=tx,
            position=position,
            height=-1 if in_block else None,
        )

    async def _due(self, number: int) -> int:
        events = await self.world.events(f"o-{number}")
        return int(events[-1].due) if events else PRICE

    async def pay(self, number: int, percent: float, kind: str, same_tx: bool) -> None:
        fact = await self._transfer(number, percent, kind, same_tx=same_tx, in_block=True)
        if fact is None:
            return
        self.seen.append(fact)
        line = self.world.polygon if kind == "matic" else self.world.ethereum
        if line is self.world.ethereum:
            self.blocks.append(fact)
        await self._fact(fact, line)
        await self._watermark(line)

    async def see(self, number: int, percent: float) -> None:
        fact = await self._transfer(number, percent, "usdt", same_tx=False, in_block=False)
        if fact is not None:
            self.seen.append(fact)
            self.mempool.append(fact)
            await self._fact(fact)

    async def see_again(self, which: int) -> None:
        if which < len(self.mempool):
            await self._fact(self.mempool[which])

    async def mine_seen(self, which: int) -> None:
        if which < len(self.mempool):
            fact = self.mempool.pop(which)
            line = self.world.ethereum
            mined = msgspec.structs.replace(fact, block=line.block(line.height + 1))
            self.blocks.append(mined)
            await self._fact(mined)
            await self._watermark(line)

    async def drop(self, which: int) -> None:
        if which < len(self.mempool):
            await self._fact(self.world.ethereum.dropped(self.mempool.pop(which)))

    async def mine(self, blocks: int) -> None:
        for _ in range(blocks):
            await self._watermark(self.world.ethereum)

    async def mine_polygon(self, blocks: int) -> None:
        for _ in range(blocks):
            await self._watermark(self.world.polygon)

    async def wait(self, minutes: int) -> None:
        line = self.world.ethereum
        await self._watermark(line, line.height + minutes * 5)

    async def retract(self, blocks: int, again: bool) -> None:
        """Take blocks back; what stood in them is mined again in the next one, or never."""
        line = self.world.ethereum
        gone: list[TransferSeen] = []
        for _ in range(blocks):
            if line.height not in line.hashes or line.height <= 101:
                break
            height = line.height
            gone += [fact for fact in self.blocks if fact.block and fact.block.height == height]
            await self._fact(line.retraction())
        self.blocks = [fact for fact in self.blocks if fact not in gone]
        if again and gone:
            for fact in gone:
                mined = msgspec.structs.replace(fact, block=line.block(line.height + 1))
                self.blocks.append(mined)
                await self._fact(mined)
            await self._watermark(line)

    async def claim(self, number: int, what: int) -> None:
        transaction = sender = None
        if what == 0:
            transaction = "0x" + f"{number:02x}" * 32
        elif what == 1 and self.seen:
            transaction = self.seen[-1].transfer.split("/")[1]
        elif what == 2:
            transaction = "no transaction at all"
        elif what == 3:
            sender = "0xAAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa"
        key = self.world.key()
        self.claims.setdefault(number, []).append(key)
        await self._command(
            ClaimPaid(
                idempotency_key=key,
                reference=f"o-{number}",
                transaction=transaction,
                sender=sender,
            )
        )

    async def look_up(self, number: int, state: LookedUpState) -> None:
        for key in self.claims.get(number, [])[-1:]:
            pays = tuple(fact.transfer for fact in self.seen[-1:])
            await self._fact(
                TransactionLookedUp(
                    request=request_id(f"o-{number}", key, ETHEREUM),
                    chain=ETHEREUM,
                    tx="0x" + "ab" * 32,
                    state=state,
                    pays=pays if state is LookedUpState.INCLUDED else (),
                )
            )

    async def balance(self, number: int, more: int) -> None:
        """A node tells what an address holds: all that came there, and sometimes more."""
        to = self.placed.get(number)
        if to is not None:
            came = [f for f in self.blocks if f.to == to and f.asset == USDT]
            held = sum(int(fact.amount) for fact in came)
            await self._fact(self.world.ethereum.balance(to, min(held, AMOUNT_LIMIT // 2) + more))

    async def cancel(self, number: int, force: bool) -> None:
        await self._command(
            CancelOrder(
                idempotency_key=self.world.key(),
                reference=f"o-{number}",
                reason="out of stock",
                force=force,
            )
        )

    async def amend(self, number: int, what: int) -> None:
        changes: dict[str, object] = {}
        if what in {0, 1}:
            changes["amount"] = str(PRICE + 5_000_000 * (1 - 2 * what))
        if what in {1, 2}:
            changes["deadline"] = self.world.now + timedelta(hours=2)
        await self._command(
            AmendOrder(idempotency_key=self.world.key(), reference=f"o-{number}", **changes)
        )

    async def decide(self, what: int, number: int, which: int) -> None:
        reference = f"o-{number}"
        action: object = AcceptShort(reference=reference)
        if what == 1:
            action = Revive(reference=reference)
        elif what > 1:
            if which >= len(self.seen):
                return
            fact = self.seen[-1 - which]
            half = int(fact.amount) // 2
            action = {
                2: Assign(transfer=fact.transfer, reference=reference),
                3: Assign(transfer=fact.transfer, reference=reference),
                4: Reject(transfer=fact.transfer),
                5: Returned(transfer=fact.transfer, tx="0xback"),
                6: WriteOff(transfer=fact.transfer),
                7: Split(
                    transfer=fact.transfer,
                    parts=(
                        Part(reference=reference, amount=str(half)),
                        Part(
                            reference=f"o-{(number + 1) % 6}",
                            amount=str(int(fact.amount) - half),
                        ),
                    ),
                ),
                8: Reject(transfer=fact.transfer),
            }[what]
        await self._decide(action)

    async def _decide(self, action: object) -> None:
        key = self.world.key()
        self.decided.append(key)
        await self._command(
            Decide(idempotency_key=key, actor="ana", reason="as agreed", action=action)
        )

    async def undo(self, which: int) -> None:
        if which < len(self.decided):
            await self._decide(Undo(decision=self.decided[-1 - which]))

    async def hold(self, which: int) -> None:
        await self._decide(Hold(subject=HOLDS[which]))

    async def release(self, which: int) -> None:
        await self._decide(Release(subject=HOLDS[which]))

    async def close(self, which: int) -> None:
        names = sorted(each.exception for each in (await self.world.open_exceptions()).values())
        if which < len(names):
            await self._decide(Close(exception=names[which]))

    async def garbage(self, number: int, what: int) -> None:
        """A fact that nobody can read, or one that makes no sense."""
        to = self.placed.get(number)
        if to is None:
            return
        line = self.world.ethereum
        lane = next(
            lane
            for lane in line.lanes
            if lane.name == self.world.context.lane_of(ETHEREUM, to.lower())
        )
        if what == 0:
            record = self.world.raw(lane, "TransferSeen", b"{not json\n\xff", to.lower())
        elif what == 1:
            record = self.world.raw(lane, "TransferSeen", b'{\n "transfer": 3\n}', to.lower())
        else:
            unknown = f"{ETHEREUM}/erc20:0x{'12' * 20}"
            record = self.world.record(lane, to.lower(), line.seen(to, 5, asset=unknown))
        await self._record(lane, record)

    async def gap(self) -> None:
        """A block goes missing: the lane's verdicts wait until it is read again."""
        line = self.world.ethereum
        if self.skipped is None:
            self.skipped = line.watermark()
            await self._watermark(line)

    async def close_gap(self) -> None:
        if self.skipped is not None:
            line, mark = self.world.ethereum, self.skipped
            self.skipped = None
            await self._fact(mark)
            again = msgspec.structs.replace(
                mark,
                from_height=mark.height + 1,
                height=line.height,
                hash=line.hash_at(line.height),
                parent_hash=mark.hash,
                time=line.time_at(line.height),
                read_at=line.time_at(line.height),
            )
            await self._fact(again)


@dataclass
class Driver:
    """Applies records to a store, as intake does."""

    store: Store
    context: object

    async def apply(self, lane: Lane, records: Sequence[Record]) -> None:
        batch = Batch(lane=lane, records=records, next_offset=records[-1].offset + 1)
        held = await self.store.read(lambda work: positions.position(work, lane.name))
        apply = apply_commands if lane.topic == ORDERS else apply_facts
        await apply(self.store, self.context, batch, held=held)

    async def sweep(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            while await sweep_lane(self.store, self.context, lane.name):
                pass


@dataclass(frozen=True)
class Pace:
    """How a script is applied: after which records a batch ends, after which batches is swept."""

    seed: int = 0
    cut_chance: float = 1.0
    sweep_chance: float = 1.0


#: Every record is a batch and is swept at once, as nobody could do better.
AT_ONCE = Pace()
#: As few batches as there can be, and nobody sweeps before the end.
LAZY = Pace(cut_chance=0.0, sweep_chance=0.0)
UNSWEPT = Pace(sweep_chance=0.0)


async def act(world: World, script: Sequence[Step], pace: Pace = AT_ONCE) -> None:
    """Apply a script."""
    chance = random.Random(pace.seed)
    driver = Driver(world.store, world.context)
    lanes = [*world.ethereum.lanes, *world.polygon.lanes]
    waiting: list[Record] = []

    async def flush() -> None:
        if waiting:
            await driver.apply(waiting[0].lane, list(waiting))
            waiting.clear()
            if chance.random() < pace.sweep_chance:
                await driver.sweep(chance.sample(lanes, len(lanes)))

    for step in script:
        if step.record is None:
            await flush()
            await mark_inbox(world.store, Lane(ORDERS, 0), step.inbox_until)
            continue
        other_lane = bool(waiting) and waiting[0].lane != step.record.lane
        if other_lane or chance.random() < pace.cut_chance:
            await flush()
        waiting.append(step.record)
    await flush()
    await driver.sweep(lanes)


async def outcome(world: World) -> dict[tuple[str, str], list[bytes]]:
    """Everything that was told, by topic and key, in the order in which it was told."""
    table = tables.outbox
    async with world.engine.connect() as connection:
        rows = await connection.execute(
            select(table.c.topic, table.c.key, table.c.value)
            .where(table.c.topic.in_([PAYMENT_EVENTS, PAYMENT_EXCEPTIONS]))
            .order_by(table.c.id)
        )
        found: dict[tuple[str, str], list[bytes]] = {}
        for topic, key, value in rows:
            found.setdefault((topic, key.decode()), []).append(value)
    return found
