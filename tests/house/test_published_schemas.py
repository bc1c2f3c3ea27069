"""The published files are the types: whoever changes a message publishes it with the same commit."""

import jsonschema
import pytest
import yaml

from schemas.codec import ALL_KINDS
from schemas.codes import Rejection
from tests.parts.published_files import (
    FOLDER,
    NOT_DESCRIBED,
    channels,
    published_files,
    specs_by_name,
)


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
