"""The words as other people's tools read them: JSON Schemas and an AsyncAPI document, from the types.

Pure: gives texts and trees; whoever calls writes them to `schemas/published/`. A test fails when the
files there differ from the types. What topics are like is told by the caller, for this room knows
none.

**Source**: JSON Schema 2020-12; AsyncAPI 3.1.0 with the Kafka bindings 0.5.0 (read 2026-08-11).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from schemas.amounts import DIGITS_PATTERN, BaseUnits
from schemas.caip import END
from schemas.codec import ALL_KINDS, EVENT_KINDS
from schemas.codes import Rejection
from schemas.envelope import CONTENT_TYPE, SOURCE, SPEC_VERSION
from schemas.values import Message

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ASYNCAPI_VERSION: Final = "3.1.0"
KAFKA_BINDING: Final = "0.5.0"

_OWN_TYPES: Final[dict[type, dict[str, Any]]] = {
    BaseUnits: {
        "type": "string",
        "pattern": DIGITS_PATTERN,
        "description": "A whole number of the asset's base units, below 2^256, as digits.",
    },
}


_WORDING: Final[dict[str, Callable[[str], str]]] = {
    "description": inspect.cleandoc,
    "pattern": lambda pattern: pattern.replace(END, "$"),
}


class Channel(Struct, frozen=True, kw_only=True):
    """One topic, or one a chain or family where the address has a `{parameter}`.

    `as_they_came` describes messages that are none of our kinds, under that name: `orders-rejected`
    gives back what a shop sent, with the reason in headers. `actions` are the service's own: it receives what a shop sends, sends what a shop reads, and does
    both where its own processes talk to each other.
    """

    name: str
    address: str
    summary: str
    key: str
    kinds: Sequence[str]
    as_they_came: str = ""
    partitions: int
    cleanup: Literal["delete", "compact"]
    retention_s: int | None
    actions: Sequence[Literal["send", "receive"]]


def json_schemas() -> dict[str, str]:
    """Give the text of every message's JSON Schema by the name of its type."""
    return {
        kind.__name__: _pretty(_schema_of(kind))
        for kind in sorted(set(ALL_KINDS.values()), key=lambda kind: kind.__name__)
    }


def asyncapi(channels: Sequence[Channel], *, version: str) -> dict[str, Any]:
    """Give the AsyncAPI document of a service with these channels, complete in itself."""
    kinds = sorted({kind for channel in channels for kind in channel.kinds})
    keys = {kind: channel.key for channel in channels for kind in channel.kinds}
    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": {
            "title": "crypto-payment-reconciler",
            "version": version,
            "description": (
                "Pairs on-chain transfers with orders and emits the payment events that unlock "
                "provisioning. Values are JSON, headers are CloudEvents 1.0 in binary mode. Read "
                "with isolation.level=read_committed: aborted transactions are visible otherwise."
            ),
            "license": {"name": "GPL-3.0-or-later"},
        },
        "defaultContentType": CONTENT_TYPE,
        "channels": {channel.name: _channel(channel) for channel in channels},
        "operations": dict(_operations(channels)),
        "components": {
            "messages": {
                **{kind: _message(kind, keys[kind]) for kind in kinds},
                **{c.as_they_came: _refused(c.key) for c in channels if c.as_they_came},
            },
            "schemas": _components(kinds),
        },
    }


def _schema_of(kind: type[Message]) -> dict[str, Any]:
    schema = _clean(msgspec.json.schema(kind, schema_hook=_schema_hook))
    # The decoder's own form points into $defs even for the type itself; tools want it on top.
    name = schema.pop("$ref").rpartition("/")[2]
    definitions = dict(schema["$defs"])
    top = definitions.pop(name)
    return {
        "$schema": DIALECT,
        "$id": f"{SOURCE}:{name}",
        **top,
        **({"$defs": definitions} if definitions else {}),
    }


def _schema_hook(kind: type) -> dict[str, Any]:
    if kind in _OWN_TYPES:
        return _OWN_TYPES[kind]
    message = f"no schema for {kind.__name__}"
    raise NotImplementedError(message)


def _clean(schema: Any) -> Any:
    """Take the indentation of the source out of descriptions, what only OpenAPI knows, and from patterns
    what only Python needs: elsewhere `$` is the end of a text, and RE2 knows no look-ahead.
    """
    if isinstance(schema, dict):
        return {
            key: _WORDING[key](value)
            if key in _WORDING and isinstance(value, str)
            else _clean(value)
            for key, value in schema.items()
            if key != "discriminator"
        }
    return [_clean(inner) for inner in schema] if isinstance(schema, list) else schema


def _components(kinds: Iterable[str]) -> dict[str, Any]:
    types = sorted({ALL_KINDS[kind] for kind in kinds}, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(
        types, schema_hook=_schema_hook, ref_template="#/components/schemas/{name}"
    )
    return {name: _clean(schema) for name, schema in sorted(components.items())}


def _channel(channel: Channel) -> dict[str, Any]:
    configuration: dict[str, Any] = {"cleanup.policy": [channel.cleanup]}
    if channel.retention_s is not None:
        configuration["retention.ms"] = channel.retention_s * 1_000
    names = sorted([*channel.kinds, *filter(None, [channel.as_they_came])])
    made: dict[str, Any] = {
        "address": channel.address,
        "summary": channel.summary,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {
            "kafka": {
                "partitions": channel.partitions,
                "topicConfiguration": configuration,
                "bindingVersion": KAFKA_BINDING,
            }
        },
    }
    if "{chain}" in channel.address:
        made["parameters"] = {"chain": _parameter("A CAIP-2 chain, colon as hyphen", "eip155-1")}
    if "{family}" in channel.address:
        made["parameters"] = {"family": _parameter("A family of chains", "eip155")}
    return made


def _parameter(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "examples": [example]}


def _operations(channels: Sequence[Channel]) -> Iterable[tuple[str, dict[str, Any]]]:
    for channel in channels:
        for action in channel.actions:
            yield (
                f"{action}.{channel.name}",
                {"action": action, "channel": {"$ref": f"#/channels/{channel.name}"}},
            )


def _message(kind: str, key: str) -> dict[str, Any]:
    return {
        "name": kind,
        "contentType": CONTENT_TYPE,
        "headers": _headers(kind),
        "payload": _payload(kind),
        "bindings": {
            "kafka": {
                "key": {"type": "string", "description": key},
                "bindingVersion": KAFKA_BINDING,
            }
        },
    }


def _refused(key: str) -> dict[str, Any]:
    """Describe a refused message: bytes and headers as they came, and why, in headers of ours."""
    text = {"type": "string"}
    return {
        "name": "Refused",
        "summary": "A message as it came; the headers say why it was refused.",
        "headers": {
            "type": "object",
            "required": ["rejected_code", "rejected_reason"],
            "properties": {
                "rejected_code": {"type": "string", "enum": [code.value for code in Rejection]},
                "rejected_reason": text,
                "rejected_topic": text,
                "rejected_partition": {"type": "string", "pattern": "^[0-9]+$"},
                "rejected_offset": {"type": "string", "pattern": "^[0-9]+$"},
                "rejected_bytes": {
                    "type": "string",
                    "pattern": "^[0-9]+$",
                    "description": "Only where it was too large to be given back whole: its size.",
                },
                "rejected_sha256": {
                    "type": "string",
                    "pattern": "^[0-9a-f]{64}$",
                    "description": "Only beside rejected_bytes: the SHA-256 of the whole value.",
                },
            },
        },
        "payload": {"description": "The value as it came, which need not be JSON."},
        "bindings": {
            "kafka": {
                "key": {"type": "string", "description": key},
                "bindingVersion": KAFKA_BINDING,
            }
        },
    }


def _payload(kind: str) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{ALL_KINDS[kind].__name__}"}
    if kind not in EVENT_KINDS:
        return reference
    word = kind.partition(".")[2]
    return {"allOf": [reference, {"properties": {"kind": {"const": word}}}]}


def _headers(kind: str) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["ce_type"],
        "properties": {
            "ce_type": {"type": "string", "const": kind},
            "ce_specversion": {"type": "string", "const": SPEC_VERSION},
            "ce_source": text,
            "ce_id": text,
            "ce_time": {"type": "string", "format": "date-time"},
            "ce_subject": text,
            "ce_sequence": {"type": "string", "pattern": "^[1-9][0-9]*$"},
            "content-type": {"type": "string", "const": CONTENT_TYPE},
        },
    }


def _pretty(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
