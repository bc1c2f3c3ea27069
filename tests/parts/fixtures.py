"""The fixtures of the real parts: each is started once, when the first test asks for it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.observability.logs import set_up_logs
from tests.parts.anvil.node import AnvilNode
from tests.parts.kafka.cluster import KafkaCluster
from tests.parts.postgres import PostgresServer


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaCluster]:
    """One broker for the whole run. Tests keep apart by `kafka_prefix`."""
    cluster = KafkaCluster(brokers=1)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def kafka_prefix() -> str:
    """What a test puts before its topics, groups and writers, so that no other test sees them."""
    return f"t{uuid4().hex[:12]}."


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database of the test's own."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'test.db'}"


@pytest.fixture
def anvil() -> Iterator[AnvilNode]:
    """A chain of the test's own, which mines when it is told to; four blocks deep is final."""
    node = AnvilNode(finality_lag=4)
    node.start()
    yield node
    node.stop()


@pytest.fixture
def logs_apart() -> Iterator[io.StringIO]:
    """Send logs where no test of a command's output meets them."""
    root = logging.getLogger()
    kept = root.handlers, root.level
    stream = io.StringIO()
    set_up_logs("info", stream=stream)
    yield stream
    root.handlers, root.level = kept
