"""The loop on litecoind and btcd: whatever happens, what stands is what the chain pays.

Stories are drawn from a seed: payments, children, replacements, double spends in blocks, reorganisations that
keep some of what they took, restarts of the loop and of the node. The truth is what we mined ourselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from random import Random

import pytest

from chains.clock import SystemClock
from chains.errors import Retryable
from chains.follow import Follower
from chains.pace import FollowSettings
from chains.port import Checkpoint, Step, WatchEntry
from chains.registry import open_source
from schemas.facts import BlockRetracted, TransferDropped, TransferSeen, Watermark
from tests.parts.btcd.node import Btcd
from tests.parts.follow_story import StepsLog
from tests.parts.litecoind.node import Litecoind
from tests.parts.utxo_mining import Made
from tests.parts.utxo_node import UtxoNode
from tests.parts.utxo_purse import FINAL, REPLACEABLE, Pay, coins_of, name_of
from tests.parts.utxo_reference import Tx
from tests.parts.utxo_script import UtxoScript

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
#: Nothing waits for its time; an unmoved chain gives its last watermark again at once.
AT_ONCE = FollowSettings(
    empty_watermark_s=0.0, resend_s=0.05, wait_s=0.01, mempool_s=0.0, rest_first_s=0.01
)
STEPS_MAX = 500
ACTS = 40
DEPTH_MAX = 3


@pytest.fixture(
    params=[
        pytest.param(kind, id=name, marks=getattr(pytest.mark, name))
        for name, kind in (("litecoind", Litecoind), ("btcd", Btcd))
    ]
)
def node(request: pytest.FixtureRequest) -> Iterator[UtxoNode]:
    with request.param() as node:
        yield node


class Reader:
    """Applies facts as whoever reads the stream: what stands in blocks, what waits, what is gone."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.standing: dict[str, int] = {}
        self.waiting: set[str] = set()
        self.gone: set[str] = set()
        self.seen: dict[str, TransferSeen] = {}
        for step in steps:
            for fact in step.facts:
                self._apply(fact)

    def _apply(self, fact: object) -> None:
        if isinstance(fact, TransferSeen):
            self.seen[fact.transfer] = fact
            self.gone.discard(fact.transfer)
            self.waiting.discard(fact.transfer)
            self.standing.pop(fact.transfer, None)
            if fact.block is None:
                self.waiting.add(fact.transfer)
            else:
                self.standing[fact.transfer] = fact.block.height
        elif isinstance(fact, TransferDropped):
            self.waiting.discard(fact.transfer)
            self.standing.pop(fact.transfer, None)
            self.gone.add(fact.transfer)
        elif isinstance(fact, BlockRetracted):
            taken = [name for name, height in self.standing.items() if height > fact.parent.height]
            for name in taken:
                del self.standing[name]


class Story:
    """A chain that a seed moves, and a loop on it."""

    def __init__(self, node: UtxoNode, seed: int) -> None:
        self.script, self.dice = UtxoScript(node), Random(seed)
        self.ours = self.script.new_address()
        self.raw = self.script.raw_of(self.ours)
        self.start = self.script.tip()
        self.steps: list[Step] = []
        self.looks = 0
        self.log = StepsLog(self.steps)
        self.source = open_source(
            self.script.chain,
            [node.url],
            catalogue=self.script.catalogue_of(self.script.chain),
            poll_interval_s=0.01,
        )
        asked = self.source.pending

        async def counted(*arguments):
            found = await asked(*arguments)
            self.looks += 1
            return found

        self.source.pending = counted  # type: ignore[method-assign]
        self.begin(None)

    def begin(self, checkpoint: Checkpoint | None) -> None:
        self.loop = Follower(
            self.source,
            entry=self.script.catalogue_of(self.script.chain).chain(self.script.chain),
            checkpoint=checkpoint,
            log_id="log",
            start_at=self.start.height,
            log=self.log,
            clock=SystemClock(),
            settings=AT_ONCE,
        )
        entry = WatchEntry(raw=self.raw, display=self.ours, since=LONG_AGO, offset=0)
        self.loop.add_addresses([entry], read_upto_offset=1)

    async def settle(self) -> None:
        """Take steps until the head is covered and the mempool was looked at behind it."""
        looks = None
        for _ in range(STEPS_MAX):
            self.steps.append(await self.loop.next_step())
            mark = self.steps[-1].watermark
            if mark is not None and mark.hash == self.script.tip().hash and looks is None:
                looks = self.looks
            if looks is not None and self.looks >= looks + 2:
                return
        pytest.fail("the head was never covered")

    # What may happen

    def act(self) -> str:
        acts = (
            [self.pay] * 5 + [self.replace] * 3 + [self.child, self.mine, self.mine, self.contest]
        )
        acts += [self.reorganise] * 2 + [self.restart_loop]
        chosen = self.dice.choice(acts)
        chosen()
        return chosen.__name__

    def pay(self) -> None:
        others = self.script.new_address()
        legs = [
            (self.dice.choice([self.ours, self.ours, others]), self.dice.randrange(1, 10**9))
            for _ in range(self.dice.randrange(1, 4))
        ]
        sequence = self.dice.choice([REPLACEABLE, REPLACEABLE, FINAL])
        self.script.pay_many(legs, sequence=sequence, witness=self.dice.random() < 0.3)

    def child(self) -> None:
        coins = [
            coin
            for tx in self.waiting()
            for coin in coins_of(tx)
            if coin.amount > 10**6 and not self.is_spent(coin.outpoint)
        ]
        if coins:
            tx = self.script.make([Pay(self.raw, 700)], coins=[self.dice.choice(coins)])
            self.script.send(tx)

    def replace(self) -> None:
        chosen = [tx for tx in self.waiting() if tx.inputs[0].sequence == REPLACEABLE]
        childless = [tx for tx in chosen if not any(map(self.is_spent, outpoints_of(tx)))]
        if childless:
            name = name_of(self.dice.choice(childless))
            self.script.replace(name, *self.dice.choice([(), [(self.ours, 5_000)]]))

    def mine(self) -> None:
        self.script.mine(self.dice.randrange(1, 3))

    def contest(self) -> None:
        """Mine a double spend of something that waits, and some of the rest."""
        waiting = self.waiting()
        if waiting:
            rival = self.script.conflict(name_of(self.dice.choice(waiting)))
            self.script.mine_only(*self.minable([rival, *self.some(waiting)], self.script.tip()))

    def reorganise(self) -> None:
        depth = min(DEPTH_MAX, self.script.height() - self.start.height)
        if not depth:
            return
        depth = self.dice.randrange(1, depth + 1)
        below = self.script.below(depth)
        taken = [tx for back in range(depth) for tx in self.script.below(depth - 1 - back).txs]
        rivals = [self.script.conflict(name_of(tx)) for tx in taken if self.dice.random() < 0.2]
        kept = self.minable([*rivals, *self.some(taken)], below)
        again = sorted((self.dice.randrange(depth + 1), place) for place in range(len(kept)))
        self.script.reorganise(
            depth, again=[(kept[place], offset) for place, (offset, _) in enumerate(again)]
        )

    def restart_loop(self) -> None:
        marks = [f for step in self.steps for f in step.facts if isinstance(f, Watermark)]
        self.begin(Checkpoint(watermarks=marks))

    async def restart_node(self) -> None:
        self.script.restart()
        with contextlib.suppress(Retryable):
            await self.source.head()

    # What is true

    def waiting(self) -> list[Tx]:
        return [self.script.transactions[name] for name in self.script.node.waiting]

    def is_spent(self, outpoint: bytes) -> bool:
        return any(one.outpoint == outpoint for tx in self.waiting() for one in tx.inputs)

    def chain(self, tip: Made) -> list[Made]:
        blocks = [tip]
        while blocks[-1].parent in self.script.blocks:
            blocks.append(self.script.blocks[blocks[-1].parent])
        return blocks[::-1]

    def some(self, txs: list[Tx]) -> list[Tx]:
        return [tx for tx in txs if self.dice.random() < 0.7]

    def minable(self, txs: list[Tx], tip: Made) -> list[Tx]:
        """Keep what may stand in a block above, each after what it spends and no coin twice."""
        mined = [tx for block in self.chain(tip) for tx in block.txs]
        spent = {one.outpoint for tx in mined for one in tx.inputs}
        made = {outpoint for tx in mined for outpoint in outpoints_of(tx)}
        made |= {outpoint for block in self.chain(tip) for outpoint in rewards_of(block)}
        kept: list[Tx] = []
        for tx in txs:
            inputs = {one.outpoint for one in tx.inputs}
            if inputs <= made and not inputs & spent and tx not in kept:
                kept.append(tx)
                spent |= inputs
                made |= set(outpoints_of(tx))
        return kept

    def transfers(self, txs: Iterable[Tx]) -> dict[str, int]:
        return {
            f"{self.script.chain}/{name_of(tx)}/out:{n}": out.amount
            for tx in txs
            for n, out in enumerate(tx.outputs)
            if out.script == self.raw
        }

    def check(self) -> None:
        reader = Reader(self.steps)
        mined = [tx for block in self.chain(self.script.tip()) for tx in block.txs]
        waiting = self.transfers(self.waiting())
        in_blocks = self.transfers(mined)
        assert reader.standing.keys() == in_blocks.keys()
        assert {name: int(reader.seen[name].amount) for name in in_blocks} == in_blocks
        assert waiting.keys() <= reader.waiting
        assert not reader.gone & (in_blocks.keys() | waiting.keys())
        spenders = {one.outpoint for tx in [*mined, *self.waiting()] for one in tx.inputs}
        for name in reader.waiting - waiting.keys():
            tx = self.script.transactions[name.split("/")[1]]
            contested = {one.outpoint for one in tx.inputs} & spenders
            assert not contested, f"{name} waits although another spends its coin"


def outpoints_of(tx: Tx) -> list[bytes]:
    return [tx.txid() + n.to_bytes(4, "little") for n in range(len(tx.outputs))]


def rewards_of(block: Made) -> list[bytes]:
    """Give the coins that the purse has from the beginning, which are old enough."""
    return [] if block.coinbase is None or block.height > 10 else outpoints_of(block.coinbase)


@pytest.mark.parametrize("seed", range(4))
async def test_what_stands_is_what_the_chain_pays_whatever_happens(node: UtxoNode, seed: int):
    story = Story(node, seed)
    acts: list[str] = []
    try:
        await story.settle()
        for _ in range(ACTS):
            acts.append(story.act())
            if story.dice.random() < 0.6:
                await story.settle()
                story.check()
        await story.settle()
        story.check()
        assert any(isinstance(f, BlockRetracted) for step in story.steps for f in step.facts)
    except BaseException:
        print("acts:", acts)
        raise
    finally:
        await story.source.close()


async def test_payment_that_nodes_forgot_is_taken_back_when_its_coin_is_spent(node: UtxoNode):
    story = Story(node, 0)
    story.script.pay_coin(story.ours, 5)
    await story.settle()
    (name,) = Reader(story.steps).waiting
    await story.restart_node()
    await story.settle()
    assert Reader(story.steps).waiting == {name}
    story.script.mine_only(story.script.conflict(name.split("/")[1]))
    await story.settle()
    assert Reader(story.steps).gone == {name}
    await story.source.close()
