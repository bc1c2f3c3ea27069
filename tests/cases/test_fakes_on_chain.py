"""Cases CH-F01 to F13 from a node's answers to events: what looks like a payment and is none.

`each_reading` is a way once a manner of reading: all receipts at once, logs and single receipts,
without traces.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from chains.addresses import AddressError
from chains.devnet import Call, How, RawLog, Step, TokenMove
from chains.devnet.faults import SetField
from chains.devnet.tokens import TokenKind
from chains.registry import parse_address
from schemas.caip import AssetName
from schemas.codes import Attention, ClaimEnd, Phase
from tests.parts.whole_way import BSC, Way, route_of, whole_way
from tests.parts.world import ETHEREUM, START, USDT, World

DUE = 25_000_000


async def nothing_came(way: Way, *, kinds: tuple[str, ...] = ("awaiting",)) -> None:
    """No row, no change, no event, no exception: IGNORE."""
    world = way.world
    assert tuple(await world.kinds("o-1")) == kinds
    assert (await world.last()).transfers == ()
    assert await world.open_exceptions() == {}
    assert not any(
        fact for step in way.ethereum.steps for fact in step.facts if hasattr(fact, "to")
    )


async def then_the_honest_one_counts(way: Way, to: str) -> None:
    way.ethereum.pay(to, DUE)
    await way.mine(3)
    event = await way.world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)


def hollow_call(to: str, amount: int = DUE) -> str:
    return f"0xa9059cbb{to[2:].lower():0>64}{amount:064x}"


# CH-F01


@pytest.mark.parametrize("claim_first", [True, False])
async def test_f01_token_that_returns_false_moves_nothing_and_the_claim_hears_so(
    way: Way, claim_first: bool
) -> None:
    """A listed token answers false: status 1, calldata in full, no log."""
    line = way.ethereum
    line.chain.deploy_token("USDT", 6, address=line.token("USDT"), kind=TokenKind.RETURNS_FALSE)
    to = await way.place()
    tx = line.chain.pay_token(line.token("USDT"), line.chain.account("poor"), to, DUE)
    if claim_first:
        await way.claim(tx)
        assert await way.end_of_claim() is ClaimEnd.OPEN
    await way.mine(3)
    if not claim_first:
        await way.claim(tx)
    assert await way.end_of_claim() is ClaimEnd.PAYS_NOTHING
    await nothing_came(way, kinds=("awaiting", "claimed"))
    await then_the_honest_one_counts(way, to)


async def test_f01_neighbour_calldata_to_a_contract_that_does_nothing(way: Way) -> None:
    to = await way.place()
    idle = way.ethereum.chain.account("idle")
    way.ethereum.chain.set_code(idle)
    call = Call(to=way.ethereum.token("USDT"), input=hollow_call(to))
    tx = way.ethereum.chain.send(way.ethereum.payer, call)
    await way.mine(3)
    await way.claim(tx)
    assert await way.end_of_claim() is ClaimEnd.PAYS_NOTHING
    await nothing_came(way, kinds=("awaiting", "claimed"))


# CH-F02


async def test_f02_look_alike_token_is_ignored_and_counted(each_reading: Way) -> None:
    """Same name, symbol and decimals, a well-formed log: only the emitting contract differs."""
    chain, fake = each_reading.ethereum.chain, "0x6D8bCb1Fa9Fb81002EA0653B87b365389B217293"
    chain.deploy_token("USDT", 6, name="Tether USD", address=fake)
    chain.give_token(fake, each_reading.ethereum.payer, DUE)
    to = await each_reading.place()
    tx = chain.pay_token(fake, each_reading.ethereum.payer, to, DUE)
    await each_reading.mine(3)
    await nothing_came(each_reading)
    await each_reading.claim(tx)
    assert await each_reading.end_of_claim() is ClaimEnd.PAYS_NOTHING
    await then_the_honest_one_counts(each_reading, to)


async def test_f02_of_bsc_with_the_addresses_of_the_report(quick_world: World) -> None:
    quick_world.context.lanes = {BSC: 1}
    async with whole_way(quick_world, [BSC]) as way:
        line = way.lines[BSC]
        own = quick_world.context.routes["own"]
        route = route_of(own, line.asset("USDT"))
        quick_world.context.routes = {"own": route}
        assert line.token("USDT") == "0x55d398326f99059fF775485246999027B3197955"
        fake = "0x6D8bCb1Fa9Fb81002EA0653B87b365389B217293"
        line.chain.deploy_token("USDT", 18, name="Tether USD", address=fake)
        line.chain.give_token(fake, line.payer, 10**20)
        to = await way.place(amount=10**13)
        line.chain.pay_token(fake, line.payer, to, 10**19)
        await way.mine(3, on=line)
        assert (await quick_world.last()).transfers == ()
        assert line.ignored["unlisted_contract"] == 1


@pytest.mark.parametrize(
    "text", ["TGgRecfxVCzTqa4o5yCtv7D4DHy1PGZzsk", "TJCDneQevgfGFkU1rpCxVofksbeiGLhMCi"]
)
def test_f02_address_of_another_chain_or_with_a_wrong_checksum_is_no_address(text: str) -> None:
    with pytest.raises(AddressError) as refused:
        parse_address(ETHEREUM, text)
    assert refused.value.code == "address_wrong_chain"


# CH-F03


async def test_f03_zero_moved_by_a_stranger_is_ignored_from_the_block_on(each_reading: Way) -> None:
    chain = each_reading.ethereum.chain
    to = await each_reading.place()
    tx = chain.transfer_from(
        each_reading.ethereum.token("USDT"),
        chain.account("stranger"),
        each_reading.ethereum.payer,
        to,
        0,
    )
    await each_reading.mine(3)
    assert each_reading.ethereum.ignored["zero_value"] == 1
    await nothing_came(each_reading)
    await each_reading.claim(tx)
    assert await each_reading.end_of_claim() is ClaimEnd.PAYS_NOTHING
    await then_the_honest_one_counts(each_reading, to)


async def test_f03_neighbour_zero_of_the_coin(way: Way) -> None:
    to = await way.place()
    way.ethereum.pay(to, 0, "ETH")
    await way.mine(3)
    await nothing_came(way)
    assert way.ethereum.ignored["zero_value"] == 1


# CH-F04


@pytest.mark.parametrize("before", [True, False])
async def test_f04_dust_of_a_look_alike_is_nobodys_and_shown_in_full(
    way: Way, before: bool
) -> None:
    chain, honest = way.ethereum.chain, "0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B"
    poison = "0xab58" + "c" * 32 + "ec9b"
    for who in (honest, poison):
        chain.give_token(way.ethereum.token("USDT"), who, 10**9)
    to = await way.place()
    pays = [(poison, 1), (honest, DUE)]
    for who, amount in pays if before else pays[::-1]:
        chain.pay_token(way.ethereum.token("USDT"), who, to, amount)
        await way.mine(1)
    await way.mine(3)
    event = await way.world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)
    assert sorted(int(t.counted) for t in event.transfers) == [0, DUE]
    assert set(await way.world.open_exceptions()) == {"dust"}
    senders = {
        fact.sender for step in way.ethereum.steps for fact in step.facts if hasattr(fact, "to")
    }
    assert {sender.lower() for sender in senders} == {honest.lower(), poison}
    assert all(len(sender) == 42 for sender in senders)


# CH-F05


@pytest.mark.parametrize("claimed", [True, False])
async def test_f05_failed_transaction_that_carries_value_pays_nothing(
    each_reading: Way, claimed: bool
) -> None:
    each_reading.world.context.routes["own"] = each_reading.world.context.routes["eth"]
    to = await each_reading.place(amount=10**17)
    each_reading.ethereum.chain.set_code(to)
    tx = each_reading.ethereum.chain.pay_coin(
        each_reading.ethereum.payer, to, 10**17, How(fails="out of gas")
    )
    await each_reading.mine(3)
    if claimed:
        await each_reading.claim(tx)
        assert await each_reading.end_of_claim() is ClaimEnd.PAYS_NOTHING
    await nothing_came(each_reading, kinds=("awaiting", "claimed") if claimed else ("awaiting",))


async def test_f05_neighbour_an_inner_payment_under_a_frame_that_failed(way: Way) -> None:
    way.world.context.routes["own"] = way.world.context.routes["eth"]
    to = await way.place(amount=10**17)
    failing = Call(
        to=way.ethereum.wallet,
        steps=(Step(call=Call(to=to, value=10**17)),),
        fails="execution reverted",
    )
    way.ethereum.chain.send(
        way.ethereum.payer, Call(to=way.ethereum.wallet, steps=(Step(call=failing),))
    )
    await way.mine(3)
    await nothing_came(way)


# CH-F07


async def test_f07_what_was_delivered_counts_and_not_what_was_asked_for(way: Way) -> None:
    """Calldata says 1000, the token moves 0.0031: the effect is credited, never the intention."""
    to = await way.place(amount=1_000_000_000)
    chain, token, payer = way.ethereum.chain, way.ethereum.token("USDT"), way.ethereum.payer
    move = TokenMove(token=token, owner=payer, to=to, amount=3_100_000)
    call = Call(to=token, input=hollow_call(to, 1_000_000_000), steps=(Step(move=move),))
    chain.send(payer, call)
    await way.mine(3)
    event = await way.world.last()
    assert (event.phase, event.received_final) == (Phase.PARTIALLY_PAID, 3_100_000)
    assert event.missing == 1_000_000_000 - 3_100_000


# CH-F08


@pytest.mark.parametrize("status", ["0x2", None])
async def test_f08_only_the_one_positive_status_counts(
    each_reading: Way, status: str | None
) -> None:
    """A status that nobody knows is no success, and no reason to pass the block either."""
    to = await each_reading.place()
    each_reading.ethereum.pay(to, DUE)
    receipts = ("eth_getBlockReceipts", "eth_getTransactionReceipt")
    each_reading.ethereum.node.faults.add(
        SetField(methods=receipts, times=None, field="status", value=status)
    )
    covered = each_reading.ethereum.marks[-1].height
    await each_reading.mine(3)
    await nothing_came(each_reading)
    assert each_reading.ethereum.marks[-1].height == covered
    each_reading.ethereum.node.faults.clear()
    await each_reading.mine(1)
    await each_reading.mine(2)
    assert (await each_reading.world.last()).phase is Phase.CONFIRMED


# CH-F09


async def test_f09_notification_of_a_counterfeit_is_no_transfer(way: Way) -> None:
    """A contract of the attacker's calls the real token and shouts the same log in its own name."""
    chain, real = way.ethereum.chain, way.ethereum.token("USDT")
    to = await way.place()
    fake = chain.account("counterfeit")
    chain.set_code(fake)
    topics = (
        "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        "0x" + f"{way.ethereum.payer[2:].lower():0>64}",
        "0x" + f"{to[2:].lower():0>64}",
    )
    shout = RawLog(address=fake, topics=topics, data=f"0x{10**9:064x}")
    call = Call(to=fake, steps=(Step(call=Call(to=real)), Step(log=shout)))
    chain.send(chain.account("stranger"), call)
    await way.mine(3)
    await nothing_came(way)
    await then_the_honest_one_counts(way, to)


# CH-F10


@pytest.mark.parametrize(
    ("symbol", "name"), [("USⅮΤ", "Τeth℮r"), ("USDT\x00", "\u202eTDSU"), ("=1+1", "'; DROP")]
)
async def test_f10_homoglyphs_decide_nothing_because_no_name_is_read(
    way: Way, symbol: str, name: str
) -> None:
    chain = way.ethereum.chain
    fake = chain.deploy_token(symbol, 6, name=name)
    chain.give_token(fake, way.ethereum.payer, DUE)
    to = await way.place()
    chain.pay_token(fake, way.ethereum.payer, to, DUE)
    await way.mine(3)
    await nothing_came(way)


# CH-F11


async def test_f11_failed_token_transfer_with_full_parameters_pays_nothing(
    each_reading: Way,
) -> None:
    to = await each_reading.place()
    tx = each_reading.ethereum.chain.pay_token(
        each_reading.ethereum.token("USDT"),
        each_reading.ethereum.payer,
        to,
        DUE,
        How(fails="OUT_OF_ENERGY"),
    )
    await each_reading.mine(3)
    await each_reading.claim(tx)
    assert await each_reading.end_of_claim() is ClaimEnd.PAYS_NOTHING
    await nothing_came(each_reading, kinds=("awaiting", "claimed"))
    await then_the_honest_one_counts(each_reading, to)


# CH-F12


async def test_f12_coin_and_token_in_one_block_have_sums_of_their_own(way: Way) -> None:
    to = await way.place(amount=9_000_000)
    way.ethereum.pay(to, 9_000_000)
    way.ethereum.pay(to, 10**12, "ETH")
    await way.mine(3)
    event = await way.world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, 9_000_000)
    way.ethereum.pay(to, 10**18, "ETH")
    await way.mine(3)
    event = await way.world.last()
    assert (event.received_final, event.attention) == (9_000_000, (Attention.WRONG_ASSET,))


# CH-F13


@pytest.mark.parametrize("unlisted", ["eip155:1/trc10:1002000", "eip155:1/slip44:195"])
async def test_f13_row_of_an_asset_that_nobody_listed_is_kept_and_never_counted(
    quick_world: World, unlisted: str
) -> None:
    """999 units of something worthless beside the payment: an asset needs a listed id of its own."""
    world = quick_world
    to = await world.place()
    worthless = world.ethereum.seen(to, 999_000_000, asset=AssetName(unlisted), position="log:1")
    done = await world.facts(worthless)
    assert done.unreadable == 1
    await world.mine(3)
    assert (await world.last()).received_final == 0
    assert (await world.last()).attention == (Attention.UNREADABLE_FACT,)
    assert set(await world.open_exceptions()) == {"unreadable_fact"}


async def test_f13_neighbour_the_real_coin_beside_it_counts_as_the_coin(quick_world: World) -> None:
    world = quick_world
    asset = world.context.routes["eth"].asset
    to = await world.place(route="eth", amount=15 * 10**18)
    token = world.ethereum.seen(to, 999 * 10**6, asset=USDT)
    coin = world.ethereum.seen(to, 15 * 10**18, asset=asset, position="value")
    await world.mine(3, token, coin)
    event = await world.last()
    assert (event.phase, event.received_final) == (Phase.CONFIRMED, 15 * 10**18)
    assert event.attention == (Attention.WRONG_ASSET,)
    assert world.now >= START + timedelta(0)
