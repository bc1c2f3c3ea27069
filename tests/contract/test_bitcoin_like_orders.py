"""An order on a Bitcoin-like chain, from its placing to the books: addresses are exact texts that
are compared as they are, transaction ids have no 0x, and one transaction pays by several outputs.

The facts are as a watcher of such a chain will write them.
"""

import msgspec
import pytest
from sqlalchemy import select

from chains.registry import raw_of_key
from chains.utxo.networks import BITCOIN, DOGECOIN, LITECOIN
from reconciler.exports.rows import transfer_rows
from reconciler.model.policy import FinalityTier, Tolerance
from reconciler.services.context import ServiceContext
from reconciler.storage import tables
from reconciler.stream.topics import requests_topic, watchlist_topic
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, Family
from schemas.codec import decode_as
from schemas.codes import AmountState, ClaimEnd, Phase
from schemas.commands import ClaimPaid, PlaceOrder
from schemas.requests import LookUpTransaction, WatchAddress
from tests.parts.world import ETHEREUM, Chain, World, policy, routes

TXID = "9b0fc92260312ce44e74ef369f5c66bbf5f8ba9a4c2e5c3ad1bd4f5bf8ef6d1e"
SEGWIT = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
SHARED = "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"
OLD = "3CMNFxN1oHBc4R1EpboAL5yzHGgE611Xou"
NETWORKS = {"btc": BITCOIN, "ltc": LITECOIN, "doge": DOGECOIN}
COINS = {
    "btc": AssetName(f"{BITCOIN.chain}/slip44:0"),
    "ltc": AssetName(f"{LITECOIN.chain}/slip44:2"),
    "doge": AssetName(f"{DOGECOIN.chain}/slip44:3"),
}


class CoinWorld(World):
    """A world whose second chain is one like Bitcoin; six blocks deep is final."""

    def follow(self, name: str) -> None:
        chain = NETWORKS[name].chain
        rules = policy(
            decimals=8,
            stable=False,
            dust=BaseUnits(546),
            amount_max=BaseUnits(NETWORKS[name].money_max),
            tiers=(FinalityTier(up_to=None, depth=6),),
            tolerance=Tolerance(),
        )
        given = msgspec.structs.replace(
            routes()["own"],
            name=name,
            chain=chain,
            asset=COINS[name],
            policy=rules,
            minimum=BaseUnits(546),
        )
        shared = msgspec.structs.replace(
            given,
            name="shared-coin",
            mode="shared",
            shared_address=SHARED,
            step=BaseUnits(1_000),
            steps_max=99,
            more_ppm=1_000_000,
        )
        made = {name: given} | ({"shared-coin": shared} if name == "btc" else {})
        self.context = ServiceContext(
            catalogue=self.catalogue,
            routes=routes() | made,
            lanes={ETHEREUM: 1, chain: 1},
            secret=self.context.secret,
            orders_partitions=1,
        )
        self.polygon = Chain(self, chain, 1)
        self.asset = COINS[name]

    async def order(
        self, text: str | None, amount: int, route: str, reference: str = "o-1"
    ) -> None:
        await self.commands(
            PlaceOrder(
                idempotency_key=self.key(),
                reference=reference,
                amount=str(amount),
                route=route,
                address=text,
            )
        )

    def pays(self, to: str, amount: int, position: int = 0, tx: str = TXID):
        return self.polygon.seen(
            to, amount, tx=tx, position=f"out:{position}", asset=self.asset, sender=""
        )

    async def sent(self, topic: str, kind: type) -> list:
        async with self.engine.connect() as connection:
            table = tables.outbox
            found = await connection.execute(
                select(table.c.key, table.c.value)
                .where(table.c.topic == topic)
                .order_by(table.c.id)
            )
            return [(row.key.decode(), decode_as(kind, row.value)) for row in found]


@pytest.fixture
async def coins():
    made = await CoinWorld.open()
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("route", "written", "canonical", "uri"),
    [
        ("btc", SEGWIT.upper(), SEGWIT, f"bitcoin:{SEGWIT}?amount=0.0005"),
        ("btc", f" {OLD}\n", OLD, f"bitcoin:{OLD}?amount=0.0005"),
        (
            "ltc",
            OLD,
            "MJZWZqmykQ32rvH8vUnW9jEPbyGg7agWQZ",
            "litecoin:MJZWZqmykQ32rvH8vUnW9jEPbyGg7agWQZ?amount=0.0005",
        ),
        (
            "doge",
            "DBcZSePDaMMduBMLymWHXhkE5ArFEvkagU",
            "DBcZSePDaMMduBMLymWHXhkE5ArFEvkagU",
            "dogecoin:DBcZSePDaMMduBMLymWHXhkE5ArFEvkagU?amount=0.0005",
        ),
    ],
)
async def test_an_order_is_shown_and_watched_at_its_canonical_address(
    coins, route, written, canonical, uri
):
    coins.follow(route)
    await coins.order(written, 50_000, route)
    event = await coins.last()
    assert (event.address, event.payment_uri) == (canonical, uri)
    chain = NETWORKS[route].chain
    ((key, message),) = await coins.sent(watchlist_topic(Family(chain)), WatchAddress)
    assert (key, message.address) == (canonical, canonical)
    assert raw_of_key(chain, key).hex().startswith(("0014", "76a9", "a914"))


async def test_one_transaction_pays_by_two_outputs_and_the_books_say_so(coins):
    coins.follow("btc")
    await coins.order(SEGWIT.upper(), 50_000, "btc")
    await coins.facts(coins.polygon.covered(SEGWIT))
    chain = coins.polygon
    await coins.mine(1, coins.pays(SEGWIT, 30_000, 1), coins.pays(SEGWIT, 20_000, 4), chain=chain)
    await coins.mine(4, chain=chain)
    assert (await coins.last()).phase is Phase.DETECTED, "five blocks deep, and six are asked for"
    await coins.mine(1, chain=chain)
    await coins.commands(
        ClaimPaid(
            idempotency_key=coins.key(),
            reference="o-1",
            transaction=f"https://mempool.space/tx/{TXID.upper()}",
        )
    )
    event = await coins.last()
    assert (event.phase, event.amount_state) == (Phase.CONFIRMED, AmountState.EXACT)
    assert {t.transfer for t in event.transfers} == {
        f"{chain.chain}/{TXID}/out:1",
        f"{chain.chain}/{TXID}/out:4",
    }
    (claim,) = (await coins.state("o-1")).claims
    assert (claim.tx, claim.end) == (TXID, ClaimEnd.USED)
    ((_, request),) = await coins.sent(requests_topic(chain.chain), LookUpTransaction)
    assert request.tx == TXID

    async def books(work):
        return [row async for row in transfer_rows(work, coins.catalogue)]

    rows = await coins.store.read(books)
    assert [row["address"] for row in rows] == [SEGWIT, SEGWIT]
    assert [row["transaction"] for row in rows] == [TXID, TXID]
    assert [row["amount_decimal"] for row in rows] == ["0.00030000", "0.00020000"]


async def test_one_address_serves_one_order_however_it_is_written(coins):
    coins.follow("btc")
    await coins.order(SEGWIT, 50_000, "btc")
    await coins.order(SEGWIT.upper(), 50_000, "btc", "o-2")
    await coins.order(SHARED, 50_000, "btc", "o-3")
    assert [code for code, _ in await coins.rejections()] == ["address_in_use", "address_in_use"]


async def test_litecoins_two_ways_to_write_a_script_are_one_address(coins):
    coins.follow("ltc")
    await coins.order(OLD, 50_000, "ltc")
    await coins.order((await coins.last()).address, 50_000, "ltc", "o-2")
    assert [code for code, _ in await coins.rejections()] == ["address_in_use"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1111111111111111111114oLvT2", "address_malformed"),
        (SEGWIT[:-1] + "5", "address_checksum"),
        ("DBcZSePDaMMduBMLymWHXhkE5ArFEvkagU", "address_wrong_chain"),
        ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "address_wrong_chain"),
        ("BC1SW50QGDZ25J", "address_malformed"),
    ],
)
async def test_an_address_at_which_money_would_be_lost_is_rejected_by_name(coins, text, code):
    coins.follow("btc")
    await coins.order(text, 50_000, "btc")
    assert [found for found, _ in await coins.rejections()] == [code]


async def test_orders_on_a_shared_address_of_mixed_letters_are_told_apart_by_amount(coins):
    coins.follow("btc")
    await coins.order(None, 50_000, "shared-coin")
    await coins.order(None, 50_000, "shared-coin", "o-2")
    await coins.facts(coins.polygon.covered(SHARED))
    due = {each: int((await coins.last(each)).due) for each in ("o-1", "o-2")}
    assert due["o-1"] != due["o-2"]
    await coins.mine(6, coins.pays(SHARED, due["o-2"]), chain=coins.polygon)
    assert (await coins.last("o-1")).phase is Phase.AWAITING_PAYMENT
    assert (await coins.last("o-2")).phase is Phase.CONFIRMED
