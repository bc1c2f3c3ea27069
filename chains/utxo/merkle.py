"""Hashes of transactions, and the tree over them.

Pure. Everything is in the order of the bytes on the wire; people see hashes turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from chains.errors import AnswerRefused

HASH_BYTES: Final = 32


def double_sha256(data: bytes) -> bytes:
    """Hash twice, as Bitcoin does."""
    return sha256(sha256(data).digest()).digest()


def shown(digest: bytes) -> str:
    """Write a hash as people see it."""
    return digest[::-1].hex()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Give the root over the ids of a block's transactions (at least one).

    **Raises**: `AnswerRefused` where two hashes side by side are equal: then the same root stands for
    a shorter list too, and a list with its tail said twice is no block (CVE-2012-2459).
    **Source**: Bitcoin Core consensus/merkle.cpp.
    """
    level = list(leaves)
    while len(level) > 1:
        above = []
        for left, right in zip(level[::2], level[1::2], strict=False):
            if left == right:
                message = f"{shown(left)} stands twice side by side in the merkle tree"
                raise AnswerRefused(message)
            above.append(sha256(sha256(left + right).digest()).digest())
        if len(level) % 2:
            above.append(double_sha256(level[-1] * 2))
        level = above
    return level[0]


def root_by_branch(leaf: bytes, branch: Sequence[bytes], index: int) -> bytes:
    """Give the root that a leaf, its place and the hashes beside its way up lead to."""
    found = leaf
    for beside in branch:
        found = double_sha256(beside + found if index & 1 else found + beside)
        index >>= 1
    return found
