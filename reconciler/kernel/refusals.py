"""What a person can mend: bad settings, bad arguments, a broker that is set up otherwise."""

from __future__ import annotations


class Refusal(Exception):
    """The command line says this in one sentence, without a traceback, and exits with 2.

    Rooms derive from it for what the one who started the process can put right.
    """


class TakenOver(Refusal):
    """A younger process does this one's work. It exits with 3, so that nobody starts it again."""
