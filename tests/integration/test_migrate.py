"""`reconciler migrate`: tables and topics, made once and named when they are set up otherwise."""

import pytest

from reconciler.cli import run
from tests.parts.service import write_settings


def test_tables_and_topics_are_made_and_told_and_twice_is_once(tmp_path, capsys):
    path = write_settings(tmp_path)
    assert run(["migrate", "--config", str(path)]) == 0
    first = capsys.readouterr().out
    assert "database: made at revision " in first
    assert "topics: made orders, orders-rejected, payment-events" in first
    assert run(["migrate", "--config", str(path)]) == 0
    second = capsys.readouterr().out
    assert "already" in second
    assert "topics: all are there" in second


def test_topic_that_is_set_up_otherwise_is_named_and_left_alone(tmp_path, capsys):
    assert run(["migrate", "--config", str(write_settings(tmp_path))]) == 0
    path = write_settings(tmp_path, more="[stream]\nevents_partitions = 7\n")
    assert run(["migrate", "--config", str(path)]) == 1
    assert "payment-events" in capsys.readouterr().err


@pytest.mark.kafka
def test_topics_are_made_on_kafka_and_compared(tmp_path, capsys, kafka_broker, kafka_prefix):
    log = f"[stream]\nkind = 'kafka'\nbootstrap = '{kafka_broker.bootstrap}'\n"
    path = write_settings(tmp_path, more=f"{log}prefix = '{kafka_prefix}'\n")
    assert run(["migrate", "--config", str(path)]) == 0
    assert "topics: made orders, orders-rejected, payment-events" in capsys.readouterr().out
    path = write_settings(tmp_path, more=f"{log}prefix = '{kafka_prefix}'\nevents_partitions = 7\n")
    assert run(["migrate", "--config", str(path)]) == 1
    assert "payment-events: expected partitions 7, found 6" in capsys.readouterr().err


def test_kafka_that_is_not_there_is_one_sentence(tmp_path, capsys):
    log = "[stream]\nkind = 'kafka'\nbootstrap = '127.0.0.1:9'\n"
    assert run(["migrate", "--config", str(write_settings(tmp_path, more=log))]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert 'Kafka at 127.0.0.1:9 cannot be reached: "127.0.0.1:9": [Errno 111]' in said


def test_database_that_is_not_there_is_one_sentence(tmp_path, capsys):
    path = write_settings(tmp_path)
    text = path.read_text().replace(f"{tmp_path}/reconciler.db", f"{tmp_path}/nowhere/r.db")
    path.write_text(text)
    assert run(["migrate", "--config", str(path)]) == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert said.err == (
        f"reconciler: database.url: there is no folder {tmp_path}/nowhere: make it first\n"
    )
