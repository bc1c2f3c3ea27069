"""Texts that are used and never shown."""

from __future__ import annotations


class Secret:
    """A text that no log, error or `repr` shows: URLs carry passwords and keys in their paths."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Give the text to what connects with it, and to nothing that writes."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))
