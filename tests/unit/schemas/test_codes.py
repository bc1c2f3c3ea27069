from enum import StrEnum

import pytest

from schemas import codes
from schemas.amounts import AmountError
from schemas.codes import SENTENCES, Rejection, sentence, sentences

TABLES = [
    kind
    for kind in vars(codes).values()
    if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_code_has_one_sentence_for_people(table):
    for code in table:
        said = sentence(code)
        assert said.endswith("."), code
        assert code.value not in said or " " not in code.value
    assert {key[1] for key in SENTENCES if key[0] == table.__name__} == {c.value for c in table}


def test_no_two_codes_of_a_table_say_the_same():
    for table in TABLES:
        said = [sentence(code) for code in table]
        assert len(said) == len(set(said)), table.__name__


def test_every_mistake_in_an_amount_is_a_rejection():
    with pytest.raises(AmountError) as refused:
        raise AmountError("amount_zero", "x")
    assert refused.value.code in set(Rejection)


def test_a_code_and_what_was_found_are_two_sentences():
    assert sentences(Rejection.UNKNOWN_TYPE, "expected a, found b") == (
        "No command has this type. Expected a, found b."
    )
    assert sentences(Rejection.AMOUNT_ZERO, "") == "The amount is zero."
    assert sentences(Rejection.AMOUNT_TOO_LARGE, "Found 7.") == (
        "The amount is above what the asset can hold. Found 7."
    )
