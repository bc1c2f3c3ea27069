"""Whatever happens to what waits, a naive reader of the facts ends with what the node knows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from chains.pace import FollowSettings
from schemas.facts import AddressCovered, BlockRetracted, TransferDropped, TransferSeen
from schemas.values import transfer_id
from tests.parts.follow_story import Story
from tests.parts.scripted_source import CHAIN, Pay, tx_id

US = 7
STRANGER = 8
COINS = 3

#: What happens, and to what: `send` a coin to somebody (which replaces what spends it), `evict` or
#: `mine` what spends it, `fork` the last block away, mine a `block` of others, `look` for a while.
actions = st.one_of(
    st.tuples(st.just("send"), st.integers(0, COINS - 1), st.sampled_from([US, STRANGER])),
    st.tuples(st.sampled_from(["evict", "mine"]), st.integers(0, COINS - 1), st.just(0)),
    st.tuples(st.sampled_from(["fork", "look", "block"]), st.just(0), st.just(0)),
)


class Told:
    """The facts, applied one after the other as a reader does who knows nothing else."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.mined: dict[str, int] = {}
        self.dropped: set[str] = set()

    def hear(self, fact: object) -> None:
        if isinstance(fact, TransferSeen) and fact.block is None:
            if fact.transfer not in self.mined:
                self.waiting.add(fact.transfer)
                self.dropped.discard(fact.transfer)
        elif isinstance(fact, TransferSeen):
            self.mined[fact.transfer] = fact.block.height
            self.waiting.discard(fact.transfer)
            self.dropped.discard(fact.transfer)
        elif isinstance(fact, TransferDropped):
            assert fact.transfer not in self.mined
            self.waiting.discard(fact.transfer)
            self.dropped.add(fact.transfer)
        elif isinstance(fact, BlockRetracted):
            self.mined = {k: at for k, at in self.mined.items() if at < fact.height}


def id_of(pay: Pay) -> str:
    return transfer_id(CHAIN, tx_id(pay.name), "value")


class World:
    """A chain with a mempool and a loop on it. `sent` names everything that ever spent a coin."""

    def __init__(self) -> None:
        self.story = Story(limit=64, settings=FollowSettings(empty_watermark_s=0.5))
        self.source = self.story.source
        self.source.mempool = []
        self.mempool = self.source.mempool
        self.spent: set[str] = set()
        self.sent: dict[str, list[Pay]] = {}

    async def begin(self) -> None:
        self.story.begin()
        await self.story.covers(0)
        self.story.watch(US)
        await self.story.until(AddressCovered)

    async def do(self, name: str, what: str, coin: str, to: int) -> None:
        rivals = [pay for pay in self.mempool if pay.nonce == coin]
        if what == "send" and coin not in self.spent:
            pay = Pay(name, to, nonce=coin)
            self.sent.setdefault(coin, []).append(pay)
            self.mempool[:] = [one for one in self.mempool if one not in rivals] + [pay]
        elif what in {"evict", "mine"} and rivals:
            self.mempool.remove(rivals[0])
            if what == "mine":
                self.spent.add(coin)
                self.source.mine(rivals[0])
        elif what == "block":
            self.source.mine()
        elif what == "fork" and self.source.height > 1:
            lost = self.source.blocks[self.source.branch[-1]].pays
            self.source.fork(1, [], [])
            self.mempool.extend(lost)
            self.spent -= {pay.nonce for pay in lost}
        else:
            for _ in range(4):
                await self.story.step()

    async def rest(self) -> None:
        await self.story.covers(self.source.height)
        for _ in range(6):
            await self.story.step()

    def compare(self, told: Told) -> None:
        blocks = [self.source.blocks[name] for name in self.source.branch]
        waiting = {id_of(pay) for pay in self.mempool if pay.to == US}
        standing = {id_of(pay) for block in blocks for pay in block.pays if pay.to == US}
        assert waiting <= told.waiting
        assert told.mined.keys() == standing
        assert not told.waiting & standing
        assert not told.dropped & (waiting | standing)
        rivalled = [pays for pays in self.sent.values() if len(pays) > 1]
        assert told.dropped <= {id_of(pay) for pays in rivalled for pay in pays}


@settings(max_examples=300, deadline=None)
@given(st.lists(actions, max_size=25))
async def test_a_naive_reader_knows_what_waits_what_stands_and_what_is_gone(
    script: list[tuple[str, int, int]],
) -> None:
    world = World()
    await world.begin()
    for number, (what, coin, to) in enumerate(script):
        await world.do(f"tx-{number}", what, f"coin-{coin}", to)
    await world.rest()
    told = Told()
    for fact in world.story.facts:
        told.hear(fact)
    world.compare(told)
