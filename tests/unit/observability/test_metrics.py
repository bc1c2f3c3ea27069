import pytest

from reconciler.kernel import InvariantBroken
from reconciler.observability import metrics
from reconciler.observability.metrics import TABLE, Meters

UNBOUNDED = {"address", "tx", "transaction", "order", "reference", "transfer", "hash", "customer"}


def test_names_are_unique_and_follow_prometheus():
    names = [row.name for row in TABLE]
    assert len(names) == len(set(names)) > 20
    for row in TABLE:
        assert (row.kind == "counter") == row.name.endswith("_total"), row.name
        assert row.help.endswith("."), row.name
        assert not row.name.startswith("reconciler"), row.name
        if row.name.endswith(("duration", "timestamp", "_ms")):
            pytest.fail(f"{row.name} names no unit")


def test_no_label_is_without_bound():
    for row in TABLE:
        assert not UNBOUNDED & set(row.labels), row.name


def test_every_row_becomes_a_meter():
    body, content_type = Meters().exposition()
    for row in TABLE:
        # The exposition names a counter's family without its suffix in one of its two formats.
        assert f"# HELP {row.full_name} " in body.decode(), row.name
    assert content_type.startswith("text/plain")


def test_meters_count_set_and_observe():
    meters = Meters()
    meters.add(metrics.WATCH_RETRACTED, 2, chain="eip155:1")
    meters.set(metrics.CHAIN_HEAD_HEIGHT, 21_500_000, chain="eip155:1")
    meters.observe(metrics.WATCH_PUBLISH_DURATION, 0.003, chain="eip155:1")
    assert meters.value(metrics.WATCH_RETRACTED, chain="eip155:1") == 2
    assert meters.value(metrics.CHAIN_HEAD_HEIGHT, chain="eip155:1") == 21_500_000
    assert meters.value(metrics.CHAIN_HEAD_HEIGHT, chain="eip155:10") == 0
    body = meters.exposition()[0].decode()
    assert 'reconciler_watch_publish_duration_seconds_count{chain="eip155:1"} 1.0' in body


def test_two_processes_in_one_interpreter_do_not_share_meters():
    one, other = Meters(), Meters()
    one.set(metrics.OUTBOX_PENDING, 5, shard="0")
    assert other.value(metrics.OUTBOX_PENDING, shard="0") == 0


def test_wrong_labels_and_wrong_kinds_are_bugs():
    meters = Meters()
    with pytest.raises(InvariantBroken, match="expected labels"):
        meters.set(metrics.CHAIN_HEAD_HEIGHT, 1)
    with pytest.raises(InvariantBroken, match="no counter"):
        meters.add(metrics.OUTBOX_PENDING, shard="0")
    with pytest.raises(InvariantBroken, match="no gauge"):
        meters.set(metrics.INTAKE_REJECTED, 1, code="amount_zero")
