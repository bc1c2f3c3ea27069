"""The topics: names, keys, partitions, what is kept. The one table that everything reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from reconciler.stream.promise import MESSAGE_BYTES_MAX, TopicSpec
from schemas.caip import ChainName, Family, topic_token

DAY_S: Final = 86_400

ORDERS: Final = "orders"
ORDERS_REJECTED: Final = "orders-rejected"
PAYMENT_EVENTS: Final = "payment-events"
PAYMENT_EXCEPTIONS: Final = "payment-exceptions"
RELAY_PROGRESS: Final = "relay-progress"


def transfers_topic(chain: ChainName) -> str:
    """Name the topic of one chain's facts."""
    return f"transfers.{topic_token(chain)}"


def requests_topic(chain: ChainName) -> str:
    """Name the topic of what is asked of one chain's watcher."""
    return f"requests.{topic_token(chain)}"


def watchlist_topic(family: Family) -> str:
    """Name the topic of the addresses to watch on all chains of a family."""
    return f"watchlist.{topic_token(family)}"


def topic_specs(
    lanes: Mapping[ChainName, int],
    families: Iterable[Family],
    *,
    orders_partitions: int = 3,
    events_partitions: int = 6,
) -> list[TopicSpec]:
    """List every topic of a service with these chains and their numbers of lanes.

    A refused command is given back whole with the reason added, so that its topic takes larger
    messages than `orders` does.
    """
    specs = [
        _log(ORDERS, orders_partitions, days=14),
        _log(ORDERS_REJECTED, 1, days=14, message_bytes_max=2 * MESSAGE_BYTES_MAX),
        _log(PAYMENT_EVENTS, events_partitions, days=90),
        _last_of_each_key(PAYMENT_EXCEPTIONS),
        _last_of_each_key(RELAY_PROGRESS),
    ]
    specs += [_last_of_each_key(watchlist_topic(family)) for family in sorted(set(families))]
    for chain, count in sorted(lanes.items()):
        specs.append(_log(transfers_topic(chain), count, days=30))
        specs.append(_log(requests_topic(chain), 1, days=7))
    return specs


def _log(
    name: str, partitions: int, *, days: int, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> TopicSpec:
    return TopicSpec(
        name=name,
        partitions=partitions,
        cleanup="delete",
        retention_s=days * DAY_S,
        message_bytes_max=message_bytes_max,
    )


def _last_of_each_key(name: str) -> TopicSpec:
    return TopicSpec(name=name, partitions=1, cleanup="compact", retention_s=None)
