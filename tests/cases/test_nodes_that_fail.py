"""Cases CH-R01 to R15: providers, cursors and client libraries, from lying nodes to events.

The story is always the same: an order is paid in parts, some in old blocks that are read in ranges,
some at the tip. Whatever a node does, nothing is skipped: either everything is there, or the cursor
stands before what could not be read; once the node tells the truth, all of it has come, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from chains.devnet.faults import (
    AnyFault,
    Behind,
    DropSocket,
    HttpStatus,
    Refuse,
    RefuseRange,
    Replace,
    TellTwice,
    Truncate,
    Withhold,
)
from chains.devnet.rpc_errors import RANGE_WORDINGS
from chains.registry import parse_address, parse_transaction_id
from schemas.codes import Attention, ClaimEnd, Phase
from schemas.commands import PlaceOrder
from schemas.requests import ReadAgain
from tests.parts.whole_way import Way, whole_way
from tests.parts.world import ETHEREUM, POLYGON, START, World

PART = 5_000_000
DUE = 5 * PART
BLOCKS = ("eth_getBlockByNumber", "eth_getBlockByHash")
RECEIPTS = ("eth_getBlockReceipts", "eth_getTransactionReceipt")
LOGS = ("eth_getLogs",)


class History:
    """An order that was paid while nobody looked: three parts in old blocks, two at the tip."""

    def __init__(self, way: Way, to: str) -> None:
        self.way, self.to, self.line = way, to, way.ethereum

    @property
    def covered(self) -> int:
        return self.line.marks[-1].height if self.line.marks else 0

    def pay_parts(self) -> None:
        for rest in (5, 7, 20, 6, 1):
            self.line.pay(self.to, PART)
            self.line.chain.mine(rest)

    async def is_whole(self) -> bool:
        """Everything is there, once; the cursor has passed nothing that is not."""
        event = await self.way.world.last()
        heights = sorted(t.block.height for t in event.transfers if t.block)
        paid = [h for h in range(self.covered + 1) if self.line.chain.block(h).transactions]
        assert heights == paid, "the cursor passed what was not read"
        return len(heights) == 5

    async def ends_well(self) -> None:
        await self.way.pass_time(timedelta(minutes=2))
        await self.way.mine(3)
        event = await self.way.world.last()
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)
        assert len(event.transfers) == 5
        assert await self.way.world.open_exceptions() == {}


async def history_of(way: Way) -> History:
    to = await way.place(amount=DUE)
    history = History(way, to)
    history.pay_parts()
    return history


@pytest.fixture
async def history(quick_world: World):
    """Read by logs and single receipts: there a lie has the most room."""
    async with whole_way(quick_world, start=False) as way:
        way.ethereum.node.set(block_receipts=False)
        yield await history_of(way)


@pytest.fixture(params=[False, True], ids=["logs", "receipts"])
async def each_history(request: pytest.FixtureRequest, history: History):
    history.line.node.set(block_receipts=request.param)
    return history


async def spoil(history: History, *faults: AnyFault) -> None:
    """Begin to read with these faults; then they end."""
    await history.line.open()
    for fault in faults:
        history.line.node.faults.add(fault)
    await history.way.catch_up(history.line)
    await history.is_whole()
    history.line.node.faults.clear()
    await history.ends_well()


# CH-R01


@pytest.mark.parametrize("methods", [LOGS, RECEIPTS, BLOCKS, ("eth_getBlockByNumber",)])
async def test_r01_balancer_that_mixes_in_a_node_20_blocks_behind(
    each_history: History, methods: Sequence[str]
) -> None:
    await spoil(each_history, Behind(methods=tuple(methods), times=None, skip=2, blocks=20))


@pytest.mark.parametrize("blocks", [1, 5, 39])
async def test_r01_neighbour_the_whole_node_lags_and_the_other_does_not(
    quick_world: World, blocks: int
) -> None:
    async with whole_way(quick_world, start=False) as way:
        way.ethereum.second_node(first=True).set(lag=blocks)
        history = await history_of(way)
        await history.line.open()
        await way.catch_up(history.line)
        # one block of lag is within what blocks take; an old head is not believed to be the head
        assert await history.is_whole() is (blocks > 1)
        await history.ends_well()


# CH-R02, CH-R03


@pytest.mark.parametrize(
    ("wording", "blocks_max"), [*((one, 1) for one in sorted(RANGE_WORDINGS)), ("limited_to", 3)]
)
async def test_r03_any_wording_of_a_range_limit_halves_the_range(
    history: History, wording: str, blocks_max: int
) -> None:
    await history.line.open()
    history.line.node.set(range_blocks_max=blocks_max, range_wording=wording)
    await history.way.catch_up(history.line)
    assert await history.is_whole()
    await history.ends_well()


@pytest.mark.parametrize("rows_max", [0, 1])
async def test_r02_too_many_results_goes_down_to_a_single_block(
    history: History, rows_max: int
) -> None:
    await history.line.open()
    history.line.node.set(range_rows_max=rows_max, range_wording="10000_results")
    await history.way.catch_up(history.line)
    assert await history.is_whole()
    await history.ends_well()


async def test_r02_single_block_that_is_refused_as_well_is_waited_for_and_shown(
    quick_world: World,
) -> None:
    """Where a node gives logs alone and refuses even one block's, nothing moves and all see it."""
    async with whole_way(quick_world, start=False) as way:
        way.ethereum.node.set(block_receipts=False)
        history = await history_of(way)
        await spoil(history, RefuseRange(methods=LOGS, times=None, wording="10000_results"))
        assert len(way.ethereum.failures) > 5
        assert any(failed.failures_in_a_row > 5 for failed in way.ethereum.failures)


# CH-R04


@pytest.mark.parametrize("keep", [0, 1])
async def test_r04_slices_that_lack_rows_are_read_again_and_add_them_once(
    quick_world: World, keep: int
) -> None:
    """No proof covers one log less of a contract that has others: the second look does, once."""
    async with whole_way(quick_world, start=False) as way:
        line = way.ethereum
        line.node.set(block_receipts=False)
        to = await way.place(amount=2 * PART)
        for _ in range(2):
            line.pay(to, PART)
        line.chain.mine(20)
        await line.open()
        line.node.faults.add(Truncate(methods=LOGS, times=None, keep=keep))
        await way.catch_up(line)
        came = (await quick_world.last()).received_final
        line.node.faults.clear()
        for number in range(2):
            line.loop.request(
                ReadAgain(
                    request=f"audit-{number}",
                    chain=ETHEREUM,
                    from_height=1,
                    to_height=22,
                    reason="another slice size",
                )
            )
            await way.mine(2)
        event = await quick_world.last()
        assert came == (PART if keep else 2 * PART)  # where nothing is given the bloom objects
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, 2 * PART)
        assert len(event.transfers) == 2
        assert (await quick_world.kinds("o-1")).count("confirmed") == 1


# CH-R05


@pytest.mark.parametrize("method", BLOCKS)
async def test_r05_block_that_comes_as_null_is_asked_again_and_never_skipped(
    each_history: History, method: str
) -> None:
    await spoil(each_history, Replace(methods=(method,), skip=3, times=None))


async def test_r05_neighbour_other_chains_go_on_meanwhile(quick_world: World) -> None:
    async with whole_way(quick_world, [ETHEREUM, POLYGON]) as way:
        to = await way.place()
        way.ethereum.node.faults.add(Replace(methods=BLOCKS, times=None))
        way.ethereum.chain.mine(3)
        way.polygon.pay(to, DUE)
        await way.mine(3, on=way.polygon)
        event = await quick_world.last()
        assert event.attention == (Attention.WRONG_NETWORK,)
        assert way.polygon.marks[-1].height == way.polygon.chain.height
        assert way.ethereum.marks[-1].height < way.ethereum.chain.height


# CH-R06


@pytest.mark.parametrize("skip", [0, 1, 3, 4])
async def test_r06_cursor_stays_before_the_block_that_failed(quick_world: World, skip: int) -> None:
    """Five blocks, each with a payment; whichever call the node refuses, the next tick begins there."""
    async with whole_way(quick_world) as way:
        history = History(way, await way.place(amount=DUE))
        for _ in range(5):
            history.line.pay(history.to, PART)
            history.line.chain.mine()
        fault = HttpStatus(times=None, skip=skip, status=429, retry_after_s=7)
        history.line.node.faults.add(fault)
        await way.catch_up(history.line)
        await history.is_whole()
        assert history.line.clock.longest_wait_s >= 7
        assert {failed.error for failed in history.line.failures} == {"NodeBusy"}
        history.line.node.faults.clear()
        await history.ends_well()


# CH-R07


@pytest.mark.parametrize("length", [0, 32, 97, 278])
async def test_r07_extra_data_of_any_length_is_a_block_like_others(
    quick_world: World, length: int
) -> None:
    extra = "0xd683010a17" + "ab" * max(0, length - 5) if length else "0x"
    async with whole_way(quick_world, extra_data=extra) as way:
        to = await way.place()
        way.ethereum.pay(to, DUE)
        await way.mine(3)
        assert (await quick_world.last()).phase is Phase.CONFIRMED


# CH-R08


@pytest.mark.parametrize(
    "fault",
    [None, Withhold(methods=("newHeads",), times=3), TellTwice(methods=("newHeads",), times=9)],
)
async def test_r08_blocks_during_a_reconnect_are_read_and_nothing_twice(
    quick_world: World, fault: AnyFault | None
) -> None:
    async with whole_way(quick_world, start=False) as way:
        line = way.ethereum
        line.urls.append(way.devnet.socket_url(line.id))
        await line.open(watermark_every_s=0.0)
        history = History(way, await way.place(amount=DUE))
        if fault is not None:
            line.node.faults.add(fault)
        for number in range(5):
            if number == 2:
                way.devnet.drop_sockets()
            line.pay(history.to, PART)
            line.chain.mine()
            if number != 2:
                await way.catch_up(line)
        await way.catch_up(line)
        assert await history.is_whole()
        await history.ends_well()


# CH-R09


@pytest.mark.parametrize("gone", ["pruned", "empty"])
async def test_r09_pruned_history_is_no_history_and_the_order_waits(
    quick_world: World, gone: str
) -> None:
    """The address needs blocks that the node no longer has: not covered, told, and never expired."""
    async with whole_way(quick_world, start=False) as way:
        line = way.ethereum
        to = await way.place(amount=DUE)
        line.pay(to, DUE)
        line.chain.mine(30)
        line.node.set(history_from=25, history_gone=gone)
        await line.open(start_at=28)
        await way.catch_up(line)
        await way.pass_time(timedelta(minutes=90))
        event = await quick_world.last()
        assert (event.phase, event.attention) == (
            Phase.AWAITING_PAYMENT,
            (Attention.NOT_COVERED,),
        )
        assert set(await quick_world.open_exceptions()) == {"not_watched"}
        line.node.set(history_from=0)
        await way.pass_time(timedelta(minutes=2))
        await way.mine(1)
        assert (await quick_world.last()).phase is Phase.CONFIRMED
        assert await quick_world.open_exceptions() == {}


# CH-R10


@pytest.mark.parametrize("times", [1, 3, None])
async def test_r10_receipt_that_is_null_for_a_moment_is_waited_for(
    each_history: History, times: int | None
) -> None:
    await spoil(each_history, Replace(methods=RECEIPTS, times=times))


# CH-R11


@pytest.mark.parametrize("fault", [DropSocket(times=None), HttpStatus(times=None, status=503)])
async def test_r11_node_that_is_away_over_the_deadline_expires_nobody(
    quick_world: World, fault: AnyFault
) -> None:
    async with whole_way(quick_world) as way:
        to = await way.place()
        await way.pass_time(timedelta(minutes=5))
        way.ethereum.node.faults.add(fault)
        at = int((START + timedelta(minutes=10)).timestamp())
        way.ethereum.pay(to, DUE)
        way.ethereum.chain.mine(1, time=at)
        await way.pass_time(timedelta(minutes=80))
        assert await quick_world.kinds("o-1") == ["awaiting"]
        way.ethereum.node.faults.clear()
        await way.pass_time(timedelta(minutes=1))
        await way.mine(2)
        assert await quick_world.kinds("o-1") == ["awaiting", "detected", "confirmed"]
        assert (await quick_world.last()).transfers[0].in_time
        assert await quick_world.open_exceptions() == {}


# CH-R12


@pytest.mark.parametrize(
    "spelled", ["{0}", "0x{1}", "{0:.0}0x{1}", "{1}", " 0X{2} ", "https://etherscan.io/tx/0x{2}#x"]
)
async def test_r12_transaction_id_with_or_without_its_prefix_is_one(way: Way, spelled: str) -> None:
    to = await way.place()
    tx = way.ethereum.pay(to, DUE)
    await way.mine(3)
    await way.claim(spelled.format(tx, tx[2:], tx[2:].upper()))
    state = await way.world.state("o-1")
    assert (state.claims[0].tx, state.claims[0].end) == (tx, ClaimEnd.USED)


@pytest.mark.parametrize("kept", ["bare", "upper"])
async def test_r12_row_under_another_spelling_makes_no_second_payment(
    quick_world: World, kept: str
) -> None:
    """What would be a second identity of the same money is not applied and needs a person."""
    world = quick_world
    to = await world.place(amount=2 * DUE)
    tx = "0x" + "ab" * 32
    other = tx[2:] if kept == "bare" else f"0x{tx[2:].upper()}"
    await world.mine(3, world.ethereum.seen(to, DUE, tx=tx))
    await world.mine(3, world.ethereum.seen(to, DUE, tx=other, height=101))
    event = await world.last()
    assert (event.phase, event.received_final) == (Phase.PARTIALLY_PAID, DUE)
    assert set(await world.open_exceptions()) == {"unreadable_fact"}
    assert parse_transaction_id(ETHEREUM, other) == tx


# CH-R13

EIP55 = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@pytest.mark.parametrize("written", [EIP55, EIP55.lower(), f"0X{EIP55[2:].upper()}"])
async def test_r13_address_in_any_letter_case_is_paid(way: Way, written: str) -> None:
    world = way.world
    to = await way.place(address=written)
    assert to == EIP55
    way.ethereum.pay(to.lower(), DUE)
    await way.mine(3)
    assert (await world.last()).phase is Phase.CONFIRMED
    assert parse_address(ETHEREUM, written).display == EIP55


async def test_r13_neighbour_mixed_case_with_a_wrong_checksum_is_refused(
    quick_world: World,
) -> None:
    wrong = "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    await quick_world.commands(
        PlaceOrder(
            idempotency_key="k", reference="o-1", route="own", amount=str(DUE), address=wrong
        )
    )
    assert [code for code, _ in await quick_world.rejections()] == ["address_checksum"]


# CH-R14


@pytest.mark.parametrize("rows", [100, 130])
async def test_r14_answer_of_exactly_a_page_is_taken_for_a_page(
    quick_world: World, rows: int
) -> None:
    """A node cuts at 100 rows and says nothing: just full is not believed, and asked in halves."""
    async with whole_way(quick_world, start=False) as way:
        line = way.ethereum
        line.node.set(block_receipts=False)
        to = await way.place(amount=rows * 10_000)
        for number in range(rows):
            line.pay(to, 10_000)
            if number % 12 == 0:
                line.chain.mine()
        line.chain.mine(8)
        await line.open()
        line.node.faults.add(Truncate(methods=LOGS, times=None, keep=100))
        await way.catch_up(line)
        event = await quick_world.last()
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, rows * 10_000)


# CH-R15


async def test_r15_block_that_its_own_head_announced_is_not_found_yet(history: History) -> None:
    await spoil(
        history,
        RefuseRange(methods=LOGS, times=6, wording="block_not_found"),
        Refuse(methods=RECEIPTS, times=3, code=-32000, message="unknown block"),
    )
