"""Invariants: what must be true if the program is right. They hold in optimised runs as well."""

from __future__ import annotations


class InvariantBroken(Exception):
    """The program contradicts itself. Nothing was decided; the process stops and says what it saw."""


def check(condition: object, sentence: str) -> None:
    """Go on only if the condition holds. **Raises**: `InvariantBroken` with the sentence."""
    if not condition:
        raise InvariantBroken(sentence)
