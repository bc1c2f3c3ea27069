"""From a step of the loop to messages on lanes. Pure.

A fact about an address goes to that address's lane, for ever; what speaks for the whole chain
(retractions, watermarks, look-ups) goes to every lane, so that each lane is complete by itself. A
consumer of several lanes sees an answered look-up several times and knows it by its request.
"""

from __future__ import annotations

from datetime import datetime

from chains.port import Step, address_of
from chains.registry import parse_address
from reconciler.stream.promise import Lane, Outgoing, partition_of
from reconciler.stream.topics import transfers_topic
from schemas.caip import ChainName
from schemas.codec import encode, kind_name
from schemas.envelope import Envelope, Headers, derived_id, to_headers
from schemas.facts import (
    AddressCovered,
    BalanceSeen,
    BlockRetracted,
    ChainFact,
    TransactionLookedUp,
    TransferDropped,
    TransferSeen,
    Watermark,
)


def messages_of(step: Step, chain: ChainName, *, lanes: int, now: datetime) -> list[Outgoing]:
    """Write a step as messages, in the step's order on every lane."""
    topic = transfers_topic(chain)
    messages: list[Outgoing] = []
    for fact in step.facts:
        address = address_of(fact)
        key = (chain if address is None else parse_address(chain, address).key).encode()
        partitions = range(lanes) if address is None else (partition_of(key, lanes),)
        headers, value = _headers(fact, address, now), encode(fact)
        messages.extend(
            Outgoing(lane=Lane(topic, partition), key=key, value=value, headers=headers)
            for partition in partitions
        )
    return messages


def _headers(fact: ChainFact, address: str | None, now: datetime) -> Headers:
    identity = derived_id(kind_name(fact), fact.chain, *identity_of(fact))
    return to_headers(
        Envelope(id=identity, type=kind_name(fact), time=now, subject=address or fact.chain)
    )


def identity_of(fact: ChainFact) -> tuple[str, ...]:
    """Give what makes a fact the same fact when it is published again.

    Not when it was seen or by whom: a block read once more says the same thing.
    """
    match fact:
        case TransferSeen():
            return fact.transfer, fact.block.hash if fact.block else "mempool"
        case TransferDropped():
            return fact.transfer, fact.replaced_by or ""
        case BlockRetracted():
            return str(fact.height), fact.hash
        case Watermark():
            return (
                fact.log_id,
                str(fact.from_height),
                str(fact.height),
                fact.hash,
                str(fact.watchlist_upto),
            )
        case AddressCovered():
            return fact.address, str(fact.from_height)
        case BalanceSeen():
            return fact.request, fact.asset, fact.address, fact.block.hash
        case TransactionLookedUp():
            return fact.request, fact.state, fact.block.hash if fact.block else ""
