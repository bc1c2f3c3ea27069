"""Attacks from the chain: strangers' transfers and tokens, and nodes that lie."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from chains.devnet import Payment
from chains.devnet.faults import SetField
from chains.errors import WrongChain
from reconciler.model.policy import FinalityTier
from schemas.amounts import BaseUnits
from schemas.codec import encode
from schemas.codes import Attention, Phase
from tests.parts.attacks import ATTACKER, DUE
from tests.parts.whole_way import Way
from tests.parts.world import POLYGON, USDC, World, address

# Transfers


async def test_attack_dust(world: World) -> None:
    to = await world.place()
    for _ in range(2):
        grains = [world.ethereum.seen(to, 1, sender=ATTACKER) for _ in range(60)]
        await world.mine(1, *grains)
    await world.mine(3, world.ethereum.seen(to, DUE))
    assert await world.kinds("o-1") == ["awaiting", "detected", "confirmed"]
    assert [e.kind.value for e in await world.exceptions()] == ["dust"]
    assert (await world.last()).received_final == DUE


async def test_attack_zero_value_transfers(each_reading: Way) -> None:
    line, world = each_reading.ethereum, each_reading.world
    to = await each_reading.place()
    for symbol in ("USDT", "USDC"):
        stranger = line.chain.account("stranger")
        line.chain.transfer_from(line.token(symbol), stranger, line.payer, to, 0)
    line.pay(to, 0, "ETH")
    await each_reading.mine(3)
    assert await world.kinds("o-1") == ["awaiting"]
    assert await world.open_exceptions() == {}


async def test_attack_look_alike_addresses(way: Way) -> None:
    """One nibble beside ours, and one that ends like ours: neither is ours, and nothing is cut."""
    to = await way.place()
    twin = to[:-1] + ("0" if to[-1] != "0" else "1")
    ends_alike = "0x" + "ab" * 12 + to[-16:]
    for other in (twin, ends_alike):
        way.ethereum.pay(other, DUE)
    await way.mine(3)
    assert await way.world.kinds("o-1") == ["awaiting"]
    event = await way.world.last()
    assert len(event.address) == 42
    assert event.payment_uri.count(to) == 1


async def test_attack_fake_tokens(each_reading: Way) -> None:
    line, world = each_reading.ethereum, each_reading.world
    fake = line.chain.deploy_token("USDT", 6, name="Tether USD")
    line.chain.give_token(fake, line.payer, DUE)
    to = await each_reading.place()
    line.chain.pay_token(fake, line.payer, to, DUE)
    await each_reading.mine(3)
    assert await world.kinds("o-1") == ["awaiting"]
    assert (await world.last()).transfers == ()


@pytest.mark.parametrize("kind", ["returns_false", "hidden_fee", "nft"])
async def test_attack_non_standard_tokens(way: Way, kind: str) -> None:
    """Listed by nobody, or listed and without effect: only a listed contract's own log counts."""
    line = way.ethereum
    odd = line.token("USDT") if kind == "returns_false" else None
    odd = line.chain.deploy_token("USDT", 6, address=odd, kind=kind, fee_basis_points=5_000)
    to = await way.place()
    line.chain.pay_token(odd, line.chain.account("poor"), to, DUE)
    await way.mine(3)
    assert (await way.world.last()).transfers == ()


@pytest.mark.parametrize(
    "text", ["USⅮΤ", "\u202eTDSU", "<script>alert(1)</script>", "=1+1", "x" * 5_000, "\x1b[2J"]
)
async def test_attack_poisoned_metadata(way: Way, text: str) -> None:
    """A token's name and symbol are read by nobody, so that they reach no event, log or export."""
    line = way.ethereum
    contract = line.token("USDT")
    line.chain.deploy_token(text, 6, name=text, address=contract)
    to = await way.place()
    line.pay(to, DUE)
    await way.mine(3)
    event = await way.world.last()
    assert event.phase is Phase.CONFIRMED
    assert text not in encode(event).decode()


async def test_attack_many_small_payments_in_one_transaction(world: World) -> None:
    """Ten orders below the tier, paid by one transaction above it: none is final sooner."""
    tiers = (FinalityTier(up_to=BaseUnits(50_000_000), depth=3), FinalityTier(up_to=None, depth=12))
    own = world.context.routes["own"]
    policy = msgspec.structs.replace(own.policy, tiers=tiers)
    world.context.routes = {"own": msgspec.structs.replace(own, policy=policy)}
    names = [f"o-{n}" for n in range(1, 11)]
    for name in names:
        await world.place(name, amount=45_000_000)
    facts = [
        world.ethereum.seen(address(n), 45_000_000, tx="0xsplit", position=f"log:{n}")
        for n in range(1, 11)
    ]
    await world.mine(11, *facts)
    assert {(await world.last(name)).phase for name in names} == {Phase.DETECTED}
    await world.mine(1)
    assert {(await world.last(name)).phase for name in names} == {Phase.CONFIRMED}


@pytest.mark.parametrize("amount", [2**256 - 1, 10**15 + 1, 2_500_000_001])
async def test_attack_absurd_amounts(each_database: World, amount: int) -> None:
    to = await each_database.place()
    await each_database.mine(3, each_database.ethereum.seen(to, amount))
    assert (await each_database.last()).attention == (Attention.IMPLAUSIBLE_AMOUNT,)
    assert (await each_database.last()).received_final == 0


async def test_attack_cheap_asset_or_network_for_a_dear_one(world: World) -> None:
    to = await world.place()
    await world.mine(3, world.ethereum.seen(to, DUE, asset=USDC))
    matic = f"{POLYGON}/slip44:966"
    await world.mine(3, world.polygon.seen(to, 10**18, asset=matic), chain=world.polygon)
    event = await world.last()
    assert event.received_final == 0
    assert set(event.attention) == {Attention.WRONG_ASSET, Attention.WRONG_NETWORK}


async def test_attack_paying_and_taking_it_back(world: World) -> None:
    """Seen, unlocked nothing; replaced: the order is where it was. Final, then reorganised: reversed."""
    to = await world.place()
    shown = world.ethereum.seen(to, DUE, height=None)
    await world.facts(shown, world.ethereum.dropped(shown))
    assert await world.kinds("o-1") == ["awaiting", "detected", "withdrawn"]
    await world.mine(3, world.ethereum.seen(to, DUE))
    await world.facts(*(world.ethereum.retraction() for _ in range(3)))
    await world.pass_time(timedelta(minutes=30))
    assert (await world.kinds("o-1"))[-1] == "reversed"


# Nodes


@pytest.mark.parametrize("field", ["receiptsRoot", "hash", "parentHash"])
async def test_attack_node_makes_a_payment_up(way: Way, field: str) -> None:
    """What is not proven by its block is not believed, and nothing behind it is read."""
    to = await way.place()
    way.ethereum.pay(to, DUE)
    blocks = ("eth_getBlockByHash", "eth_getBlockByNumber")
    way.ethereum.node.faults.add(
        SetField(methods=blocks, times=None, field=field, value="0x" + "f0" * 32)
    )
    await way.mine(3)
    assert await way.world.kinds("o-1") == ["awaiting"]


async def test_attack_node_of_another_chain(way: Way) -> None:
    to = await way.place()
    way.ethereum.pay(to, DUE)
    way.ethereum.node.set(chain_id=99)
    way.ethereum.clock.pass_by(120.0)
    with pytest.raises(WrongChain, match=r"expected chain id 1, found 99"):
        await way.mine(3)
    assert await way.world.kinds("o-1") == ["awaiting"]


async def test_attack_one_transaction_pays_everybody(way: Way) -> None:
    """A thousand legs to one address in one transaction: all kept, events stay within their size."""
    line = way.ethereum
    to = await way.place(amount=1_000_000_000)
    leg = Payment(to=to, amount=1_000_000, token=line.token("USDT"))
    line.chain.pay_many(line.payer, [leg] * 210, contract=line.wallet)
    await way.mine(3)
    event = await way.world.last()
    assert (event.received_final, len(event.transfers)) == (210_000_000, 200)
    assert len(encode(event)) < 200_000
