"""Ends or stops a real process of ours at a named point of its code, the first time it gets there.

`python -m tests.parts.dying POINT SIGNAL COMMAND…` is `reconciler COMMAND…` but for that.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Point(Struct, frozen=True):
    """Before or after a call. `named`: only where the call has this among its arguments."""

    when: str
    module: str
    owner: str
    function: str
    named: str = ""


_WATCHER = ("reconciler.watch.watcher", "Watcher")
_LANE = ("reconciler.intake.lane", "LaneWorker")
_RELAY = ("reconciler.relay.relay", "Relay")
_STORE = ("reconciler.storage.unit_of_work", "Store")
_KAFKA = ("reconciler.stream.kafka_writer", "KafkaWriter")

POINTS = {
    "watch: nothing read yet": Point("before", *_WATCHER, "_watch"),
    "watch: a step is read and not sent": Point("before", *_WATCHER, "_send"),
    "watch: sent and not committed": Point("before", *_KAFKA, "_commit"),
    "watch: committed and not known": Point("after", *_KAFKA, "_commit"),
    "intake: a batch is read and not applied": Point("before", *_LANE, "_apply"),
    "intake: facts are written and not committed": Point("inside", *_STORE, "run", "apply_facts"),
    "intake: facts are committed and the reader has not moved": Point(
        "after", *_STORE, "run", "apply_facts"
    ),
    "intake: commands are written and not committed": Point(
        "inside", *_STORE, "run", "apply_commands"
    ),
    "intake: commands are committed and the reader has not moved": Point(
        "after", *_STORE, "run", "apply_commands"
    ),
    "intake: orders are judged and not committed": Point("inside", *_STORE, "run", "sweep_lane"),
    "relay: the shard is taken and nothing settled": Point("before", *_RELAY, "_settle"),
    "relay: a batch is numbered and not committed": Point("inside", *_STORE, "run", "number_batch"),
    "relay: a batch is numbered and not sent": Point("before", *_RELAY, "_send"),
    "relay: sent and not committed": Point("before", *_KAFKA, "_commit"),
    "relay: committed and not known": Point("after", *_KAFKA, "_commit"),
    "relay: sent and not marked": Point("before", *_RELAY, "_mark"),
    "relay: marked and not committed": Point("inside", *_STORE, "run", "mark_sent"),
    "relay: marked": Point("after", *_RELAY, "_mark"),
}


def points_of(room: str, *, of_kafka: bool = False) -> list[str]:
    """Name a process's points: those inside of an append to Kafka, or all others."""
    return [
        name
        for name, point in POINTS.items()
        if name.startswith(f"{room}: ") and (point.owner == "KafkaWriter") == of_kafka
    ]


def arm(point: Point, number: signal.Signals) -> None:
    """Let this process meet its end there."""
    owner = getattr(importlib.import_module(point.module), point.owner)
    call = getattr(owner, point.function)
    struck: list[bool] = []

    def strike() -> None:
        if not struck:
            struck.append(True)
            os.kill(os.getpid(), number)

    async def struck_before(self: Any, *arguments: Any, **named: Any) -> Any:
        strike()
        return await call(self, *arguments, **named)

    async def struck_after(self: Any, *arguments: Any, **named: Any) -> Any:
        result = await call(self, *arguments, **named)
        if not point.named or named.get("name") == point.named:
            strike()
        return result

    async def struck_inside(self: Any, use_case: Callable[..., Any], **named: Any) -> Any:
        async def until_the_commit(work: Any) -> Any:
            result = await use_case(work)
            # What is done is done, a sweep with nothing due included; nothing is committed.
            if named.get("name") == point.named:
                strike()
            return result

        return await call(self, until_the_commit, **named)

    ways = {"before": struck_before, "after": struck_after, "inside": struck_inside}
    setattr(owner, point.function, ways[point.when])


def main() -> None:
    from reconciler.cli import main as command

    name, number, *arguments = sys.argv[1:]
    arm(POINTS[name], signal.Signals[number])
    sys.argv = ["reconciler", *arguments]
    command()


if __name__ == "__main__":
    main()
