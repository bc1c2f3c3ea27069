"""Keeps what the Kafka client says within bounds: while a cluster is down it repeats itself by the second.

Reads and changes records of its loggers on their way to the handler, and no others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

#: The client's own loggers.
CLIENT: Final = "aiokafka"
#: What is over sooner is nobody's trouble: a broker that has just started answers a little later.
TROUBLE_AFTER_S: Final = 5.0
#: Without a word of trouble for so long it is over, and the next one begins anew.
TROUBLE_OVER_AFTER_S: Final = 15.0
#: The same is said again at most so often.
SAID_EVERY_S: Final = 60.0
#: More different sentences are not told apart.
SENTENCES_MAX: Final = 200

#: How the client begins what it says of a cluster that does not answer, or not yet. Source: aiokafka
#: 0.14.0, `client.py`, `conn.py`, `consumer/fetcher.py`, `consumer/group_coordinator.py`,
#: `producer/sender.py`.
_TROUBLE: Final = (
    "Unable connect",
    "Unable to update metadata",
    "Unable to request metadata",
    "Failed fetch messages",
    "Failed fetch offsets",
    "Group Coordinator Request failed",
    "FindCoordinator Request failed",
    "Marking the coordinator dead",
    "Heartbeat",
    "Error sending",
    "Cannot send",
    "Could not send",
    "LeaveGroup request failed",
)


@dataclass
class _Said:
    """How often a sentence was wanted since it was last said."""

    first_s: float
    last_s: float
    said_s: float | None = None
    kept_back: int = 0


class WithinBounds(logging.Filter):
    """Says of a cluster that does not answer one sentence a minute, once it is sure; and lets every
    other warning of the client pass once a minute, with how often it was meant.
    """

    def __init__(self) -> None:
        super().__init__()
        self._trouble: _Said | None = None
        self._said: dict[tuple[str, str], _Said] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the record is to be written; it may say more than it did."""
        if record.name.partition(".")[0] != CLIENT or record.levelno < logging.WARNING:
            return True
        if str(record.msg).startswith(_TROUBLE):
            return self._of_trouble(record)
        return self._of_others(record)

    def _of_trouble(self, record: logging.LogRecord) -> bool:
        now_s, trouble = record.created, self._trouble
        if trouble is None or now_s > trouble.last_s + TROUBLE_OVER_AFTER_S:
            trouble = self._trouble = _Said(first_s=now_s, last_s=now_s)
        trouble.last_s = now_s
        trouble.kept_back += 1
        since_s = now_s - trouble.first_s
        if since_s < TROUBLE_AFTER_S or _was_just_said(trouble, now_s):
            return False
        _say(
            record,
            f"Kafka cannot be reached since {since_s:.0f} s, tried {trouble.kept_back} times "
            f"since this was last said; the last time: {record.getMessage()}",
        )
        trouble.said_s, trouble.kept_back = now_s, 0
        return True

    def _of_others(self, record: logging.LogRecord) -> bool:
        now_s, key = record.created, (record.name, str(record.msg))
        if key not in self._said and len(self._said) >= SENTENCES_MAX:
            key = ("", "")
        said = self._said.setdefault(key, _Said(first_s=now_s, last_s=now_s))
        if _was_just_said(said, now_s):
            said.kept_back += 1
            return False
        if said.kept_back:
            _say(record, f"{record.getMessage()} (and {said.kept_back} times since this was said)")
        said.said_s, said.kept_back = now_s, 0
        return True


def _was_just_said(said: _Said, now_s: float) -> bool:
    return said.said_s is not None and now_s < said.said_s + SAID_EVERY_S


def _say(record: logging.LogRecord, sentence: str) -> None:
    record.msg, record.args = sentence, ()
