"""Cases CH-T01 to T13 from a node's answers to events: what tokens and logs mean."""

from __future__ import annotations

import pytest

from chains.devnet import Call, Payment, RawLog, Step, TokenMove
from chains.devnet.tokens import TokenKind
from chains.errors import CatalogueDiffers
from reconciler.model.policy import Tolerance
from schemas.amounts import BaseUnits
from schemas.caip import ChainName
from schemas.codes import Attention, Phase
from schemas.commands import PlaceOrder
from schemas.facts import FoundBy
from schemas.requests import ReadAgain
from tests.parts.whole_way import BSC, Way, route_of, whole_way
from tests.parts.world import ETHEREUM, POLYGON, World, address

DUE = 25_000_000
ARBITRUM = ChainName("eip155:42161")
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


def topic(who: str) -> str:
    return f"0x{who[2:].lower():0>64}"


def seen_by(way: Way) -> list:
    steps = [step for line in way.lines.values() for step in line.steps]
    return [fact for step in steps for fact in step.facts if hasattr(fact, "found_by")]


# CH-T01


@pytest.mark.parametrize("first", [True, False])
async def test_t01_nft_with_the_same_topic_is_no_money_and_stops_no_other_log(
    each_reading: Way, first: bool
) -> None:
    """Four topics, a token id, no data; the other logs of its receipt are read as ever."""
    way, line = each_reading, each_reading.ethereum
    nft = line.chain.deploy_token("NFT", 0, kind=TokenKind.NFT)
    to = await way.place()
    moves = [
        Step(move=TokenMove(token=nft, owner=line.payer, to=to, amount=669)),
        Step(move=TokenMove(token=line.token("USDT"), owner=line.wallet, to=to, amount=DUE)),
    ]
    line.chain.send(line.payer, Call(to=line.wallet, steps=tuple(moves if first else moves[::-1])))
    await way.mine(3)
    event = await way.world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)
    assert event.transfers[0].transfer.endswith("log:1" if first else "log:0")
    if line.node.switches.block_receipts:  # else only listed contracts are asked for
        assert line.ignored["not_fungible"] == 1


@pytest.mark.parametrize(
    ("topics", "data"),
    [
        (3, "0x"),
        (3, "0x" + "00" * 31 + "01" + "00" * 32),
        (2, f"0x{DUE:064x}"),
        (4, f"0x{DUE:064x}"),
    ],
)
async def test_t01_neighbour_the_listed_contract_itself_logs_another_shape(
    way: Way, topics: int, data: str
) -> None:
    line = way.ethereum
    to = await way.place()
    words = (TRANSFER, topic(line.payer), topic(to), f"0x{7:064x}")[:topics]
    log = RawLog(address=line.token("USDT"), topics=words, data=data)
    line.chain.send(line.payer, Call(to=line.wallet, steps=(Step(log=log),)))
    line.pay(to, DUE)
    await way.mine(3)
    assert (await way.world.last()).received_final == DUE
    assert len((await way.world.last()).transfers) == 1


# CH-T02


@pytest.mark.parametrize("block_receipts", [True, False])
async def test_t02_topics_and_addresses_in_another_letter_case_are_the_same_bytes(
    quick_world: World, block_receipts: bool
) -> None:
    async with whole_way(quick_world, start=False) as way:
        way.ethereum.node.set(
            upper_case_topics=True, checksummed_addresses=True, block_receipts=block_receipts
        )
        await way.ethereum.open()
        to = await way.place()
        tx = way.ethereum.pay(to, DUE)
        await way.claim(f"0X{tx[2:].upper()}")
        await way.mine(3)
        event = await way.world.last()
        assert (event.phase, event.claims[0].end.value) == (Phase.CONFIRMED, "used")


# CH-T03


async def test_t03_symbol_that_is_no_text_stops_neither_the_start_nor_a_payment(
    quick_world: World,
) -> None:
    async with whole_way(quick_world, start=False) as way:
        line = way.ethereum
        contract = line.token("USDT")
        line.chain.deploy_token("MKR", 6, address=contract, symbol_is_bytes32=True)
        await line.open()
        to = await way.place()
        line.pay(to, DUE)
        await way.mine(3)
        assert (await quick_world.last()).phase is Phase.CONFIRMED


# CH-T04


@pytest.mark.parametrize(
    ("fee", "phase"),
    [(10, Phase.CONFIRMED), (50, Phase.CONFIRMED), (51, Phase.PARTIALLY_PAID)],
)
async def test_t04_fee_on_transfer_credits_the_leg_that_is_ours(
    way: Way, fee: int, phase: Phase
) -> None:
    """Two logs in one transaction; 0.1, 0.5 and 0.51 percent, tolerance 0.5."""
    line, contract = way.ethereum, way.ethereum.token("USDT")
    line.chain.deploy_token(
        "USDT",
        6,
        address=contract,
        kind=TokenKind.FEE_ON_TRANSFER,
        fee_basis_points=fee,
        fee_to=line.chain.account("owner"),
    )
    to = await way.place(amount=100_000_000)
    line.pay(to, 100_000_000)
    await way.mine(3)
    event = await way.world.last()
    came = 100_000_000 - 10_000 * fee
    assert (event.phase, event.received_final, len(event.transfers)) == (phase, came, 1)
    assert came == line.chain.balance(to, contract)


async def test_t04_token_that_logs_more_than_it_moves_is_not_listed_and_ignored(way: Way) -> None:
    line = way.ethereum
    liar = line.chain.deploy_token(
        "FEE", 6, kind=TokenKind.HIDDEN_FEE, fee_basis_points=100, fee_to=line.payer
    )
    line.chain.give_token(liar, line.payer, 10**9)
    to = await way.place(amount=100_000_000)
    line.chain.pay_token(liar, line.payer, to, 100_000_000)
    await way.mine(3)
    assert (await way.world.last()).transfers == ()
    assert line.ignored["unlisted_contract"] == 1


# CH-T05


@pytest.mark.parametrize("count", [149, 150])
async def test_t05_150_equal_logs_of_one_transaction_are_150_payments(way: Way, count: int) -> None:
    line = way.ethereum
    to = await way.place(amount=150_000_000)
    leg = Payment(to=to, amount=1_000_000, token=line.token("USDT"))
    line.chain.pay_many(line.payer, [leg] * count, contract=line.wallet)
    await way.mine(3)
    event = await way.world.last()
    assert event.received_final == count * 1_000_000
    assert {t.transfer.rpartition(":")[2] for t in event.transfers} == set(map(str, range(count)))
    assert event.phase is (Phase.CONFIRMED if count == 150 else Phase.PARTIALLY_PAID)


# CH-T06


@pytest.mark.parametrize("rules", [{"mirror_logs": True}, {"coin_logs": True}])
async def test_t06_coin_that_is_logged_as_well_counts_once(
    quick_world: World, rules: dict[str, bool]
) -> None:
    """Polygon's mirror contract, and the system log of EIP-7708: the same trap twice."""
    eth = quick_world.context.routes["eth"]
    async with whole_way(quick_world, [POLYGON], **rules) as way:
        route = route_of(eth, way.polygon.asset("POL"))
        quick_world.context.routes = {"own": route}
        to = await way.place(amount=10**17)
        way.polygon.pay(to, 10**17, "POL")
        await way.mine(3, on=way.polygon)
        event = await quick_world.last()
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, 10**17)
        assert way.polygon.ignored["coin_mirror"] == 1
        assert await quick_world.open_exceptions() == {}


# CH-T07


async def test_t07_mint_is_a_payment_and_a_burn_takes_nothing_away(each_reading: Way) -> None:
    line, world = each_reading.ethereum, each_reading.world
    to = await each_reading.place()
    line.chain.mint_token(line.token("USDT"), line.payer, to, DUE)
    await each_reading.mine(3)
    assert (await world.last()).phase is Phase.CONFIRMED
    burn = TokenMove(token=line.token("USDT"), owner=to, to="0x" + "00" * 20, amount=DUE)
    line.chain.send(to, Call(to=line.token("USDT"), steps=(Step(move=burn),)))
    await each_reading.mine(3)
    event = await world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)
    assert await world.open_exceptions() == {}


# CH-T08


@pytest.mark.parametrize("traces", [{}, {"call_tracer": False}])
async def test_t08_coin_that_a_contract_sends_is_seen_by_a_node_that_traces(
    quick_world: World, traces: dict[str, bool]
) -> None:
    async with whole_way(quick_world, start=False) as way:
        way.ethereum.node.set(**traces)
        await way.ethereum.open()
        to = await way.place(route="eth", amount=5 * 10**17)
        line = way.ethereum
        line.chain.pay_inside(line.payer, line.wallet, to, 5 * 10**17)
        await way.mine(3)
        event = await quick_world.last()
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, 5 * 10**17)
        assert event.transfers[0].transfer.endswith("/call:0")


async def test_t08_without_traces_the_route_says_so_and_a_second_look_finds_it(
    quick_world: World,
) -> None:
    """The blind spot is named at the start; read again by a node that traces, the money is found."""
    async with whole_way(quick_world, start=False) as way:
        line = way.ethereum
        line.node.set(call_tracer=False, flat_traces=False)
        await line.open()
        to = await way.place(route="eth", amount=5 * 10**17)
        assert any("no node traces calls" in spot for spot in line.source.blind_spots())
        line.chain.pay_inside(line.payer, line.wallet, to, 5 * 10**17)
        await way.mine(3)
        assert (await quick_world.last()).transfers == ()
        line.node.set(call_tracer=True, flat_traces=True)
        await line.restart()
        request = ReadAgain(
            request="audit-1", chain=ETHEREUM, from_height=1, to_height=100, reason="balance"
        )
        line.loop.request(request)
        await way.mine(1)
        event = await quick_world.last()
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, 5 * 10**17)
        assert seen_by(way)[0].found_by is FoundBy.READ_AGAIN


# CH-T09


@pytest.mark.parametrize(
    ("came", "phase"),
    [
        (10**19, Phase.CONFIRMED),
        (10**19 - 1, Phase.CONFIRMED),
        (10**7, Phase.AWAITING_PAYMENT),
    ],
)
async def test_t09_eighteen_decimals_on_bsc_are_no_six(
    quick_world: World, came: int, phase: Phase
) -> None:
    """Ten dollars are 10^19 units there; 10^7 units, ten dollars on Ethereum, are nothing."""
    own = quick_world.context.routes["own"]
    async with whole_way(quick_world, [BSC]) as way:
        line = way.lines[BSC]
        quick_world.context.routes = {
            "own": route_of(
                own,
                line.asset("USDT"),
                dust=BaseUnits(10**16),
                amount_max=BaseUnits(10**24),
                tolerance=Tolerance(under_ppm=5_000, under_max=BaseUnits(10**18)),
            )
        }
        await quick_world.commands(
            PlaceOrder(
                idempotency_key="k",
                reference="o-1",
                route="own",
                amount_decimal="10",
                address=address(1),
            )
        )
        await way.flow()
        assert (await quick_world.last()).due == 10**19
        line.pay(address(1), came)
        await way.mine(3, on=line)
        assert (await quick_world.last()).phase is phase


@pytest.mark.parametrize("decimals", [5, 7, 18])
async def test_t09_start_is_refused_when_the_contract_has_other_decimals(
    quick_world: World, decimals: int
) -> None:
    async with whole_way(quick_world, start=False) as way:
        line = way.ethereum
        line.chain.deploy_token("USDT", decimals, address=line.token("USDT"))
        await line.open()
        with pytest.raises(CatalogueDiffers, match=f"expected 6 decimals, found {decimals}"):
            await way.flow()
        assert line.marks == []


# CH-T10


@pytest.mark.parametrize("chain", [POLYGON, ARBITRUM])
@pytest.mark.parametrize(("offered", "came"), [("USDC", "USDC.e"), ("USDC.e", "USDC")])
async def test_t10_the_other_usdc_is_named_and_never_merged(
    quick_world: World, chain: ChainName, offered: str, came: str
) -> None:
    own = quick_world.context.routes["own"]
    async with whole_way(quick_world, [chain]) as way:
        line = way.lines[chain]
        quick_world.context.routes = {"own": route_of(own, line.asset(offered))}
        to = await way.place()
        line.pay(to, DUE, came)
        await way.mine(3, on=line)
        event = await quick_world.last()
        assert (event.received_final, event.attention) == (0, (Attention.WRONG_ASSET,))
        found = (await quick_world.open_exceptions())["wrong_asset"]
        assert (found.asset, found.amount) == (line.asset(came).id, DUE)
        line.pay(to, DUE, offered)
        await way.mine(3, on=line)
        assert (await quick_world.last()).phase is Phase.CONFIRMED


# CH-T11


@pytest.mark.parametrize("amount", [2**256 - 1, 10**15 + 1])
async def test_t11_listed_contract_that_logs_an_absurd_amount_confirms_nothing(
    each_reading: Way, amount: int
) -> None:
    line, world = each_reading.ethereum, each_reading.world
    to = await each_reading.place()
    log = RawLog(
        address=line.token("USDT"),
        topics=(TRANSFER, topic(line.payer), topic(to)),
        data=f"0x{amount:064x}",
    )
    line.chain.send(line.payer, Call(to=line.wallet, steps=(Step(log=log),)))
    await each_reading.mine(3)
    event = await world.last()
    assert (event.phase, event.attention) == (
        Phase.AWAITING_PAYMENT,
        (Attention.IMPLAUSIBLE_AMOUNT,),
    )
    assert (await world.open_exceptions())["implausible_amount"].amount == amount


# CH-T12


async def test_t12_token_to_an_address_that_no_transaction_names_is_found(
    each_reading: Way,
) -> None:
    """The address stands in a log's topic alone: contracts are asked for, receivers matched here."""
    line, world = each_reading.ethereum, each_reading.world
    to = await each_reading.place()
    legs = [
        Payment(to=line.payer, amount=1, token=line.token("USDT")),
        Payment(to=to, amount=DUE, token=line.token("USDT")),
    ]
    line.chain.pay_many(line.chain.account("relayer"), legs, contract=line.wallet)
    await each_reading.mine(3)
    assert (await world.last()).phase is Phase.CONFIRMED


# CH-T13


@pytest.mark.parametrize(
    ("paid", "phase"),
    [(12_345_679, Phase.CONFIRMED), (12_345_678, Phase.PARTIALLY_PAID)],
)
async def test_t13_due_is_whole_units_and_paying_them_is_exact(
    way: Way, paid: int, phase: Phase
) -> None:
    """12.34567891 is refused as a price; 12.345679 is paid exactly, and a unit less is short."""
    world = way.world
    own = world.context.routes["own"]
    world.context.routes = {"own": route_of(own, way.ethereum.asset("USDT"), tolerance=Tolerance())}
    to = await way.place(amount=12_345_679)
    assert "uint256=12345679" in (await world.last()).payment_uri
    way.ethereum.pay(to, paid)
    await way.mine(3)
    assert (await world.last()).phase is phase
