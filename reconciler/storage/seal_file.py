"""Seals outside the database: a file to which they are only ever appended, one a line.

Whoever can rewrite the database must not be able to rewrite this: put it on another machine, or on
storage that takes no changes. Several processes may write one file; each line is whole or gone.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Raw

from reconciler.storage.seals import SealRow, read_body
from schemas.values import Message

_BLOCK_BYTES: Final = 65_536


class SealFileError(Exception):
    """The file cannot be read or written, or tells of other seals than the database."""


class SealLine(Message, frozen=True):
    """A seal as the file has it. `body` are the bytes that were hashed."""

    number: int
    hash: str
    signature: str
    body: Raw


_encoder: Final = msgspec.json.Encoder()
_decode: Final = msgspec.json.Decoder(SealLine).decode


def append_seals(path: Path, seals: Sequence[SealRow]) -> None:
    """Append seals that follow the file's last one; those that it has are left out.

    On disk when it returns. A line that a crash has cut is removed: its seal comes whole.

    **Raises**: `SealFileError` when the file ends with another seal than the database has.
    """
    try:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            last = _last_line(file)
            for seal in seals:
                _check_follows(path, last, seal)
                if last is None or seal.number > last.number:
                    file.write(_encoder.encode(_line(seal)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        message = f"{path}: {error.strerror}"
        raise SealFileError(message) from error


def last_published(path: Path) -> int:
    """Give the number of the file's last seal, 0 for a file that is empty or not there."""
    last = last_line(path)
    return 0 if last is None else last.number


def last_line(path: Path) -> SealLine | None:
    """Give the file's last seal; None for a file that is empty or not there."""
    try:
        with path.open("rb") as file:
            return next(_lines_from_the_end(file), None)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{path}: {error.strerror}"
        raise SealFileError(message) from error


def published_seals(path: Path) -> Iterator[SealLine]:
    """Give every seal of a file, oldest first. **Raises**: `SealFileError` with the line's number."""
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                try:
                    yield _decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    message = f"{path}, line {number}: {error}"
                    raise SealFileError(message) from error
    except OSError as error:
        message = f"{path}: {error.strerror}"
        raise SealFileError(message) from error


def _line(seal: SealRow) -> SealLine:
    return SealLine(
        number=seal.number,
        hash=seal.hash.hex(),
        signature=seal.signature.hex(),
        body=Raw(seal.body),
    )


def _check_follows(path: Path, last: SealLine | None, seal: SealRow) -> None:
    """Refuse to write behind a seal that the database no longer has: somebody must look first."""
    if last is None or seal.number != last.number + 1:
        return
    previous = read_body(seal.body).previous
    if previous != last.hash:
        message = (
            f"{path} ends with seal {last.number} {last.hash[:16]}…, and seal {seal.number} of the "
            f"database follows {previous[:16]}…"
        )
        raise SealFileError(message)


def _last_line(file: BinaryIO) -> SealLine | None:
    """Read the last seal of a file that is open for appending, and remove what a crash has cut."""
    end = file.seek(0, os.SEEK_END)
    whole = _end_of_whole_lines(file, end)
    if whole < end:
        file.truncate(whole)
    file.seek(0)
    return next(_lines_from_the_end(file), None)


def _end_of_whole_lines(file: BinaryIO, end: int) -> int:
    position = end
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        file.seek(start)
        block = file.read(position - start)
        found = block.rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


def _lines_from_the_end(file: BinaryIO) -> Iterator[SealLine]:
    """Give the last whole line; the file may be large, and only its end is read."""
    end = _end_of_whole_lines(file, file.seek(0, os.SEEK_END))
    if end == 0:
        return
    start = _end_of_whole_lines(file, end - 1)
    file.seek(start)
    try:
        yield _decode(file.read(end - start))
    except msgspec.DecodeError as error:
        message = f"its last line is no seal: {error}"
        raise SealFileError(message) from error
