"""The published files are the types: whoever changes a message publishes it with the same commit."""

import json
import re

import jsonschema
import pytest
import yaml

from schemas.codec import ALL_KINDS, UnreadableMessage, decode_as
from schemas.codes import Rejection
from schemas.commands import PlaceOrder
from tests.parts.published_files import (
    FOLDER,
    NOT_DESCRIBED,
    channels,
    published_files,
    specs_by_name,
)

EXAMPLES = FOLDER.parent / "examples"


def test_the_published_files_are_those_of_the_types():
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    expected = published_files()
    assert sorted(on_disk) == sorted(expected), "run python tests/parts/published_files.py"
    for name, text in expected.items():
        assert on_disk[name] == text, f"{name}: run python tests/parts/published_files.py"


@pytest.mark.parametrize("name", sorted({kind.__name__ for kind in ALL_KINDS.values()}))
def test_every_schema_is_one(name):
    schema = yaml.safe_load((FOLDER / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == name
    assert schema["description"]


def patterns(value):
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        for inner in value.values():
            yield from patterns(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from patterns(inner)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_every_pattern_means_the_same_to_python_to_browsers_and_to_go(path):
    """RE2 has neither look-around nor back-references; ECMA-262 has neither `\\A` nor `\\Z`."""
    found = set(patterns(yaml.safe_load(path.read_text())))
    for pattern in found:
        assert re.fullmatch(r"\^.*\$", pattern, re.DOTALL), f"{pattern} is not the whole text"
        assert not re.search(r"\(\?(?!:)|\\[1-9AZzGQEpPhHRXK]|[*+?}]\+", pattern), pattern


@pytest.mark.parametrize("field", ["reference", "idempotency_key"])
def test_what_is_published_without_it_is_still_refused_a_last_line_break_when_it_is_read(field):
    example = json.loads((EXAMPLES / "PlaceOrder.json").read_text())
    assert decode_as(PlaceOrder, json.dumps(example).encode())
    for bad in (example[field] + "\n", "\n" + example[field]):
        with pytest.raises(UnreadableMessage, match=field):
            decode_as(PlaceOrder, json.dumps(example | {field: bad}).encode())


def document():
    return yaml.safe_load((FOLDER / "asyncapi.yaml").read_text())


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_of_the_document_leads_somewhere():
    tree = document()
    found = set(references(tree))
    assert len(found) > 40
    for reference in found:
        place = tree
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_every_topic_is_described_or_left_out_for_a_reason():
    described = {channel.address for channel in channels()}
    assert described | NOT_DESCRIBED == set(specs_by_name())
    assert not described & NOT_DESCRIBED


def test_every_kind_travels_on_exactly_one_topic():
    kinds = [kind for channel in channels() for kind in channel.kinds]
    assert sorted(kinds) == sorted(ALL_KINDS)


def test_channels_say_how_kafka_keeps_them():
    kafka = document()["channels"]["payment-events"]["bindings"]["kafka"]
    assert kafka["partitions"] == 6
    assert kafka["topicConfiguration"] == {
        "cleanup.policy": ["delete"],
        "retention.ms": 90 * 86_400_000,
    }
    compacted = document()["channels"]["watchlist"]["bindings"]["kafka"]["topicConfiguration"]
    assert compacted == {"cleanup.policy": ["compact"]}


def test_a_refusals_headers_name_every_code():
    headers = document()["components"]["messages"]["Refused"]["headers"]
    assert set(headers["properties"]["rejected_code"]["enum"]) == set(Rejection)
