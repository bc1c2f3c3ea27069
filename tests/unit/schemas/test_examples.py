"""One example for every kind, valid both ways: by the types and by the published schema."""

import json
from pathlib import Path

import jsonschema
import pytest

import schemas
from schemas.codec import ALL_KINDS, EVENT_KINDS, decode, encode, kind_name
from schemas.commands import Action
from schemas.events import PaymentEvent

FOLDER = Path(schemas.__file__).parent
EXAMPLES = sorted((FOLDER / "examples").glob("*.json"))
NAMES = [path.stem for path in EXAMPLES]


def kind_of(name):
    """`Decide.assign` is a Decide; `payment.late` is a kind of its own."""
    return name if name in ALL_KINDS else name.partition(".")[0]


def test_every_kind_has_an_example_and_every_example_a_kind():
    assert {kind_of(name) for name in NAMES} == set(ALL_KINDS)


def test_every_decision_has_an_example():
    actions = {action.__struct_config__.tag for action in Action.__args__}
    assert {name.partition(".")[2] for name in NAMES if name.startswith("Decide.")} == actions


@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_an_example_is_read_and_written_back_as_it_is(path):
    name = kind_of(path.stem)
    message = decode(name, path.read_bytes(), ALL_KINDS)
    assert kind_name(message) == name
    assert json.loads(encode(message)) == json.loads(path.read_text())


@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_an_example_is_valid_by_its_published_schema(path):
    kind = ALL_KINDS[kind_of(path.stem)]
    schema = json.loads((FOLDER / "published" / f"{kind.__name__}.json").read_text())
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    validator.validate(json.loads(path.read_text()))


@pytest.mark.parametrize("name", sorted(EVENT_KINDS))
def test_an_example_event_says_its_own_kind(name):
    path = FOLDER / "examples" / f"{name}.json"
    event = decode(name, path.read_bytes(), ALL_KINDS)
    assert isinstance(event, PaymentEvent)
    assert name == f"payment.{event.kind}"


@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_a_field_that_nobody_knows_yet_is_passed_over(path):
    tree = json.loads(path.read_text()) | {"field_of_tomorrow": {"deep": [1]}}
    name = kind_of(path.stem)
    found = encode(decode(name, json.dumps(tree).encode(), ALL_KINDS))
    assert json.loads(found) == json.loads(path.read_text())


@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_a_schema_and_a_decoder_refuse_the_same_missing_fields(path):
    kind = ALL_KINDS[kind_of(path.stem)]
    schema = json.loads((FOLDER / "published" / f"{kind.__name__}.json").read_text())
    tree = json.loads(path.read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for field in tree:
        without = {key: value for key, value in tree.items() if key != field}
        try:
            decode(kind_of(path.stem), json.dumps(without).encode(), ALL_KINDS)
            readable = True
        except ValueError:
            readable = False
        assert validator.is_valid(without) == readable, field
