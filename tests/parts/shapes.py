"""The shape of a node's answer: which keys, and what kind of value behind each. Values do not count."""

from __future__ import annotations

import re
from typing import Any

Shape = Any

#: Words of a signature are written as quantities: one in 256 has a leading zero byte less.
_QUANTITIES = {"r", "s"}
_BY_LENGTH = {18: "8 bytes", 42: "20 bytes", 66: "32 bytes", 514: "256 bytes"}


def shape_of(value: Any) -> Shape:
    """Give a shape: text for a leaf, a dict of key -> set of leaf shapes or shape, a list of one.

    Rows of a list are laid over each other; a key that some rows lack ends in `?`.
    """
    if isinstance(value, dict):
        return {
            key: "quantity" if key in _QUANTITIES and isinstance(one, str) else shape_of(one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_laid_over([shape_of(row) for row in value])] if value else []
    return _leaf(value)


def _leaf(value: Any) -> str:
    if not isinstance(value, str):
        return type(value).__name__
    if re.fullmatch(r"0x[0-9a-f]*", value):
        return _BY_LENGTH.get(len(value), "hex")
    return "text"


def _laid_over(rows: list[Shape]) -> Shape:
    if all(isinstance(row, dict) for row in rows):
        keys = {key for row in rows for key in row}
        return {
            key + ("" if all(key in row for row in rows) else "?"): _laid_over(
                [row[key] for row in rows if key in row]
            )
            for key in sorted(keys)
        }
    if all(isinstance(row, list) for row in rows):
        inner = [one for row in rows for one in row]
        return [_laid_over(inner)] if inner else []
    return "|".join(sorted({part for row in rows for part in str(row).split("|")}))


def differences(ours: Shape, theirs: Shape, path: str = "") -> list[str]:
    """Name where two shapes part, one sentence a place."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        mine = {key.rstrip("?"): one for key, one in ours.items()}
        other = {key.rstrip("?"): one for key, one in theirs.items()}
        for key in sorted(mine.keys() | other.keys()):
            place = f"{path}.{key}"
            if key not in mine:
                found.append(f"{place}: missing")
            elif key not in other:
                found.append(f"{place}: more")
            else:
                found += differences(mine[key], other[key], place)
        return found
    if isinstance(ours, list) and isinstance(theirs, list):
        both = bool(ours and theirs)
        return differences(ours[0], theirs[0], f"{path}[]") if both else []
    if isinstance(ours, str) and isinstance(theirs, str):
        fits = set(ours.split("|")) <= set(theirs.split("|")) or "hex" in (ours, theirs)
        return [] if fits else [f"{path}: {ours} and not {theirs}"]
    return [f"{path}: {ours} and not {theirs}"]
