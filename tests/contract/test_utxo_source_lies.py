"""No source of a Bitcoin-like chain answers *nothing* for *I do not know*, and none believes a made-up payment.

Real nodes cannot be asked to lie, so somebody stands before one (`tests.parts.utxo_liar`). A source may see
through a lie and give the truth, or raise `Retryable`; with a second node that tells the truth it must
give that. It may not give anything else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import pytest

from chains.errors import AnswerRefused, NodeBehind, Retryable, WrongChain
from chains.port import BlockRead, ChainSource, Header, Unmined
from schemas.facts import LookedUpState, TransactionLookedUp
from tests.parts.btcd.node import Btcd
from tests.parts.chain_stand import StoppedClock, source_of
from tests.parts.litecoind.node import Litecoind
from tests.parts.utxo_liar import Change, Liar
from tests.parts.utxo_mining import Made, make_block
from tests.parts.utxo_node import UtxoNode
from tests.parts.utxo_purse import Pay
from tests.parts.utxo_reference import Tx, number
from tests.parts.utxo_script import UtxoScript

FOREIGN = "f0" * 32
HOUR_S = 3_600
PAID, WAITS = 70_000, 9_000


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, id=name, marks=getattr(pytest.mark, name))
        for name, kind in (("litecoind", Litecoind), ("btcd", Btcd))
    ],
)
def node(request: pytest.FixtureRequest) -> Iterator[UtxoNode]:
    with request.param() as node:
        yield node


@pytest.fixture(scope="module")
def script(node: UtxoNode) -> UtxoScript:
    return UtxoScript(node)


class Scene(NamedTuple):
    """A source before a liar; `ours` was paid by `tx` in `block`, and `waits` pays it again.

    The block has another transaction, one was mined above it, and another branch was left.
    """

    script: UtxoScript
    liar: Liar
    clock: StoppedClock
    source: ChainSource
    ours: str
    tx: str
    block: Made
    beside: Made
    waits: str

    @property
    def watching(self) -> frozenset[bytes]:
        return frozenset([self.script.raw_of(self.ours)])

    async def header(self) -> Header:
        return await self.source.header_at(self.block.height)

    async def read(self, header: Header) -> BlockRead:
        return await self.source.read_block(header, self.watching)

    async def look_up(self) -> TransactionLookedUp:
        return await self.source.look_up(self.tx, self.watching)

    async def pending(self) -> Unmined:
        found = await self.source.pending(self.watching, ())
        assert found is not None
        return found


@pytest.fixture
async def scene(script: UtxoScript) -> AsyncIterator[Scene]:
    ours = script.new_address()
    (beside,) = script.branch(script.tip(), [[]])
    script.give(beside)
    tx = script.pay_coin(ours, PAID)
    other = script.pay_coin(script.new_address(), PAID)
    script.give(*script.branch(script.blocks[beside.parent], [[tx, other], []]))
    waits = script.pay_coin(ours, WAITS)
    async with Liar(script.node) as liar:
        clock = StoppedClock()
        source = source_of(script, urls=[liar.url], clock=clock)
        await source.start()
        yield Scene(script, liar, clock, source, ours, tx, script.below(1), beside, waits)
        await source.close()
    script.mine()


@pytest.fixture
async def fresh(scene: Scene) -> AsyncIterator[ChainSource]:
    """A source before the liar that has read nothing yet."""
    source = source_of(scene.script, urls=[scene.liar.url])
    await source.start()
    yield source
    await source.close()


@pytest.fixture
async def both(scene: Scene) -> AsyncIterator[ChainSource]:
    """A source that asks the liar first, and then the node."""
    source = source_of(scene.script, urls=[scene.liar.url, scene.script.url])
    await source.start()
    yield source
    await source.close()


async def or_refused(asked: Any) -> Any:
    """Give an answer, or None where the source says that it cannot know."""
    try:
        return await asked
    except Retryable:
        return None


# Ways to change an answer


def always(value: Any) -> Callable[[Scene], Change]:
    return lambda scene: lambda params, true: value


def with_field(name: str, change: Callable[[Any], Any]) -> Callable[[Scene], Change]:
    """Change one field of an answer; headers of other blocks are left as they are."""

    def told(scene: Scene, params: list[Any], true: Any) -> Any:
        asked_other = params[0] not in {scene.block.hash, scene.tx}
        if asked_other or not isinstance(true, dict) or name not in true:
            return true
        return true | {name: change(true[name])}

    return lambda scene: lambda params, true: told(scene, params, true)


def of_block(change: Callable[[Scene, bytes], bytes]) -> Callable[[Scene], Change]:
    return lambda scene: lambda params, true: change(scene, bytes.fromhex(true)).hex()


def turned(text: str) -> str:
    """Give another text of hex of the same length."""
    return ("1" if text[0] == "0" else "0") + text[1:]


def with_one_more(scene: Scene, raw: bytes) -> bytes:
    """Put a payment to us behind the block's transactions, which no root covers."""
    made_up = scene.script.make([Pay(scene.script.raw_of(scene.ours), 5)])
    return raw[:80] + number(raw[80] + 1) + raw[81:] + made_up.full()


def with_tail_twice(scene: Scene, raw: bytes) -> bytes:
    """Say the last transaction again: four leaves of three hash to the same root."""
    last = scene.block.txs[-1].full()
    return raw[:80] + number(raw[80] + 1) + raw[81:] + last


def in_other_order(scene: Scene, raw: bytes) -> bytes:
    first, second = (tx.full() for tx in scene.block.txs)
    return raw.replace(first + second, second + first)


def with_more_paid(scene: Scene, raw: bytes) -> bytes:
    return raw.replace(PAID.to_bytes(8, "little"), (PAID + 1).to_bytes(8, "little"))


def worked_anew(scene: Scene, raw: bytes) -> bytes:
    """Pay us more in a block with its own root and work: all but its name is right."""
    script = scene.script
    richer = script.make([Pay(script.raw_of(scene.ours), 10 * PAID)])
    parent, txs = script.blocks[scene.block.parent], (*scene.block.txs, richer)
    time_s = scene.block.time_s
    return make_block(script.network, parent, txs, time_s=time_s, mark=10**9).raw


def other_bytes(scene: Scene) -> Change:
    """Give a transaction's bytes that pay us a fortune under the name of any."""
    richer = scene.script.make([Pay(scene.script.raw_of(scene.ours), 10 * PAID)])

    def told(params: list[Any], true: Any) -> Any:
        return true | {"hex": richer.full().hex()} if params[1] else richer.full().hex()

    return told


def raw_or(change: Callable[[str], Any]) -> Callable[[Scene], Change]:
    """Change a transaction's hex, alone or in its JSON."""

    def told(params: list[Any], true: Any) -> Any:
        if isinstance(true, dict):
            return true | {"hex": change(true["hex"])}
        return true if true is None else change(true)

    return lambda scene: told


BLOCK_LIES: dict[str, Callable[[Scene], Change]] = {
    "null": always(None),
    "number": always(7),
    "JSON": always({"tx": []}),
    "empty": always(""),
    "no hex": always("zz" * 100),
    "half a byte less": lambda scene: lambda params, true: true[:-1],
    "a byte less": of_block(lambda scene, raw: raw[:-1]),
    "header alone": of_block(lambda scene, raw: raw[:80]),
    "half": of_block(lambda scene, raw: raw[: len(raw) // 2]),
    "a byte more": of_block(lambda scene, raw: raw + b"\0"),
    "twice": of_block(lambda scene, raw: raw + raw),
    "no transactions": of_block(lambda scene, raw: raw[:80] + b"\0"),
    "without the last transaction": of_block(
        lambda scene, raw: (
            raw[:80] + number(raw[80] - 1) + raw[81 : -len(scene.block.txs[-1].full())]
        )
    ),
    "parent's bytes": of_block(lambda scene, raw: scene.script.node.raw_block(scene.block.parent)),
    "bytes of the branch beside": of_block(lambda scene, raw: scene.beside.raw),
    "payment that no root covers": of_block(with_one_more),
    "last transaction twice": of_block(with_tail_twice),
    "other order": of_block(in_other_order),
    "more paid": of_block(with_more_paid),
    "block with other work": of_block(worked_anew),
}

HEADER_LIES: dict[str, tuple[str, Callable[[Scene], Change]]] = {
    "header is null": ("getblockheader", always(None)),
    "header is of another block": (
        "getblockheader",
        lambda scene: (
            lambda params, true: scene.script.ask("getblockheader", scene.block.parent, True)
        ),
    ),
    "header without its time": (
        "getblockheader",
        lambda scene: lambda params, true: {k: v for k, v in true.items() if k != "time"},
    ),
    "other root": ("getblockheader", with_field("merkleroot", turned)),
    "other parent": ("getblockheader", with_field("previousblockhash", turned)),
    "no parent": ("getblockheader", with_field("previousblockhash", lambda _: None)),
    "other time": ("getblockheader", with_field("time", lambda true: true + 1)),
    "time beyond 32 bits": ("getblockheader", with_field("time", lambda true: true + 2**32)),
    "other work": ("getblockheader", with_field("nonce", lambda true: true ^ 1)),
    "easier target": ("getblockheader", with_field("bits", lambda _: "21000001")),
    "other version": ("getblockheader", with_field("version", lambda true: true ^ 1)),
    "one higher": ("getblockheader", with_field("height", lambda true: true + 1)),
    "height of the first block": ("getblockheader", with_field("height", lambda _: 0)),
    "hash is null": ("getblockhash", always(None)),
    "hash of no block": ("getblockhash", lambda scene: named_at(scene, FOREIGN)),
    "hash of the parent": ("getblockhash", lambda scene: named_at(scene, scene.block.parent)),
    "half a hash": ("getblockhash", lambda scene: named_at(scene, scene.block.hash[:32])),
}

LOOK_UP_LIES: dict[str, tuple[str, Callable[[Scene], Change]]] = {
    "transaction is null": ("getrawtransaction", always(None)),
    "transaction of other bytes": ("getrawtransaction", other_bytes),
    "transaction is cut off": ("getrawtransaction", raw_or(lambda true: true[:-2])),
    "outputs are null": ("gettxout", always([])),
    "outputs of another block": ("gettxout", with_field("confirmations", lambda true: true + 1)),
    "outputs of a block to come": ("gettxout", with_field("confirmations", lambda true: -true)),
    "outputs below the first block": ("gettxout", with_field("confirmations", lambda _: 10**6)),
    "outputs as of no block": ("gettxout", with_field("bestblock", lambda _: FOREIGN)),
}

MEMPOOL_LIES: dict[str, tuple[str, Callable[[Scene], Change]]] = {
    "listing is null": ("getrawmempool", always(None)),
    "listing of junk": ("getrawmempool", always(["junk"])),
    "listing of numbers": ("getrawmempool", always([7])),
    "listing of what is not there": ("getrawmempool", always([FOREIGN])),
    "transaction is null": ("getrawtransaction", always(None)),
    "transaction of other bytes": ("getrawtransaction", other_bytes),
    "transaction is cut off": ("getrawtransaction", raw_or(lambda true: true[:-2])),
    "transaction without outputs": ("getrawtransaction", raw_or(lambda true: true[:20] + "00" * 5)),
    "amount beyond all money": (
        "getrawtransaction",
        raw_or(lambda true: true.replace(WAITS.to_bytes(8, "little").hex(), "ff" * 8)),
    ),
    "more paid": (
        "getrawtransaction",
        raw_or(lambda true: true.replace(WAITS.to_bytes(8, "little").hex(), "01" + "00" * 7)),
    ),
}


def named_at(scene: Scene, name: str) -> Change:
    """Name another block at the height of ours; the first block is named truly."""
    return lambda params, true: name if params[0] == scene.block.height else true


# Blocks


@pytest.mark.parametrize("lie", BLOCK_LIES)
async def test_block_is_read_whole_or_not_at_all_whatever_the_node_says(scene: Scene, lie: str):
    header = await scene.header()
    truth = await scene.read(header)
    assert [int(one.amount) for one in truth.transfers] == [PAID]
    scene.liar.lie("getblock", BLOCK_LIES[lie](scene))
    with pytest.raises(Retryable):
        await scene.read(header)
    scene.liar.lie("getblock", lambda params, true: true)
    assert await scene.read(header) == truth


async def test_block_with_any_one_byte_changed_is_refused(scene: Scene):
    header = await scene.header()
    raw = scene.block.raw
    for place in range(len(raw)):
        spoilt = (raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]).hex()
        scene.liar.lie("getblock", lambda params, true, told=spoilt: told)
        with pytest.raises(AnswerRefused):
            await scene.read(header)


async def test_witness_that_was_changed_changes_no_payment(scene: Scene):
    ours = scene.script.new_address()
    scene.script.pay_coin(ours, 5, witness=True)
    scene.script.mine()
    made = scene.script.tip()
    header = await scene.source.header_at(made.height)
    watched = frozenset([scene.script.raw_of(ours)])
    truth = await scene.source.read_block(header, watched)
    (spender,) = (tx for tx in made.txs if tx.flags & 1)
    told = made.raw.replace(spender.full(), with_other_witness(spender).full())
    assert told != made.raw
    scene.liar.lie("getblock", lambda params, true: told.hex())
    assert (await scene.source.read_block(header, watched)).transfers == truth.transfers


def with_other_witness(tx: Tx) -> Tx:
    changed = Tx(tx.version, list(tx.inputs), tx.outputs, tx.lock_time, tx.flags)
    first = changed.inputs[0]
    changed.inputs[0] = type(first)(first.outpoint, first.script, first.sequence, [b"\x52"])
    return changed


# Headers


@pytest.mark.parametrize("lie", HEADER_LIES)
async def test_header_is_the_blocks_own_or_none(scene: Scene, fresh: ChainSource, lie: str):
    truth = await scene.header()
    method, change = HEADER_LIES[lie]
    scene.liar.lie(method, change(scene))
    assert await or_refused(fresh.header_at(scene.block.height)) in {None, truth}
    by_hash = await or_refused(fresh.header_by_hash(scene.block.hash))
    assert by_hash in {None, truth}


async def test_head_that_nobody_has_is_an_error(scene: Scene):
    scene.liar.lie("getbestblockhash", lambda params, true: FOREIGN)
    with pytest.raises(Retryable):
        await scene.source.head()


# Look-ups


@pytest.mark.parametrize("lie", LOOK_UP_LIES)
async def test_look_up_tells_the_truth_or_that_it_cannot(
    scene: Scene, fresh: ChainSource, lie: str
):
    truth = await scene.look_up()
    assert truth.state is LookedUpState.INCLUDED
    method, change = LOOK_UP_LIES[lie]
    scene.liar.lie(method, change(scene))
    assert await or_refused(fresh.look_up(scene.tx, scene.watching)) in {None, truth}


@pytest.mark.parametrize("named", ["parent", "beside", "nobody's"])
async def test_look_up_believes_no_block_that_does_not_hold_the_payment(scene: Scene, named: str):
    held_by = {"parent": scene.block.parent, "beside": scene.beside.hash, "nobody's": FOREIGN}
    told = {
        "hex": scene.script.transactions[scene.tx].full().hex(),
        "blockhash": held_by[named],
    }
    truth = await scene.look_up()
    scene.liar.lie("getrawtransaction", lambda params, true: told)
    assert await or_refused(scene.look_up()) in {None, truth}


# The mempool


@pytest.mark.parametrize("lie", MEMPOOL_LIES)
async def test_mempool_shows_what_hashes_to_its_name_or_nothing(scene: Scene, lie: str):
    method, change = MEMPOOL_LIES[lie]
    scene.liar.lie(method, change(scene))
    found = await or_refused(scene.pending())
    assert found is None or list(found.transfers) == []
    scene.liar.lie(method, lambda params, true: true)
    (seen,) = (await scene.pending()).transfers
    assert (seen.transfer, int(seen.amount)) == (
        f"{scene.source.chain}/{scene.waits}/out:0",
        WAITS,
    )


# Nodes that cannot answer


async def test_node_that_is_loading_its_blocks_is_asked_again(scene: Scene):
    header = await scene.header()
    for method in ("getblockhash", "getbestblockhash", "getblockheader", "getblock", "gettxout"):
        scene.liar.refuse(method, -28, "Loading block index...")
    scene.liar.refuse("getrawtransaction", -28, "Loading block index...")
    scene.liar.refuse("getrawmempool", -28, "Loading block index...")
    unstarted = source_of(scene.script, urls=[scene.liar.url])
    for asked in (
        unstarted.start(),
        scene.source.head(),
        scene.source.header_at(header.height),
        scene.read(header),
        scene.look_up(),
        scene.source.header_by_hash(FOREIGN),
        scene.pending(),
    ):
        with pytest.raises(Retryable, match="Loading block index"):
            await asked
    await unstarted.close()


async def test_node_that_fails_to_say_what_is_unspent_makes_no_payment_unknown(
    scene: Scene, fresh: ChainSource
):
    scene.liar.refuse("gettxout", -32603, "internal error")
    with pytest.raises(Retryable):
        await fresh.look_up(scene.tx, scene.watching)
    scene.liar.refuse("gettxout", -32601, "Method not found")
    answer = await fresh.look_up(scene.tx, scene.watching)
    assert answer.state is LookedUpState.UNKNOWN


async def test_pruned_node_is_behind_and_its_history_does_not_reach(scene: Scene):
    header = await scene.header()
    scene.liar.refuse("getblock", -1, "Block not available (pruned data)")
    with pytest.raises(NodeBehind):
        await scene.read(header)
    assert not await scene.source.history_reaches(header.height)


async def test_other_chain_that_comes_to_stand_behind_the_url_stops_everything(scene: Scene):
    scene.liar.lie("getblockhash", lambda params, true: true if params[0] else FOREIGN)
    scene.clock.passed_s += HOUR_S
    with pytest.raises(WrongChain):
        await scene.source.head()


async def test_node_that_takes_no_batches_is_asked_one_by_one(scene: Scene, fresh: ChainSource):
    scene.liar.takes_batches = False
    assert await fresh.header_at(scene.block.height) == await scene.header()
    answer = await fresh.look_up(scene.tx, scene.watching)
    assert answer.state is LookedUpState.INCLUDED


# With a second node, the truth


@pytest.mark.parametrize("lie", BLOCK_LIES)
async def test_second_node_is_read_where_the_first_one_lies_about_a_block(
    scene: Scene, both: ChainSource, lie: str
):
    header = await scene.header()
    truth = await scene.read(header)
    scene.liar.lie("getblock", BLOCK_LIES[lie](scene))
    read = await both.read_block(header, scene.watching)
    assert [(one.transfer, one.amount) for one in read.transfers] == [
        (one.transfer, one.amount) for one in truth.transfers
    ]


@pytest.mark.parametrize("lie", HEADER_LIES)
async def test_second_node_is_asked_where_the_first_one_lies_about_a_header(
    scene: Scene, both: ChainSource, lie: str
):
    truth = await scene.header()
    method, change = HEADER_LIES[lie]
    scene.liar.lie(method, change(scene))
    assert await both.header_at(scene.block.height) == truth
    assert await both.header_by_hash(scene.block.hash) == truth


@pytest.mark.parametrize("lie", LOOK_UP_LIES)
async def test_second_node_is_asked_where_the_first_one_lies_about_a_payment(
    scene: Scene, both: ChainSource, lie: str
):
    truth = await scene.look_up()
    method, change = LOOK_UP_LIES[lie]
    scene.liar.lie(method, change(scene))
    answer = await both.look_up(scene.tx, scene.watching)
    assert (answer.state, answer.block, answer.pays) == (truth.state, truth.block, truth.pays)
