"""What the scenarios share: two chains of their own, and a cluster of three brokers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.parts.kafka.cluster import KafkaCluster
from tests.parts.thousand.story import ChainLetter
from tests.parts.thousand.street import Street


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    """Three brokers, of which a test may lose one."""
    cluster = KafkaCluster(brokers=3)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def streets() -> Iterator[dict[ChainLetter, Street]]:
    """Two chains with the same contracts at the same addresses."""
    streets: dict[ChainLetter, Street] = {"a": Street(313_371), "b": Street(313_372)}
    yield streets
    for street in streets.values():
        street.stop()


@pytest.fixture(autouse=True)
def quiet_client() -> Iterator[None]:
    """Kafka's client says a thousand times that a broker is down, which a test has just killed."""
    client = logging.getLogger("aiokafka")
    before = client.level
    client.setLevel(logging.CRITICAL)
    yield
    client.setLevel(before)
