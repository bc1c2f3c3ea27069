"""A command was refused: an expected outcome with a code, told to whoever sent it."""

from __future__ import annotations

from schemas.codes import Rejection, sentences


class RefusedError(Exception):
    """The command changes nothing. `code` is one of `Rejection`; the text says what was found."""

    def __init__(self, code: Rejection, detail: str = "") -> None:
        super().__init__(sentences(code, detail))
        self.code = code
