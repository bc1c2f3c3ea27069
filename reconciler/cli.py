"""The command `reconciler`: which commands there are, and how a failure is told.

Commands are imported when they are called, so that `--help` does not wait for databases and nodes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Final

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from chains.errors import ChainError
from reconciler.commands.common import (
    BROKEN,
    DONE,
    INTERRUPTED,
    NOT_WELL,
    REFUSED,
    TAKEN_OVER,
    say,
    words,
)
from reconciler.kernel.checks import InvariantBroken
from reconciler.kernel.refusals import Refusal, TakenOver
from reconciler.observability.stopping import leaves
from reconciler.stream.promise import Fenced, StreamError, TopicsDiffer

#: Command: what it does, and the function that does it. In the order in which help shows them.
COMMANDS: Final = {
    "demo": (
        "Show ten payments side by side, and two more on Litecoin where it is installed.",
        "reconciler.commands.demo:app",
    ),
    "migrate": (
        "Make the tables and topics that this version needs.",
        "reconciler.commands.migrate:migrate_all",
    ),
    "doctor": (
        "Check settings, database, log, nodes and clock; change nothing.",
        "reconciler.commands.doctor:doctor",
    ),
    "run": (
        "Run everything in one process: watchers, intake and relay, until stopped.",
        "reconciler.commands.run:run_all",
    ),
    "watch": (
        "Follow one chain, until stopped; or have blocks read again.",
        "reconciler.commands.watch:watch",
    ),
    "intake": (
        "Apply facts and commands to orders, until stopped.",
        "reconciler.commands.intake:intake",
    ),
    "relay": (
        "Send events, exceptions and requests, until stopped.",
        "reconciler.commands.relay:relay",
    ),
    "order": (
        "Place an order, claim, cancel or amend one, as a shop does.",
        "reconciler.commands.order:app",
    ),
    "decide": (
        "Tell what a person decided.",
        "reconciler.commands.decide:app",
    ),
    "export": (
        "Write orders, transfers or exceptions as CSV or JSON lines.",
        "reconciler.commands.export:export",
    ),
    "audit": (
        "Look a second time at what was decided.",
        "reconciler.commands.audit:app",
    ),
    "replay": (
        "Apply recorded messages in an empty database in memory; print what comes out.",
        "reconciler.commands.replay:replay",
    ),
    "inspect": (
        "Tell what a block pays, from a file.",
        "reconciler.commands.inspect:inspect",
    ),
}

HELP: Final = """
Pairs on-chain transfers with orders and emits the payment events that unlock provisioning.

Exit codes:
  0    done
  1    not well, refused, not answered in time, or a part could not be reached
  2    settings or arguments are to be mended: see standard error
  3    a younger process has taken over; do not start this one again
  70   a bug: nothing was decided
  130  interrupted
"""

app = App(
    name="reconciler",
    help=HELP.strip(),
    help_format="plaintext",
    version=lambda: metadata.version("crypto-payment-reconciler"),
    default_parameter=Parameter(negative=()),
    print_error=False,
    exit_on_error=False,
    result_action="return_value",
)
for _order, (_name, (_help, _place)) in enumerate(COMMANDS.items()):
    app.command(_place, name=_name, help=_help, sort_key=_order)


def main() -> None:
    """Run the command line and end the process with its exit code."""
    try:
        code = run(sys.argv[1:])
    except Exception:  # noqa: BLE001 - the process's outer loop: what nobody foresaw is a bug
        traceback.print_exc()
        code = BROKEN
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command. Failures that a person can mend are one sentence, without a traceback."""
    asked = _as_meant(arguments)
    try:
        with _in_its_own_words(asked):
            result = app(asked)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Who read our output has seen enough. What Python still holds has nowhere to go.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        return DONE
    except CycloptsError as error:
        say(f"reconciler: {_sentence(error)}; see reconciler {_command_of(asked)}--help")
        return REFUSED
    except InvariantBroken as error:
        say(f"reconciler: this is a bug, nothing was decided: {error}")
        return BROKEN
    except Exception as error:  # noqa: BLE001 - told below, or raised again
        return _tell(leaves(error))
    return result if isinstance(result, int) else DONE


def _as_meant(arguments: Sequence[str]) -> list[str]:
    """Read `help` and `help COMMAND` as what they are elsewhere."""
    if arguments and arguments[0] == "help":
        return [*arguments[1:], "--help"]
    return list(arguments)


@contextlib.contextmanager
def _in_its_own_words(arguments: Sequence[str]) -> Iterator[None]:
    """Let a command that was named explain itself at length; the list has one line for each.

    It is imported anyway when it is named.
    """
    name = arguments[0] if arguments else ""
    if name not in COMMANDS:
        yield
        return
    command = app[name]
    command.help_format = "markdown"  # the lines of a docstring are not those of a terminal
    if command.default_command is not None:
        command.help = None
    try:
        yield
    finally:
        command.help = COMMANDS[name][0]


def _sentence(error: CycloptsError) -> str:
    """Say what is wrong with the arguments."""
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"nothing is expected where {' '.join(error.unused_tokens)!r} stands"
    said = words(error)
    return said if said.endswith("...") else said.removesuffix(".")


def _command_of(arguments: Sequence[str]) -> str:
    """Name the command that was meant, as far as it is one, with a space behind it."""
    known, place = "", app
    for argument in arguments:
        if argument.startswith("-") or argument not in place:
            break
        known, place = f"{known}{argument} ", place[argument]
    return known


def _tell(failures: list[BaseException]) -> int:
    """Say what failed, and give the exit code of the gravest; what nobody foresaw is raised."""
    unforeseen = [failure for failure in failures if not _is_foreseen(failure)]
    if unforeseen:
        raise unforeseen[0]
    for failure in failures:
        say(f"reconciler: {words(failure)}")
    return max(_code_of(failure) for failure in failures)


def _is_foreseen(failure: BaseException) -> bool:
    """Tell what the outside did: arguments, settings, nodes, the log, the database, files."""
    foreseen = isinstance(failure, CycloptsError | Refusal | StreamError | ChainError | OSError)
    if foreseen or "sqlalchemy" not in sys.modules:
        return foreseen
    from reconciler.storage.engine import DatabaseError

    return isinstance(failure, DatabaseError)


def _code_of(failure: BaseException) -> int:
    from chains.errors import Fatal
    from reconciler.storage.asking import DatabaseUnreachable

    if isinstance(failure, Fenced | TakenOver):
        return TAKEN_OVER
    if isinstance(failure, DatabaseUnreachable):
        return NOT_WELL
    if isinstance(failure, Refusal | CycloptsError | Fatal | TopicsDiffer):
        return REFUSED
    return NOT_WELL
