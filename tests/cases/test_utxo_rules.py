"""Cases CH-B02, B03, B06, B07, B09, B10 and F06 by facts alone, and by the same rule on an EVM chain.

From nodes to events they are in `test_bitcoin_on_chain` and `test_bitcoin_on_nodes`.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from chains.addresses import AddressError
from chains.registry import parse_address, raw_of_key
from chains.utxo.networks import BITCOIN
from schemas.amounts import AmountError, parse_decimal_amount
from schemas.codes import Attention, Phase
from schemas.commands import PlaceOrder
from schemas.facts import TransferSeen
from tests.parts import derived
from tests.parts.whole_way import Way
from tests.parts.world import ETHEREUM, World, address

DUE = 5_000_000


# CH-F06


@pytest.mark.parametrize("outputs", [1, 2])
async def test_f06_an_overlay_s_word_is_no_money_and_the_output_s_own_satoshi_are(
    quick_world: World, outputs: int
) -> None:
    """The overlay says 28.6 dollars; what a block pays is the 546 units of its output."""
    to = await quick_world.place()
    seen = [
        quick_world.ethereum.seen(to, 546, tx="0x1b5c80f4", position=f"out:{n}", sender="")
        for n in range(outputs)
    ]
    await quick_world.mine(3, *seen)
    event = await quick_world.last()
    assert (event.phase, event.received_final) == (Phase.AWAITING_PAYMENT, 0)
    assert sum(int(t.amount) for t in event.transfers) in {0, 546 * outputs}
    assert set(await quick_world.open_exceptions()) == {"dust"}


# CH-B02


@pytest.mark.parametrize(
    ("text", "satoshi"),
    [
        ("0.29", 29_000_000),
        ("0.00052", 52_000),
        ("0.00102412", 102_412),
        ("1.13", 113_000_000),
        ("0.00000001", 1),
        ("20999999.9769", 2_099_999_997_690_000),
    ],
)
def test_b02_decimal_text_becomes_satoshi_without_a_float(text: str, satoshi: int) -> None:
    assert parse_decimal_amount(text, 8) == satoshi


@pytest.mark.parametrize(
    "text", ["0.000000001", "51999.999999999996", "1e-8", "0.1.1", ".5", "1,5"]
)
def test_b02_more_than_eight_decimals_are_an_error_and_never_rounded(text: str) -> None:
    with pytest.raises(AmountError):
        parse_decimal_amount(text, 8)


# CH-B03


@pytest.mark.parametrize(
    ("depth", "phase"),
    [
        (3, Phase.DETECTED),
        (6, Phase.DETECTED),
        (59, Phase.DETECTED),
        (100, Phase.DETECTED),
        (101, Phase.CONFIRMED),
    ],
)
async def test_b03_coinbase_output_waits_for_its_hundred_and_first_block(
    world: World, depth: int, phase: Phase
) -> None:
    to = await world.place(amount=DUE)
    mined = msgspec.structs.replace(
        world.ethereum.seen(to, DUE, position="out:0", sender=""), coinbase=True
    )
    await world.mine(1, mined)
    if depth > 1:
        mark = world.ethereum.watermark(world.ethereum.height + depth - 1)
        world.now = mark.time
        await world.inbox()
        await world.facts(mark)
    event = await world.last()
    assert (event.phase, event.transfers[0].depth_required) == (phase, 101)


async def test_b03_neighbour_a_reorganisation_takes_an_unripe_one_for_ever(world: World) -> None:
    to = await world.place(amount=DUE)
    mined = msgspec.structs.replace(
        world.ethereum.seen(to, DUE, position="out:0", sender=""), coinbase=True
    )
    await world.mine(2, mined)
    await world.facts(world.ethereum.retraction(), world.ethereum.retraction())
    await world.facts(world.ethereum.dropped(mined))
    await world.mine(1)
    assert (await world.kinds("o-1"))[-1] == "withdrawn"
    assert (await world.last()).received_pending == 0


# CH-B06


@pytest.mark.parametrize("index", [0, 19, 20, 57, 60])
async def test_b06_every_address_that_was_handed_out_is_watched_however_far(
    way: Way, index: int
) -> None:
    """61 orders, none paid before: no gap limit, the watchlist names each address."""
    orders = [
        PlaceOrder(
            idempotency_key=f"k-{n}",
            reference=f"o-{n}",
            route="own",
            amount=str(DUE),
            address=address(n),
        )
        for n in range(61)
    ]
    await way.world.commands(*orders)
    await way.flow()
    assert way.ethereum.loop.status().watched == 61
    way.ethereum.pay(address(index), DUE)
    await way.mine(3)
    assert (await way.world.last(f"o-{index}")).phase is Phase.CONFIRMED
    others = {e.order for e in await way.world.events() if e.kind.value != "awaiting"}
    assert others == {f"o-{index}"}


async def test_b06_derived_addresses_are_watched_behind_the_gap_of_any_wallet(way: Way) -> None:
    """Each order has the wallet's next address; a wallet that looks 20 ahead would not see the 57th."""
    way.world.context = derived.context(way.world)
    await way.world.commands(*(derived.place(n, amount=str(DUE)) for n in range(61)))
    await way.flow()
    assert way.ethereum.loop.status().watched == 61
    way.ethereum.pay(derived.address_at(57), DUE)
    await way.mine(3)
    assert (await way.world.last("o-57")).phase is Phase.CONFIRMED
    others = {e.order for e in await way.world.events() if e.kind.value != "awaiting"}
    assert others == {"o-57"}


# CH-B07


@pytest.mark.parametrize(
    "text",
    [
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd",
        "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    ],
)
async def test_b07_bitcoin_address_on_another_chain_s_route_is_refused_by_name(
    quick_world: World, text: str
) -> None:
    with pytest.raises(AddressError) as refused:
        parse_address(ETHEREUM, text)
    assert refused.value.code == "address_wrong_chain"
    await quick_world.commands(
        PlaceOrder(
            idempotency_key="k", reference="o-1", route="own", amount="25000000", address=text
        )
    )
    assert [code for code, _ in await quick_world.rejections()] == ["address_wrong_chain"]


def test_b07_taproot_address_is_its_script_and_needs_the_checksum_of_its_version() -> None:
    taproot = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"
    script = "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
    assert parse_address(BITCOIN.chain, taproot).raw.hex() == script
    assert raw_of_key(BITCOIN.chain, taproot).hex() == script
    with pytest.raises(AddressError) as refused:
        parse_address(BITCOIN.chain, taproot[:-6] + "h2y7hd")
    assert refused.value.code == "address_checksum"


# CH-B09


async def announced(world: World, seen: TransferSeen, *, minutes: int) -> None:
    """Let time pass while a node goes on showing what waits."""
    for _ in range(minutes // 10):
        await world.facts(seen)
        await world.pass_time(timedelta(minutes=10))
    await world.facts(seen)
    await world.pass_time(timedelta(minutes=minutes % 10))


async def test_b09_what_one_answer_leaves_out_has_not_gone(world: World) -> None:
    """Seen, not told of for many blocks, told again: pending all the while."""
    to = await world.place()
    seen = world.ethereum.seen(to, 25_000_000, position="out:0", height=None, sender="")
    for _ in range(3):
        await world.facts(seen)
        await world.mine(5)
    assert await world.kinds("o-1") == ["awaiting", "detected"]
    await announced(world, seen, minutes=75)
    assert (await world.last()).phase is Phase.DETECTED, "pending in time holds the order"
    await world.facts(world.ethereum.dropped(seen))
    assert (await world.kinds("o-1"))[2] == "withdrawn"


@pytest.mark.parametrize(("silent", "gone"), [(29, False), (31, True)])
async def test_b09_what_three_announcements_leave_out_is_counted_on_no_longer(
    world: World, silent: int, gone: bool
) -> None:
    """It is not dropped: it may be shown again, and it counts when it is mined."""
    to = await world.place()
    seen = world.ethereum.seen(to, 25_000_000, position="out:0", height=None, sender="")
    await announced(world, seen, minutes=10)
    await world.pass_time(timedelta(minutes=silent))
    assert await world.kinds("o-1") == ["awaiting", "detected", *(["withdrawn"] if gone else [])]
    await world.facts(seen)
    last = await world.last()
    assert (last.phase, last.received_pending) == (Phase.DETECTED, 25_000_000)
    await world.mine(3, world.ethereum.at(seen))
    assert (await world.last()).phase is Phase.CONFIRMED


async def test_b09_neighbour_an_order_ends_without_what_was_forgotten(quick_world: World) -> None:
    to = await quick_world.place()
    seen = quick_world.ethereum.seen(to, 25_000_000, position="out:0", height=None, sender="")
    await announced(quick_world, seen, minutes=20)
    await quick_world.pass_time(timedelta(minutes=31))
    await quick_world.pass_time(timedelta(minutes=10))
    assert (await quick_world.kinds("o-1"))[-2:] == ["withdrawn", "expired"]
    assert await quick_world.open_exceptions() == {}
    await quick_world.mine(3, quick_world.ethereum.at(seen))
    assert (await quick_world.last()).attention == (Attention.LATE,)


async def test_b09_neighbour_pending_money_holds_an_order_only_so_long(quick_world: World) -> None:
    to = await quick_world.place()
    seen = quick_world.ethereum.seen(to, 25_000_000, position="out:0", height=None, sender="")
    await announced(quick_world, seen, minutes=60 + 110)
    assert (await quick_world.last()).phase is Phase.DETECTED
    await quick_world.pass_time(timedelta(minutes=15))
    assert (await quick_world.last()).phase is Phase.EXPIRED
    assert set(await quick_world.open_exceptions()) == {"pending_at_end"}


# CH-B10


@pytest.mark.parametrize("above", [0, 1, 2, 10])
async def test_b10_depth_is_counted_from_heights_and_nobody_s_number(
    quick_world: World, above: int
) -> None:
    """height 101, head 101 + n: n + 1 confirmations, whatever a provider has cached."""
    to = await quick_world.place()
    await quick_world.mine(1, quick_world.ethereum.seen(to, 25_000_000))
    await quick_world.mine(above)
    event = await quick_world.last()
    assert event.phase is (Phase.CONFIRMED if above >= 2 else Phase.DETECTED)
    assert event.transfers[0].depth == (3 if above >= 2 else 0), "told when it changed the order"
    if event.coverage.height is not None:
        assert event.coverage.height - event.transfers[0].block.height + 1 == 3


async def test_b10_neighbour_without_a_height_it_is_not_confirmed_at_all(world: World) -> None:
    to = await world.place()
    await world.facts(world.ethereum.seen(to, 25_000_000, height=None))
    await world.mine(10)
    event = await world.last()
    assert (event.phase, event.transfers[0].depth) == (Phase.DETECTED, 0)
