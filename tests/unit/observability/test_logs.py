import io
import json
import logging

import pytest

from reconciler.config import Secret
from reconciler.observability.logs import logger, set_up_logs, unit_of_work


@pytest.fixture
def lines():
    stream = io.StringIO()
    kept = logging.getLogger().handlers, logging.getLogger().level
    set_up_logs("info", stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logging.getLogger().handlers, logging.getLogger().level = kept


EARLY = logger("watch")


def test_a_logger_that_a_room_made_at_its_import_follows_the_settings(lines):
    EARLY.info("head moved", height=7)
    (line,) = lines()
    assert (line["room"], line["height"]) == ("watch", 7)


def test_a_unit_of_work_is_one_line_with_what_it_found(lines):
    with unit_of_work(logger("intake"), "batch applied", lane="orders/0") as found:
        found["messages"] = 3
    (line,) = lines()
    assert line["event"] == "batch applied"
    assert (line["room"], line["lane"], line["messages"]) == ("intake", "orders/0", 3)
    assert (line["outcome"], line["level"]) == ("done", "info")
    assert line["duration_ms"] >= 0
    assert line["time"].endswith("Z")


def test_a_unit_of_work_that_fails_says_so_once_and_fails(lines):
    with (
        pytest.raises(ZeroDivisionError),
        unit_of_work(logger("intake"), "batch applied") as found,
    ):
        found["messages"] = 1 // 0
    (line,) = lines()
    assert (line["outcome"], line["level"]) == ("failed", "warning")
    assert line["error"].startswith("ZeroDivisionError")


@pytest.mark.parametrize(
    ("fields", "hidden"),
    [
        ({"url": "postgresql+asyncpg://shop:hunter2@db/x"}, "hunter2"),
        ({"node": "https://node.example/v2/hunter2"}, "hunter2"),
        ({"why": "cannot connect to wss://u:hunter2@node.example/ws"}, "hunter2"),
        ({"password": "hunter2"}, "hunter2"),
        ({"page_token": "hunter2"}, "hunter2"),
        ({"url": Secret("hunter2")}, "hunter2"),
        ({"inner": {"api_key": "hunter2", "urls": ["https://n.example/hunter2"]}}, "hunter2"),
    ],
)
def test_a_line_holds_no_secret(fields, hidden, lines):
    logger("watch").info("connected", **fields)
    assert hidden not in json.dumps(lines())
    assert lines()[0]["event"] == "connected"


def test_a_failure_of_a_library_comes_out_as_json_without_secrets(lines):
    def connect():
        raise OSError("no route to postgresql://u:hunter2@db")

    try:
        connect()
    except OSError:
        logging.getLogger("some.library").exception("lost")
    (line,) = lines()
    assert line["room"] == "some.library"
    assert "OSError" in line["exception"]
    assert "hunter2" not in json.dumps(line)


def test_lines_below_the_level_are_not_written(lines):
    logger("watch").debug("tick")
    logging.getLogger("aiokafka").info("chatter")
    assert lines() == []
