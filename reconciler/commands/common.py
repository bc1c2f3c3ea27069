"""What several commands share: the settings option, output for machines and for people."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from reconciler.kernel.refusals import Refusal
from schemas.caip import CaipError, ChainName, parse_chain

#: The command did what it was asked.
DONE: Final = 0
#: It looked, and what it found is not well.
NOT_WELL: Final = 1
#: Settings or arguments are to be mended; one sentence on standard error says which.
REFUSED: Final = 2
#: A younger process has taken over; do not start this one again.
TAKEN_OVER: Final = 3
#: A bug: the program contradicts itself.
BROKEN: Final = 70
#: Ended by Ctrl-C before it could stop cleanly.
INTERRUPTED: Final = 130

ConfigFile = Annotated[
    Path,
    Parameter(
        name=["--config", "-c"],
        env_var="RECONCILER_CONFIG",
        help="The settings file (deploy/settings.example.toml explains every setting).",
    ),
]
DEFAULT_CONFIG: Final = Path("reconciler.toml")

HealthPort = Annotated[
    int | None,
    Parameter(
        name="--port",
        validator=Number(gte=0, lte=65_535),
        help="Answer /healthz, /readyz and /metrics here, instead of server.port; 0 answers nowhere.",
    ),
]


class BadArgument(Refusal):
    """An argument cannot be meant; the sentence says what was expected."""


def read_chain(text: str) -> ChainName:
    """Read a chain as a person types it. **Raises**: `BadArgument`."""
    try:
        return parse_chain(text)
    except CaipError as error:
        raise BadArgument(str(error)) from None


def configured_chain(text: str, known: Collection[str]) -> ChainName:
    """Read a chain that the settings have. **Raises**: `BadArgument`."""
    name = read_chain(text)
    if name not in known:
        raise BadArgument(
            f"expected one of the configured chains ({', '.join(known)}), found {text}"
        )
    return name


def words(error: BaseException) -> str:
    """Say a failure on one line; the statement that a database refused helps nobody."""
    text = str(error).partition("[SQL:")[0]
    return " ".join(text.split()) or type(error).__name__


def say(sentence: str) -> None:
    """Tell a person; standard output stays for machines."""
    sys.stderr.write(sentence + "\n")


def put(line: str) -> None:
    """Write a line for machines."""
    sys.stdout.write(line + "\n")
