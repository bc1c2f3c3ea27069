"""A cluster that is down is said once a minute, and one that has just started not at all."""

import logging

import pytest

from reconciler.observability.repeats import (
    SENTENCES_MAX,
    TROUBLE_AFTER_S,
    TROUBLE_OVER_AFTER_S,
    WithinBounds,
)

REFUSED = "Unable connect to node with id %s: %s"
UNREADY = "Group Coordinator Request failed: %s"


class Heard:
    """A minute hand and what came through."""

    def __init__(self):
        self.bounds, self.at_s = WithinBounds(), 1_000.0
        self.through = []

    def say(self, text, *args, name="aiokafka", level=logging.ERROR, after_s=0.0):
        self.at_s += after_s
        record = logging.LogRecord(name, level, "client.py", 1, text, args, None)
        record.created = self.at_s
        if self.bounds.filter(record):
            self.through.append(record.getMessage())


@pytest.fixture
def heard():
    return Heard()


def test_a_broker_that_answers_a_little_later_is_no_trouble(heard):
    for _ in range(int(TROUBLE_AFTER_S * 10) - 1):
        heard.say(UNREADY, "GroupCoordinatorNotAvailableError", after_s=0.1)
    heard.say(REFUSED, 1, "refused", after_s=TROUBLE_OVER_AFTER_S + 1)
    assert heard.through == [], "that was over; this is a new one"


def test_a_cluster_that_is_down_is_one_sentence_a_minute_however_often_it_is_tried(heard):
    for _ in range(200 * 120):
        heard.say(REFUSED, 1, "refused", after_s=0.005)
    assert len(heard.through) == 2
    first, second = heard.through
    assert first.startswith("Kafka cannot be reached since 5 s, tried ")
    assert first.endswith("the last time: Unable connect to node with id 1: refused")
    assert "tried 12000 times" in second


def test_another_warning_is_said_at_once_and_then_once_a_minute_with_how_often(heard):
    for _ in range(3):
        heard.say("Not authorized to read from topic %s.", "orders", name="aiokafka.consumer")
    assert heard.through == ["Not authorized to read from topic orders."]
    heard.say("Not authorized to read from topic %s.", "x", name="aiokafka.consumer", after_s=60)
    assert heard.through[1].endswith("topic x. (and 2 times since this was said)")


def test_no_number_of_different_sentences_grows_it_without_end(heard):
    for number in range(SENTENCES_MAX + 1_000):
        heard.say(f"odd {number}")
    assert len(heard.through) == SENTENCES_MAX + 1
    assert len(heard.bounds._said) <= SENTENCES_MAX + 1


@pytest.mark.parametrize("name", ["intake", "asyncio", "aiokafkaesque"])
def test_what_others_say_is_left_alone(heard, name):
    for _ in range(3):
        heard.say(REFUSED, 1, "refused", name=name)
    assert len(heard.through) == 3
