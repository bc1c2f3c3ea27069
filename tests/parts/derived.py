"""Routes that derive addresses, for a world of services; and a database that is dumped and restored."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from chains.registry import derive_address, read_derivation
from chains.utxo.networks import BITCOIN
from reconciler.model.policy import FinalityTier, Route, Tolerance
from reconciler.services.context import ServiceContext
from reconciler.storage import tables
from reconciler.stream.topics import watchlist_topic
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, Family
from schemas.codec import decode_as
from schemas.commands import PlaceOrder
from schemas.requests import WatchAddress
from tests.parts.world import ETHEREUM, POLYGON, World, policy, routes

#: m/44'/60'/0' of "test … junk", and the same key as a wallet for Bitcoin would write it.
KEY = (
    "xpub6Ce9NcJvTk36xtLSrJLZqE7wtgA5deCeYs7rSQtreh4cj6ByPtrg9sD7V2FNFLPnf8heNP3FGkeV9qwfzvZNSd54JoNXV"
    "sXFYSYwHsnJxqP"
)
#: m/44'/0'/0' of "abandon … about".
OTHER_KEY = (
    "xpub6BosfCnifzxcFwrSzQiqu2DBVTshkCXacvNsWGYJVVhhawA7d4R5WSWGFNbi8Aw6ZRc1brxMyWMzG3DSSSSoekkudhUd9"
    "yLb6qx39T9nMdj"
)
POLYGON_USDT = AssetName("eip155:137/erc20:0xc2132D05D31c914a87C6611C10748AEb04B58e8F")
BTC = AssetName(f"{BITCOIN.chain}/slip44:0")
MATIC = AssetName(f"{POLYGON}/slip44:966")


def derived_routes() -> dict[str, Route]:
    """`ethereum`, `polygon` and `bitcoin` share a key, `other` has one of its own."""
    base = msgspec.structs.replace(
        routes()["own"], mode="derived", derivation=read_derivation(ETHEREUM, KEY)
    )
    coin = policy(
        decimals=8,
        stable=False,
        dust=BaseUnits(546),
        amount_max=BaseUnits(BITCOIN.money_max),
        tiers=(FinalityTier(up_to=None, depth=6),),
        tolerance=Tolerance(),
    )
    made = [
        msgspec.structs.replace(base, name="ethereum"),
        msgspec.structs.replace(
            base,
            name="polygon",
            chain=POLYGON,
            asset=POLYGON_USDT,
            derivation=read_derivation(POLYGON, KEY),
        ),
        msgspec.structs.replace(
            base,
            name="bitcoin",
            chain=BITCOIN.chain,
            asset=BTC,
            policy=coin,
            derivation=read_derivation(BITCOIN.chain, KEY, "p2tr"),
        ),
        msgspec.structs.replace(
            base, name="other", derivation=read_derivation(ETHEREUM, OTHER_KEY)
        ),
    ]
    return {route.name: route for route in made}


def context(
    world: World, *, ethereum_lanes: int = 1, relay_shards: int = 1, **changed: Route
) -> ServiceContext:
    """A context with these routes beside the usual ones."""
    return ServiceContext(
        catalogue=world.catalogue,
        routes=routes() | derived_routes() | changed,
        lanes={ETHEREUM: ethereum_lanes, POLYGON: 1, BITCOIN.chain: 1},
        secret=world.context.secret,
        orders_partitions=world.context.orders_partitions,
        relay_shards=relay_shards,
    )


def place(number: int, route: str = "ethereum", **more: object) -> PlaceOrder:
    fields: dict[str, Any] = {
        "idempotency_key": f"place-{number}",
        "reference": f"o-{number}",
        "route": route,
        "amount": "25000000",
        **more,
    }
    return PlaceOrder(**fields)


def address_at(index: int, route: str = "ethereum") -> str:
    derivation = derived_routes()[route].derivation
    assert derivation is not None
    return derive_address(derivation, index).display


async def handed_out(world: World) -> dict[str, int]:
    """What the watchlists were told: which order was given which index. Fails where one is twice."""
    told = await watched(world)
    sources = [message.derived for message in told if message.derived is not None]
    places = [(source.key, source.index) for source in sources]
    assert len(places) == len(set(places)), "an index was given out twice"
    return {source.order: source.index for source in sources}


async def watched(world: World) -> list[WatchAddress]:
    topics = [watchlist_topic(Family(name)) for name in ("eip155", BITCOIN.chain)]
    table = tables.outbox
    async with world.engine.connect() as connection:
        found = await connection.execute(
            select(table.c.value).where(table.c.topic.in_(topics)).order_by(table.c.id)
        )
        return [decode_as(WatchAddress, row[0]) for row in found]


Dump = dict[str, list[dict[str, Any]]]


async def dump(engine: AsyncEngine) -> Dump:
    """Read every row of our tables, as a backup would."""
    async with engine.connect() as connection:
        return {
            table.name: [dict(row._mapping) for row in await connection.execute(select(table))]
            for table in tables.metadata.sorted_tables
        }


async def restore(engine: AsyncEngine, backup: Dump) -> None:
    """Put the database back to a backup: everything since is gone."""
    async with engine.begin() as connection:
        for table in tables.metadata.sorted_tables:
            await connection.execute(table.delete())
            if backup[table.name]:
                await connection.execute(table.insert(), backup[table.name])
        if engine.dialect.name == "postgresql":
            for sequence, column in (("outbox_id_seq", "outbox"), ("journal_id_seq", "journal")):
                last = max((row["id"] for row in backup[column]), default=0)
                await connection.execute(text(f"SELECT setval('{sequence}', {last + 1}, false)"))
            seq = max((row["seq"] for row in backup["journal"]), default=0)
            await connection.execute(text(f"SELECT setval('applied_seq', {seq + 1}, false)"))
