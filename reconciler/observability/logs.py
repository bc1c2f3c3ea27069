"""Logs as JSON, one line a unit of work. A line never holds a secret.

Libraries that log the standard way come out in the same form.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

import msgspec
import structlog

from reconciler.observability.repeats import WithinBounds

Logger = structlog.typing.FilteringBoundLogger

#: What stands between `://` and `@`, and what follows a host where providers put their keys.
_CREDENTIALS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s/@]+@", re.IGNORECASE)
_NODE_URL = re.compile(r"(?P<host>(?:https?|wss?)://[^\s/'\"]+)/[^\s'\"]*", re.IGNORECASE)
_SECRET_KEYS: Final = ("password", "secret", "token", "api_key", "authorization", "xprv")
_HIDDEN: Final = "…"

#: These say much and nothing of ours; their warnings are kept.
_QUIET: Final = ("aiokafka", "kafka", "aiohttp.access", "asyncio", "sqlalchemy", "alembic", "web3")


def set_up_logs(level: str = "info", *, stream: TextIO | None = None) -> None:
    """Send every log of the process to one place. May be called again, with another level."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared[:-1], _with_logger_name, hide_secrets],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _as_json],
        )
    )
    handler.addFilter(WithinBounds())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def logger(room: str) -> Logger:
    """Give a room's logger; every line of it names the room."""
    # Not bound here: rooms ask for theirs when they are imported, before logs are set up.
    made: Logger = structlog.get_logger(room=room)
    return made


@contextmanager
def unit_of_work(log: Logger, event: str, **fields: object) -> Iterator[dict[str, object]]:
    """Write one line when a unit of work ends, with all that it learned on the way.

    Gives a dictionary to put findings into. A unit that fails is written as a warning, with what
    failed, and the failure goes on its way.
    """
    found: dict[str, object] = dict(fields)
    started = time.monotonic()
    try:
        yield found
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
        log.warning(event, outcome="failed", duration_ms=_since_ms(started), **found)
        raise
    log.info(event, outcome="done", duration_ms=_since_ms(started), **found)


def hide_secrets(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Take out of a line what nobody may read: by its key, and by its shape inside any text."""
    for key, value in line.items():
        line[key] = _HIDDEN if _is_secret(key) else _hidden_in(value)
    return line


def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in _SECRET_KEYS)


def _hidden_in(value: Any) -> Any:
    if isinstance(value, str):
        without = _CREDENTIALS.sub(rf"\g<scheme>{_HIDDEN}@", value)
        return _NODE_URL.sub(rf"\g<host>/{_HIDDEN}", without)
    if isinstance(value, Mapping):
        return {k: _HIDDEN if _is_secret(str(k)) else _hidden_in(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden_in(inner) for inner in value]
    return value


def _with_logger_name(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    record = line.get("_record")
    if isinstance(record, logging.LogRecord):
        line["room"] = record.name
    return line


def _as_json(_logger: object, _method: str, line: MutableMapping[str, Any]) -> str:
    return msgspec.json.encode(dict(line), enc_hook=lambda value: _hidden_in(str(value))).decode()


def _since_ms(started: float) -> int:
    return round((time.monotonic() - started) * 1_000)
