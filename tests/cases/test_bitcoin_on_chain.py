"""Cases CH-B01 to B10, F06, G02 and G04 from the bytes of scripted Bitcoin-like nodes to events.

What nodes cannot be brought to do on demand, to forget, to lie and to be told nothing, is here; what real
nodes do themselves is in `test_bitcoin_on_nodes`.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from chains.devnet.faults import HttpStatus, Refuse, Replace, SetField, Truncate
from chains.devnet.utxo.blocks import make_block, make_coinbase
from chains.devnet.utxo.transactions import (
    Input,
    Output,
    Transaction,
    hash_bytes,
    make_transaction,
)
from chains.registry import derive_address, read_derivation
from chains.utxo.address import address_of_script
from chains.utxo.merkle import shown
from chains.utxo.networks import BITCOIN_REGTEST, DOGECOIN_REGTEST, LITECOIN_REGTEST, Network
from reconciler.services.context import ServiceContext
from schemas.codes import Attention, ClaimEnd, Phase
from schemas.commands import PlaceOrder
from schemas.facts import BlockRetracted, TransferDropped, TransferSeen
from tests.parts import derived
from tests.parts.utxo_way import AGAIN_S, DEPTH, DUE, DUST, CoinWay, coin_route, coin_way
from tests.parts.world import World

MINUTE = timedelta(minutes=1)
#: Of the route: so long an order may be paid, and so long after its last announcement what waits counts.
QUOTE, FORGOTTEN = 60 * MINUTE, 30 * MINUTE
NETWORKS = [BITCOIN_REGTEST, LITECOIN_REGTEST, DOGECOIN_REGTEST]


@pytest.fixture(params=NETWORKS, ids=lambda network: network.uri_scheme)
async def each_coin(request: pytest.FixtureRequest, quick_world: World):
    """Each network with its own blocks: with witnesses, with an extension block, with merged work."""
    async with coin_way(quick_world, request.param) as made:
        yield made


async def ends(way: CoinWay, order: str = "o-1") -> list[ClaimEnd]:
    return [claim.end for claim in (await way.world.state(order)).claims]


async def as_time_goes(way: CoinWay, span: timedelta) -> None:
    """Let time pass while a node goes on showing what waits."""
    while span > timedelta():
        part = min(span, timedelta(seconds=AGAIN_S))
        await way.wait(part.total_seconds())
        span -= part


# CH-B01


@pytest.mark.parametrize("where", ["mempool", "block", "the_same_block_as_it_was_told"])
async def test_b01_replacement_that_pays_the_payer_himself_takes_the_order_back_to_waiting(
    both_coins: CoinWay, where: str
) -> None:
    way, line, world = both_coins, both_coins.line, both_coins.world
    to = await way.order()
    paid = line.pay(to, DUE)
    await way.look()
    await way.claim(paid)
    assert (await world.last()).received_pending == DUE
    rival = line.replace(paid, hold=where == "block")
    if where == "mempool":
        await way.look()
    else:
        await way.mine(1, transactions=[rival])
    assert (await world.kinds("o-1"))[-1] == "withdrawn"
    assert (await world.last()).received_pending == 0
    (dropped,) = way.facts(TransferDropped)
    assert (dropped.transfer.split("/")[1], dropped.replaced_by) == (paid, rival)
    assert await ends(way) == [ClaimEnd.REPLACED]
    await way.pass_time(QUOTE + 30 * MINUTE)
    assert (await world.journal())[-1] == "expired"
    assert set(await world.open_exceptions()) <= {"claimed_unseen"}
    assert (await world.last()).received_final == 0


@pytest.mark.parametrize("known", [True, False])
async def test_b01_claim_of_what_was_replaced_says_so_also_afterwards(
    coins: CoinWay, known: bool
) -> None:
    """Seen by us and replaced: `replaced`. Never seen by us: nobody can tell of it."""
    line = coins.line
    to = await coins.order()
    if not known:
        line.node.set(hears=False)
    paid = line.pay(to, DUE)
    await coins.look()
    line.replace(paid)
    await coins.mine(1)
    await coins.claim(paid.upper())
    assert await ends(coins) == [ClaimEnd.REPLACED if known else ClaimEnd.OPEN]
    assert (await coins.world.last()).received_pending == 0


@pytest.mark.parametrize("seen_in", ["mempool", "block"])
@pytest.mark.parametrize("fee_bumped", [True, False])
async def test_b01_neighbour_replacement_that_pays_us_again_was_first_seen_with_the_first(
    coins: CoinWay, seen_in: str, fee_bumped: bool
) -> None:
    """Paid in time, bumped after the deadline: in time. Other money after the deadline is late."""
    line, world = coins.line, coins.world
    to = await coins.order()
    paid = line.pay(to, DUE)
    await coins.look()
    await as_time_goes(coins, QUOTE + MINUTE)
    if fee_bumped:
        bumped = line.replace(paid, (to, DUE), fee=9_000, hold=seen_in == "block")
    else:
        line.replace(paid)
        bumped = line.pay(to, DUE, hold=seen_in == "block")
    if seen_in == "mempool":
        await coins.look()
    await coins.mine(1, transactions=[bumped])
    await coins.mine(DEPTH - 1)
    event = await world.last()
    assert event.phase is (Phase.CONFIRMED if fee_bumped else Phase.AWAITING_PAYMENT)
    assert (Attention.LATE in event.attention) is not fee_bumped
    await coins.pass_time(MINUTE)
    assert (await world.last()).phase is (Phase.CONFIRMED if fee_bumped else Phase.EXPIRED)


@pytest.mark.parametrize("less", [0, 1])
async def test_b01_neighbour_replacement_pays_what_it_pays_and_not_what_the_first_one_did(
    coins: CoinWay, less: int
) -> None:
    line, world = coins.line, coins.world
    to = await coins.order()
    paid = line.pay(to, DUE)
    await coins.look()
    line.replace(paid, (to, DUE - less))
    await coins.look()
    assert (await world.last()).received_pending == DUE - less
    await coins.mine(DEPTH)
    event = await world.last()
    assert event.phase is (Phase.PARTIALLY_PAID if less else Phase.CONFIRMED)
    assert (event.missing, event.received_final) == (less, DUE - less)


@pytest.mark.parametrize("depth", [1, DEPTH - 1, DEPTH])
async def test_b01_branch_that_spends_the_money_otherwise_takes_it_back_at_any_depth(
    both_coins: CoinWay, depth: int
) -> None:
    way, line, world = both_coins, both_coins.line, both_coins.world
    to = await way.order()
    paid = line.pay(to, DUE)
    await way.mine(depth)
    was_final = depth >= DEPTH
    assert (await world.last()).phase is (Phase.CONFIRMED if was_final else Phase.DETECTED)
    rival = line.replace(paid, hold=True)
    await way.reorganise(depth, place={rival: 0})
    event = await world.last()
    assert (event.received_pending, event.received_final) == (0, 0)
    assert event.kind.value == ("reversed" if was_final else "withdrawn")
    assert set(await world.open_exceptions()) == ({"reversed"} if was_final else set())
    (dropped,) = way.facts(TransferDropped)
    assert (dropped.transfer.split("/")[1], dropped.replaced_by) == (paid, rival)
    line.pay(to, DUE)
    await way.mine(DEPTH)
    assert (await world.last()).phase is Phase.CONFIRMED
    assert await world.open_exceptions() == {}


async def test_b01_child_of_a_payment_that_was_replaced_goes_with_it(coins: CoinWay) -> None:
    """The payer's own unmined change pays us; its parent is replaced, so nothing spends the change."""
    line, world = coins.line, coins.world
    to = await coins.order()
    other = line.chain.new_address("somebody")
    parent = line.pay(other, 2 * DUE)
    child = line.pay(to, DUE, inputs=(f"{parent}:0",))
    await coins.look()
    assert (await world.last()).received_pending == DUE
    line.replace(parent, fee=9_000)
    await coins.mine(1)
    await coins.look()
    # Nobody spends what it would have spent: that it is gone shows by silence alone.
    assert child not in line.chain.waiting()
    await coins.pass_time(FORGOTTEN + MINUTE)
    assert (await world.kinds("o-1"))[-1] == "withdrawn"
    await coins.pass_time(QUOTE)
    assert (await world.last()).phase is Phase.EXPIRED


# CH-B02


@pytest.mark.parametrize(
    ("amount", "less"), [(52_000, 0), (102_412, 1), (29_000_000, 0), (113_000_000, 1)]
)
async def test_b02_amounts_are_the_block_s_own_integers_to_the_last_satoshi(
    coins: CoinWay, amount: int, less: int
) -> None:
    to = await coins.order(amount=amount)
    coins.line.pay(to, amount - less)
    await coins.mine(DEPTH)
    event = await coins.world.last()
    assert (event.received_final, event.missing) == (amount - less, less)
    assert event.phase is (Phase.PARTIALLY_PAID if less else Phase.CONFIRMED)


async def test_b02_three_outputs_add_up_where_floats_would_not(coins: CoinWay) -> None:
    to = await coins.order(amount=70_000_000)
    coins.line.pay_many([(to, 10_000_000), (to, 20_000_000), (to, 40_000_000)])
    await coins.mine(DEPTH)
    event = await coins.world.last()
    assert (event.phase, event.received_final, event.excess) == (Phase.CONFIRMED, 70_000_000, 0)
    assert 0.1 + 0.2 + 0.4 != 0.7


# CH-B03


MINED = 50 * 10**8


async def test_b03_coinbase_output_counts_from_its_hundred_and_first_block(
    coins: CoinWay,
) -> None:
    line, world = coins.line, coins.world
    to, usual = await coins.order(amount=MINED), await coins.order("o-2")
    line.pay(usual, DUE)
    for depth, more in ((6, 6), (59, 53), (100, 41), (101, 1)):
        await coins.mine(more, **({"pay_to": to} if depth == 6 else {}))
        event = await world.last()
        assert event.phase is (Phase.CONFIRMED if depth > 100 else Phase.DETECTED), depth
    assert (event.transfers[0].depth, event.transfers[0].depth_required) == (101, 101)
    assert (await world.last("o-2")).phase is Phase.CONFIRMED
    assert (await world.last("o-2")).transfers[0].depth_required == DEPTH


@pytest.mark.parametrize("depth", [1, 6])
async def test_b03_neighbour_reorganised_away_it_never_comes_back(
    coins: CoinWay, depth: int
) -> None:
    """No mempool takes it, and nothing else spends what it spent: only patience ends."""
    line, world = coins.line, coins.world
    to = await coins.order(amount=MINED)
    await coins.mine(depth, pay_to=to)
    await coins.reorganise(depth)
    assert (await world.last()).attention == (Attention.RETRACTED,)
    await coins.pass_time(2 * QUOTE + 30 * MINUTE)
    await coins.pass_time(MINUTE)
    assert (await world.last()).received_pending == 0
    assert (await world.last()).phase is Phase.EXPIRED
    assert line.loop.status().held is None


# CH-B04


@pytest.mark.parametrize("first", [30_000, 20_000])
async def test_b04_two_outputs_to_one_address_are_two_payments_and_one_sum(
    coins: CoinWay, first: int
) -> None:
    way, line, world = coins, coins.line, coins.world
    to = await way.order(amount=50_000)
    between = line.chain.new_address("somebody")
    tx = line.pay_many([(to, first), (between, 7_000), (to, 50_000 - first)])
    await way.look()
    assert (await world.last()).received_pending == 50_000
    await way.mine(DEPTH)
    event = await world.last()
    assert (event.phase, event.received_final, event.excess) == (Phase.CONFIRMED, 50_000, 0)
    assert {(t.transfer.split("/", 1)[1], t.amount) for t in event.transfers} == {
        (f"{tx}/out:0", first),
        (f"{tx}/out:2", 50_000 - first),
    }


async def test_b04_neighbour_two_outputs_of_one_amount_survive_a_reorganisation_as_two(
    coins: CoinWay,
) -> None:
    to = await coins.order(amount=50_000)
    tx = coins.line.pay_many([(to, 25_000), (to, 25_000)])
    await coins.mine(1)
    await coins.reorganise(1, place={tx: 1})
    await coins.mine(DEPTH)
    event = await coins.world.last()
    assert (event.phase, event.received_final, event.excess) == (Phase.CONFIRMED, 50_000, 0)


@pytest.mark.parametrize("claims", [(), ("o-2", "o-1")])
async def test_b04_neighbour_one_transaction_pays_two_orders_whoever_names_it(
    both_coins: CoinWay, claims: tuple[str, ...]
) -> None:
    way, world = both_coins, both_coins.world
    one, two = await way.order("o-1"), await way.order("o-2", amount=DUE + 1)
    tx = way.line.pay_many([(two, DUE + 1), (one, DUE)])
    for order in claims:
        await way.claim(tx, order=order)
    await way.mine(DEPTH)
    for order, amount in (("o-1", DUE), ("o-2", DUE + 1)):
        event = await world.last(order)
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, amount)
        assert await ends(way, order) == [ClaimEnd.USED] * claims.count(order)
    assert await world.open_exceptions() == {}


# CH-B05


def mine_coinbase(way: CoinWay, coinbase: Transaction) -> None:
    """Mine a block whose coinbase another block has already: nothing in it says how high it stands."""
    chain = way.line.chain
    parent = chain.world.tree.head
    block = make_block(parent, [coinbase], time=parent.time + 600, rules=chain.world.rules)
    chain.world.tree.add(block)
    chain.world.transactions[coinbase.txid] = coinbase
    chain.world._blocks_of[coinbase.txid].append(block)
    chain._switch(block)


@pytest.mark.parametrize("apart", [30, 158])
async def test_b05_coinbase_of_an_older_block_is_read_again_and_is_one_payment(
    coins: CoinWay, apart: int
) -> None:
    """Blocks 91812 and 91842 have one coinbase, as have 91722 and 91880: 30 and 158 apart."""
    line, world = coins.line, coins.world
    to = await coins.order(amount=MINED)
    pays = Output(MINED, line.chain.script_of(to))
    coinbase = make_coinbase(1, 10**9, [pays], (), segwit=False)
    mine_coinbase(coins, coinbase)
    await coins.mine(apart - 1)
    assert (await world.last()).phase is (Phase.CONFIRMED if apart > 101 else Phase.DETECTED)
    mine_coinbase(coins, coinbase)
    await coins.mine(100)
    event = await world.last()
    assert (event.phase, event.received_final, event.excess) == (Phase.CONFIRMED, MINED, 0)
    assert len(event.transfers) == 1
    assert (await world.kinds("o-1")).count("confirmed") == 1
    assert "reversed" not in await world.kinds("o-1")
    assert await world.open_exceptions() == {}
    assert len({seen.block.hash for seen in coins.facts(TransferSeen)}) == 2
    assert line.failures == []


# CH-B06


async def test_b06_every_address_that_was_handed_out_is_watched_however_far(
    coins: CoinWay,
) -> None:
    addresses = [coins.line.chain.new_address(f"far {n}") for n in range(61)]
    await coins.world.commands(
        *(
            PlaceOrder(
                idempotency_key=f"k-{n}",
                reference=f"o-{n}",
                route="coin",
                amount=str(DUE),
                address=to,
            )
            for n, to in enumerate(addresses)
        )
    )
    await coins.flow()
    assert coins.line.loop.status().watched == 61
    coins.line.pay(addresses[57], DUE)
    await coins.mine(DEPTH)
    assert (await coins.world.last("o-57")).phase is Phase.CONFIRMED
    assert {e.order for e in await coins.world.events() if e.kind.value != "awaiting"} == {"o-57"}


@pytest.mark.parametrize("script", ["p2sh-p2wpkh", "p2tr"])
async def test_b06_derived_addresses_of_every_script_are_paid_behind_the_gap_of_any_wallet(
    coins: CoinWay, script: str
) -> None:
    world, chain = coins.world, coins.line.name
    derivation = read_derivation(chain, TEST_KEY, script)
    route = msgspec.structs.replace(
        coin_route(world, chain), mode="derived", derivation=derivation, first_index=36
    )
    world.context = ServiceContext(
        catalogue=world.catalogue,
        routes={"coin": route},
        lanes={chain: 1},
        secret=world.context.secret,
        orders_partitions=1,
    )
    await world.commands(*(derived.place(n, "coin", amount=str(DUE)) for n in range(22)))
    await coins.flow()
    to = derive_address(derivation, 57).display
    assert (await world.last("o-21")).address == to
    coins.line.pay(to, DUE)
    await coins.mine(DEPTH)
    assert (await world.last("o-21")).phase is Phase.CONFIRMED


# CH-B07

TEST_KEY = (
    "tpubDC5FSnBiZDMmhiuCmWAYsLwgLYrrT9rAqvTySfuCCrgsWz8wxMXUS9Tb9iVMvcRbvFcAHGkMD5Kx8koh4GquNGNTfoh"
    "fk7pgjhaPCdXpoba"
)
TAPROOT = bytes.fromhex("512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")


def taproot(network: Network = BITCOIN_REGTEST) -> str:
    found = address_of_script(network, TAPROOT)
    assert found is not None
    return found.display


@pytest.mark.parametrize("network", [BITCOIN_REGTEST, LITECOIN_REGTEST])
async def test_b07_order_at_a_taproot_address_is_paid_to_its_script(
    quick_world: World, network: Network
) -> None:
    async with coin_way(quick_world, network) as way:
        await way.order(address=taproot(network).upper())
        assert (await quick_world.last()).address == taproot(network)
        way.line.pay(f"script:{TAPROOT.hex()}", DUE)
        await way.mine(DEPTH)
        assert (await quick_world.last()).phase is Phase.CONFIRMED


@pytest.mark.parametrize(
    "script", [TAPROOT[:-1], b"\x51\x1f" + TAPROOT[3:], b"\x52" + TAPROOT[1:], TAPROOT + b"\x00"]
)
async def test_b07_neighbour_of_the_script_is_another_s(coins: CoinWay, script: bytes) -> None:
    await coins.order(address=taproot())
    coins.line.pay(f"script:{script.hex()}", DUE)
    await coins.mine(DEPTH)
    assert await coins.world.kinds("o-1") == ["awaiting"]
    assert coins.facts(TransferSeen) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0", "address_wrong_chain"),
        ("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd", "address_checksum"),
        ("{0}q", "address_checksum"),
        ("{mixed}", "address_malformed"),
        ("{litecoin}", "address_wrong_chain"),
        ("0x1111111111111111111111111111111111111111", "address_wrong_chain"),
        ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "address_wrong_chain"),
    ],
)
async def test_b07_address_of_another_network_or_checksum_or_case_is_refused(
    coins: CoinWay, text: str, code: str
) -> None:
    ours = taproot()
    mixed = ours[:-8] + ours[-8:].upper()
    await coins.order(
        address=text.format(ours[:-1], mixed=mixed, litecoin=taproot(LITECOIN_REGTEST))
    )
    assert [found for found, _ in await coins.world.rejections()] == [code]
    assert await coins.world.events() == []


# CH-B08


def malleated(way: CoinWay, tx: str) -> str:
    """The same inputs and outputs under another id, as an altered signature gives; nobody hears of it."""
    world = way.line.chain.world
    old = world.known(hash_bytes(tx))
    inputs = [
        Input(outpoint=one.outpoint, script=one.script + b"\x00", sequence=one.sequence)
        for one in old.inputs
    ]
    made = make_transaction(inputs, old.outputs)
    world.transactions[made.txid] = made
    return shown(made.txid)


@pytest.mark.parametrize(
    ("claim", "mined"),
    [("before", "twin"), ("after", "twin"), ("never", "twin"), ("before", "first")],
)
async def test_b08_of_two_twins_one_counts_and_a_claim_on_either_is_answered(
    coins: CoinWay, claim: str, mined: str
) -> None:
    way, line, world = coins, coins.line, coins.world
    to = await way.order()
    first = line.pay(to, DUE)
    twin = malleated(way, first)
    assert twin != first
    await way.look()
    if claim == "before":
        await way.claim(first)
    await way.mine(1, transactions=[twin if mined == "twin" else first])
    assert (await world.last()).received_pending == DUE
    if claim == "after":
        await way.claim(first)
    await way.mine(DEPTH - 1)
    event = await world.last()
    assert (event.phase, event.received_final, event.excess) == (Phase.CONFIRMED, DUE, 0)
    end = ClaimEnd.REPLACED if mined == "twin" else ClaimEnd.USED
    assert await ends(way) == ([] if claim == "never" else [end])
    assert "overpaid" not in await world.kinds("o-1")
    assert await world.open_exceptions() == {}


async def test_b08_twins_in_two_mempools_are_one_payment_at_a_time(quick_world: World) -> None:
    """Each node has another of the two; whichever is asked, the other one is not counted beside it."""
    async with coin_way(quick_world, start=False) as way:
        line = way.line
        second = line.second_node()
        second.set(hears=False)
        await line.open()
        to = await way.order()
        twin = malleated(way, line.pay(to, DUE))
        second.hear(twin)
        for _ in range(3):
            await way.look()
            assert (await quick_world.last()).received_pending == DUE
            line.node.faults.add(HttpStatus(status=503, methods=("getrawmempool",)))
            await way.look()
            assert (await quick_world.last()).received_pending == DUE
        await way.mine(1, transactions=[twin])
        await way.mine(DEPTH - 1)
        event = await quick_world.last()
        assert (event.phase, event.received_final) == (Phase.CONFIRMED, DUE)
        assert await quick_world.open_exceptions() == {}


async def test_b08_neighbour_another_witness_is_the_same_transaction(coins: CoinWay) -> None:
    """Witnesses are under no id: what is mined is what was seen."""
    line, world = coins.line, coins.world
    to = await coins.order()
    tx = line.pay(to, DUE)
    await coins.look()
    await coins.claim(tx)
    known = line.chain.world.transactions
    old = known[hash_bytes(tx)]
    inputs = [msgspec.structs.replace(one, witness=(b"\x51", b"\x00")) for one in old.inputs]
    known[old.txid] = other = make_transaction(inputs, old.outputs)
    assert (other.txid, other.wide_id != old.wide_id) == (old.txid, True)
    await coins.mine(1, transactions=[tx])
    await coins.mine(DEPTH - 1)
    event = await world.last()
    assert (event.phase, len(event.transfers)) == (Phase.CONFIRMED, 1)
    assert (await ends(coins), coins.facts(TransferDropped)) == ([ClaimEnd.USED], [])


# CH-B09


async def test_b09_node_that_shows_no_mempool_between_ones_that_do_takes_nothing_back(
    quick_world: World,
) -> None:
    async with coin_way(quick_world, start=False) as way:
        line = way.line
        line.second_node().set(hears=False)
        await line.open()
        to = await way.order()
        line.pay(to, DUE)
        await way.look()
        for _ in range(6):
            line.node.faults.add(HttpStatus(status=503, methods=("getrawmempool",)))
            await way.wait(300)
            await way.wait(300)
        assert await quick_world.kinds("o-1") == ["awaiting", "detected"]
        await way.pass_time(QUOTE + MINUTE)
        assert (await quick_world.last()).phase is Phase.DETECTED, "it waits, so the order waits"
        assert way.facts(TransferDropped) == []
        await way.mine(DEPTH)
        assert (await quick_world.last()).phase is Phase.CONFIRMED


@pytest.mark.parametrize("answer", [Truncate(), Replace(result=[]), Refuse(code=-28)])
async def test_b09_one_answer_without_it_is_no_evidence(coins: CoinWay, answer) -> None:
    to = await coins.order()
    coins.line.pay(to, DUE)
    await coins.look()
    for _ in range(4):
        coins.line.node.faults.add(
            msgspec.structs.replace(answer, methods=("getrawmempool",), times=1)
        )
        await coins.look()
        await coins.look()
    assert await coins.world.kinds("o-1") == ["awaiting", "detected"]


@pytest.mark.parametrize(("silent", "gone"), [(29, False), (31, True)])
async def test_b09_what_no_node_shows_for_too_long_is_counted_on_no_longer_and_never_lost(
    both_coins: CoinWay, silent: int, gone: bool
) -> None:
    way, line, world = both_coins, both_coins.line, both_coins.world
    to = await way.order()
    tx = line.pay(to, DUE)
    await way.look()
    line.chain.evict(tx)
    line.node.evict(tx)
    await way.pass_time(silent * MINUTE)
    assert await world.kinds("o-1") == ["awaiting", "detected", *(["withdrawn"] if gone else [])]
    assert way.facts(TransferDropped) == []
    assert line.chain.announce(tx)
    await way.look()
    assert (await world.last()).received_pending == DUE
    await way.mine(DEPTH)
    assert (await world.last()).phase is Phase.CONFIRMED


@pytest.mark.parametrize("restarted", [True, False])
async def test_b09_node_that_lost_its_mempool_shows_it_again_or_mines_it(
    coins: CoinWay, restarted: bool
) -> None:
    line, world = coins.line, coins.world
    to = await coins.order()
    line.pay(to, DUE)
    await coins.look()
    line.node.restart()
    if restarted:
        await line.restart()
    await coins.look()
    await coins.mine(DEPTH)
    assert await world.kinds("o-1") == ["awaiting", "detected", "confirmed"]


# CH-B10


@pytest.mark.parametrize(
    ("told", "above"), [(-1, DEPTH), (0, DEPTH), (10**6, DEPTH - 1), (DEPTH, DEPTH - 1)]
)
async def test_b10_confirmations_that_a_node_tells_are_not_read(
    coins: CoinWay, told: int, above: int
) -> None:
    line, world = coins.line, coins.world
    for method in ("getblockheader", "getblock"):
        line.node.faults.add(
            SetField(methods=(method,), times=None, field="confirmations", value=told)
        )
    to = await coins.order()
    line.pay(to, DUE)
    await coins.mine(above)
    event = await world.last()
    assert event.phase is (Phase.CONFIRMED if above == DEPTH else Phase.DETECTED)
    assert event.transfers[0].block.height == line.chain.height - above + 1


@pytest.mark.parametrize(("told", "indexed"), [(0, False), (1, False), (5, False), (1, True)])
async def test_b10_claim_is_found_where_it_stands_whatever_a_cache_says(
    quick_world: World, told: int, indexed: bool
) -> None:
    """Without an index the height of what is unspent comes from such a number; its block must hold it."""
    async with coin_way(quick_world) as way:
        line = way.line
        line.node.set(tx_index=indexed)
        line.node.faults.add(
            SetField(methods=("gettxout",), times=None, field="confirmations", value=told)
        )
        to = await way.order()
        tx = line.pay(to, DUE)
        await way.mine(2)
        await line.restart()
        await way.claim(tx)
        await way.mine(DEPTH - 2)
        assert (await quick_world.last()).phase is Phase.CONFIRMED
        assert await ends(way) == [ClaimEnd.USED]


# CH-F06


OVERLAY = "script:6a146f6d6e69000000000000001f00000000aa8c2e40"


@pytest.mark.parametrize(("amount", "counted"), [(DUST - 1, 0), (DUST, DUST)])
async def test_f06_overlay_says_28_coins_and_the_output_s_own_satoshi_are_what_came(
    each_coin: CoinWay, amount: int, counted: int
) -> None:
    way, world = each_coin, each_coin.world
    least = int(way.line.coin.dust)
    amount, counted = amount - DUST + least, counted and counted - DUST + least
    to = await way.order(amount=100 * least)
    way.line.pay_many([(OVERLAY, 0), (to, amount)])
    await way.mine(DEPTH)
    event = await world.last()
    assert event.received_final == counted
    assert event.phase is (Phase.PARTIALLY_PAID if counted else Phase.AWAITING_PAYMENT)
    assert set(await world.open_exceptions()) == (set() if counted else {"dust"})
    assert way.line.failures == []


@pytest.mark.parametrize("short", [0, 1])
@pytest.mark.parametrize("dust_first", [True, False])
async def test_f06_neighbour_dust_counts_where_it_completes_the_sum_and_only_there(
    coins: CoinWay, short: int, dust_first: bool
) -> None:
    line, world = coins.line, coins.world
    to = await coins.order()
    parts = [DUE - DUST + 1 - short, DUST - 1]
    for amount in reversed(parts) if dust_first else parts:
        line.pay(to, amount)
        await coins.mine(DEPTH)
    event = await world.last()
    assert event.phase is (Phase.PARTIALLY_PAID if short else Phase.CONFIRMED)
    assert event.received_final == (parts[0] if short else DUE)
    # One exception a day gathers what came as dust; what comes in one go with the rest is none.
    assert set(await world.open_exceptions()) == ({"dust"} if short or dust_first else set())


# CH-G02, CH-G04


@pytest.mark.parametrize("place", [0, 3])
async def test_g02_g04_every_block_of_the_new_branch_is_read(
    each_coin: CoinWay, place: int
) -> None:
    way, line, world = each_coin, each_coin.line, each_coin.world
    to = await way.order()
    tx = line.pay(to, DUE)
    await way.mine(2)
    forked_at = line.chain.height - 1
    await way.reorganise(2, length=4, place={tx: place})
    await way.mine(DEPTH)
    event = await world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, DUE, 1)
    assert event.transfers[0].block.height == forked_at + place
    assert len(way.facts(BlockRetracted)) == 2
    assert len({seen.transfer for seen in way.facts(TransferSeen)}) == 1
    assert await world.open_exceptions() == {}


async def test_g02_mined_again_one_block_later_is_one_payment(both_coins: CoinWay) -> None:
    way, line, world = both_coins, both_coins.line, both_coins.world
    to = await way.order()
    tx = line.pay(to, DUE)
    await way.mine(1)
    await way.reorganise(1, length=2, omit=[tx])
    await way.look()
    event = await world.last()
    assert (event.phase, event.received_pending, event.received_final) == (Phase.DETECTED, DUE, 0)
    await way.mine(DEPTH - 1)
    assert (await world.last()).phase is Phase.DETECTED
    await way.mine(1)
    event = await world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, DUE, 1)
    assert (await world.kinds("o-1")).count("confirmed") == 1


async def test_g04_neighbour_there_and_back_again(coins: CoinWay) -> None:
    line = coins.line
    to = await coins.order()
    tx = line.pay(to, DUE)
    await coins.mine(2)
    await coins.reorganise(2, length=3, place={tx: 2})
    line.chain.flip_back()
    await coins.mine(2)
    event = await coins.world.last()
    assert (event.phase, event.received_final, len(event.transfers)) == (Phase.CONFIRMED, DUE, 1)
    assert await coins.world.open_exceptions() == {}
