"""What every service needs to know of the settings, and the words for what a record is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Final

from chains.catalog import Catalogue
from reconciler.model.policy import Route
from reconciler.stream.promise import Lane, partition_of
from reconciler.stream.topics import ORDERS, transfers_topic
from schemas.caip import ChainName, Family, family_of

#: How long a command may wait for its order. Source: DESIGN section 5.
PARKED_FOR: Final = timedelta(minutes=10)
LINES_BYTES_MAX: Final = 16_384


class ServiceContext:
    """The composition root's answers; the same for every call.

    `secret` keys the hashes that stand in for chance (page tokens, amount steps), so that a replay
    makes the same and nobody else can.
    """

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        routes: Mapping[str, Route],
        lanes: Mapping[ChainName, int],
        secret: bytes,
        orders_partitions: int = 3,
        relay_shards: int = 1,
        parked_for: timedelta = PARKED_FOR,
        lines_bytes_max: int = LINES_BYTES_MAX,
    ) -> None:
        self.catalogue = catalogue
        self.routes = routes
        self.lanes = lanes
        self.secret = secret
        self.orders_partitions = orders_partitions
        self.relay_shards = relay_shards
        self.parked_for = parked_for
        self.lines_bytes_max = lines_bytes_max

    @cached_property
    def orders_lanes(self) -> Sequence[str]:
        """Name every lane of `orders`."""
        return [Lane(ORDERS, number).name for number in range(self.orders_partitions)]

    @cached_property
    def facts_lanes(self) -> Sequence[str]:
        """Name every lane of every chain, also those of which nothing was applied yet."""
        return [
            Lane(transfers_topic(chain), number).name
            for chain, count in sorted(self.lanes.items())
            for number in range(count)
        ]

    @cached_property
    def chain_of_topic(self) -> Mapping[str, ChainName]:
        """Give the chain of a `transfers.<chain>` topic."""
        return {transfers_topic(chain): chain for chain in self.lanes}

    @cached_property
    def derives(self) -> bool:
        """Whether a route derives addresses: some milliseconds each, with the key's lock held."""
        return any(route.mode == "derived" for route in self.routes.values())

    def chains_of(self, family: Family) -> Sequence[ChainName]:
        """List the configured chains of a family."""
        return [chain for chain in sorted(self.lanes) if family_of(chain) == family]

    def lanes_of(self, family: Family, address_key: str) -> Sequence[str]:
        """Name the lanes that an address has on all chains of its family."""
        return sorted(self.lane_of(chain, address_key) for chain in self.chains_of(family))

    def lane_of(self, chain: ChainName, address_key: str) -> str:
        """Name the one lane that an address has on a chain, for ever."""
        topic = transfers_topic(chain)
        return Lane(topic, partition_of(address_key.encode(), self.lanes[chain])).name
