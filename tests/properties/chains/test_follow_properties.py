"""Any history of a chain, with any order of faults: a naive reader of the log ends with the truth."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from chains.errors import AnswerRefused, NodeBehind, NodeUnavailable
from schemas.facts import AddressCovered, Watermark
from tests.parts.follow_story import Story, applied
from tests.parts.scripted_source import START, Pay, address, tx_id

ADDRESSES = 4
LIMIT = 4
#: Deeper than what is held in memory, and than what is read back at a start.
DEEPEST = 40
FAULTS = [NodeBehind("later"), AnswerRefused("root"), NodeUnavailable("cut off")]

pays = st.lists(st.integers(0, ADDRESSES - 1), max_size=2)
action = st.one_of(
    st.tuples(st.just("mine"), pays),
    st.tuples(st.just("quiet"), st.integers(1, 9)),
    st.tuples(st.just("fork"), st.integers(1, DEEPEST), st.lists(pays, min_size=1, max_size=5)),
    st.tuples(st.just("watch"), st.integers(0, ADDRESSES - 1)),
    st.tuples(st.just("lag"), st.integers(0, 3)),
    st.tuples(st.just("fail"), st.sampled_from(FAULTS)),
    st.tuples(st.just("final"), st.integers(LIMIT, 30)),
    st.tuples(st.just("each"), st.integers(1, 12), pays),
    st.tuples(st.just("restart")),
    st.tuples(st.just("steps"), st.integers(1, 4)),
)


class History:
    """Plays actions, and knows the truth."""

    def __init__(self) -> None:
        self.story = Story(limit=LIMIT)
        self.story.source.second_node_agrees = True
        self.story.begin()
        self.watched: list[int] = []
        self.names = 0

    def pays(self, numbers: list[int]) -> list[Pay]:
        self.names += len(numbers)
        return [Pay(f"t{self.names}-{at}", to) for at, to in enumerate(numbers)]

    async def play(self, act: tuple) -> None:
        story, source = self.story, self.story.source
        match act:
            case ("mine", numbers):
                source.mine(*self.pays(numbers))
            case ("each", blocks, numbers):
                for _ in range(blocks):
                    source.mine(*self.pays(numbers))
                    await story.step()
            case ("quiet", blocks):
                source.mine(blocks=blocks)
            case ("fork", depth, branch):
                free = source.height - max(source.finalized, 0)
                source.fork(min(depth, free), *(self.pays(numbers) for numbers in branch))
            case ("watch", number):
                self.watched.append(number)
                story.watch(number, since=START - timedelta(hours=1))
            case ("lag", blocks):
                source.lag = blocks
            case ("fail", error):
                source.failures.append(error)
                source.fail_reads.setdefault(source.height, source.failures.__class__()).append(
                    error
                )
            case ("final", behind):
                source.finalized = max(source.finalized, source.height - behind)
            case ("restart",):
                if story.of(Watermark):
                    story.restart()
                    story.offset = 0
                    story.watch(*self.watched, since=START - timedelta(hours=1))
            case ("steps", count):
                for _ in range(count):
                    await story.step()

    def truth(self) -> dict[str, tuple[int, str]]:
        ours = {address(number) for number in self.watched}
        blocks = [self.story.source.blocks[name] for name in self.story.source.branch]
        return {
            tx_id(pay.name): (block.header.height, block.header.hash)
            for block in blocks
            for pay in block.pays
            if address(pay.to) in ours
        }


@settings(max_examples=150, deadline=None)
@given(st.lists(action, max_size=30))
async def test_a_naive_reader_of_the_log_ends_with_the_truth(actions):
    history = History()
    for act in actions:
        await history.play(act)
    source = history.story.source
    source.lag = 0
    source.mine(blocks=30)
    await history.story.covers(source.height)
    while history.story.loop.status().back_scans_open:
        await history.story.step()
    standing, covered = applied(history.story.steps)
    assert {key.split("/")[1]: at for key, at in standing.items()} == history.truth()
    assert covered == (source.height, source.tip.hash)
    announced = {fact.address for fact in history.story.of(AddressCovered)}
    assert announced == {f"0x{address(number).hex()}" for number in history.watched}
