"""What stands in schemas/published, made of the types and the table of topics.

`python tests/parts/published_files.py` writes the files; tests/house compares them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml

import schemas
from reconciler.stream import topics
from reconciler.stream.promise import TopicSpec
from schemas.caip import ChainName, Family
from schemas.codec import (
    COMMAND_KINDS,
    EVENT_KINDS,
    EXCEPTION_KINDS,
    FACT_KINDS,
    REQUEST_KINDS,
)
from schemas.publish import Channel, asyncapi, json_schemas

FOLDER = Path(schemas.__file__).parent / "published"

#: Version of the document: raised when a message gains a field, its first number when one changes.
VERSION = "1.0.0"

_CHAIN, _FAMILY = "{chain}", "{family}"
_LOOK_UPS = sorted(set(REQUEST_KINDS) - {"WatchAddress"})

_Action = Literal["send", "receive"]
_ROWS: list[tuple[str, str, str, list[str], list[_Action]]] = [
    (
        topics.ORDERS,
        "What the shop asks: orders, claims, decisions.",
        "The order's reference",
        sorted(COMMAND_KINDS),
        ["receive"],
    ),
    (
        topics.ORDERS_REJECTED,
        "What was refused, as it came, and why.",
        "The key as it came",
        [],
        ["send"],
    ),
    (
        topics.PAYMENT_EVENTS,
        "What is now true of an order. Act on the last phase.",
        "The order's reference",
        sorted(EVENT_KINDS),
        ["send"],
    ),
    (
        topics.PAYMENT_EXCEPTIONS,
        "What needs a person; the last message of a key holds.",
        "The exception's id",
        sorted(EXCEPTION_KINDS),
        ["send"],
    ),
    (
        topics.transfers_topic(ChainName(_CHAIN)),
        "The facts of one chain. All facts of a block and its watermark are one transaction.",
        "The canonical address; the chain for what speaks for all addresses",
        sorted(FACT_KINDS),
        ["send", "receive"],
    ),
    (
        topics.requests_topic(ChainName(_CHAIN)),
        "What one chain's watcher is asked.",
        "The request's id",
        _LOOK_UPS,
        ["send", "receive"],
    ),
    (
        topics.watchlist_topic(Family(_FAMILY)),
        "The addresses to watch on every chain of a family, for ever.",
        "The canonical address",
        ["WatchAddress"],
        ["send", "receive"],
    ),
]

#: The relay's own bookkeeping, of no use to anybody else.
NOT_DESCRIBED = {topics.RELAY_PROGRESS}


def specs_by_name() -> dict[str, TopicSpec]:
    """Give every topic of a service, chain and family left open."""
    specs = topics.topic_specs({ChainName(_CHAIN): 1}, [Family(_FAMILY)])
    return {spec.name: spec for spec in specs}


def channels() -> list[Channel]:
    """Give the channels that are described."""
    specs = specs_by_name()
    return [
        Channel(
            name=address.partition(".")[0],
            address=address,
            summary=summary,
            key=key,
            kinds=kinds,
            as_they_came="Refused" if address == topics.ORDERS_REJECTED else "",
            partitions=specs[address].partitions,
            cleanup=specs[address].cleanup,
            retention_s=specs[address].retention_s,
            actions=actions,
        )
        for address, summary, key, kinds, actions in _ROWS
    ]


def published_files() -> dict[str, str]:
    """Give the text of every file by its name."""
    document = yaml.safe_dump(
        asyncapi(channels(), version=VERSION), sort_keys=False, allow_unicode=True, width=100
    )
    files = {f"{name}.json": text for name, text in json_schemas().items()}
    return {**files, "asyncapi.yaml": document}


def write() -> None:
    """Write the files and take away those that no type stands for any more."""
    FOLDER.mkdir(exist_ok=True)
    files = published_files()
    for path in FOLDER.iterdir():
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
