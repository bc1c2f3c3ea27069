"""Merged mining (AuxPoW): a block whose work was done on another chain's block.

Pure. Behind such a header stand the parent's coinbase, its way up the parent's merkle tree, our block's
way up a tree of chains whose root is written in that coinbase, and the parent's header, which has the
work. Each link is checked, so that no work counts twice or for another block.

**Source**: Dogecoin Core auxpow.cpp (129e318), auxpow.h, dogecoin.cpp, primitives/pureheader.h.
"""

from __future__ import annotations

from typing import Final

from chains.errors import AnswerRefused
from chains.utxo.header import HEADER_BYTES, RawHeader, read_header, require_work
from chains.utxo.merkle import HASH_BYTES, double_sha256, root_by_branch
from chains.utxo.rules import BlockRules
from chains.utxo.sizes import read_size
from chains.utxo.transactions import (
    AMOUNT_BYTES,
    LOCK_TIME_BYTES,
    OUTPOINT_BYTES,
    VERSION_BYTES,
    past_inputs,
    past_witnesses,
)

_MERGED: Final = 0x100
_CHAIN_ID_BITS: Final = 16
_MAGIC: Final = b"\xfa\xbemm"
#: A tree of chains has at most 2^30 leaves; a merkle tree of transactions has no more either.
_BRANCH_MAX: Final = 30
#: How far behind the script's beginning a root without the magic may stand.
_EARLY: Final = 20
_INDEX_BYTES: Final = 4
_SEGWIT: Final = b"\x00\x01"
_MASK: Final = 0xFFFF_FFFF


def require_chain_id(header: RawHeader, rules: BlockRules) -> None:
    """Refuse a header of another chain; the first versions name none. **Raises**: `AnswerRefused`."""
    named = header.version >> _CHAIN_ID_BITS
    if rules.auxpow_strict and header.version not in {1, 2} and named != rules.auxpow_chain_id:
        message = f"block {header.hash} has version {header.version:#x}, of another chain"
        raise AnswerRefused(message)


def is_merged(header: RawHeader) -> bool:
    """Tell whether the work stands behind the header."""
    return bool(header.version & _MERGED)


def past_merged_work(data: bytes, at: int, header: RawHeader, rules: BlockRules) -> int:
    """Check the parent's work for our block; give the place behind it.

    **Raises**: `AnswerRefused`; IndexError where the bytes end too early.
    """
    coinbase_end, leaf, script = _coinbase(data, at)
    branch, after = _branch(data, coinbase_end + HASH_BYTES)
    index, after = _index(data, after)
    chain_branch, after = _branch(data, after)
    chain_index, after = _index(data, after)
    worked = data[after : after + HEADER_BYTES]
    parent = read_header(worked)
    if index != 0 or root_by_branch(leaf, branch, 0) != parent.merkle_root:
        message = f"the parent's coinbase of block {header.hash} is not in the parent {parent.hash}"
        raise AnswerRefused(message)
    chain_id = header.version >> _CHAIN_ID_BITS
    if rules.auxpow_strict and parent.version >> _CHAIN_ID_BITS == chain_id:
        message = f"the parent {parent.hash} of block {header.hash} is of the same chain"
        raise AnswerRefused(message)
    own = bytes.fromhex(header.hash)[::-1]
    committed = root_by_branch(own, chain_branch, chain_index)[::-1]
    slot = _committed_slot(script, committed, len(chain_branch), chain_id)
    if slot != chain_index:
        message = f"the parent {parent.hash} does not commit to block {header.hash}"
        raise AnswerRefused(message)
    require_work(worked, header.bits, rules)
    return after + HEADER_BYTES


def _coinbase(data: bytes, at: int) -> tuple[int, bytes, bytes]:
    """Give the end of the parent's coinbase, its id, and the script of its first input.

    The parent's rules are not ours: it may have witnesses, any amounts, and no outputs (a node's own
    miner makes such ones in tests).
    """
    inputs_at = at + VERSION_BYTES
    marked = data[inputs_at : inputs_at + 2] == _SEGWIT
    inputs_at += 2 * marked
    inputs, outputs_at = past_inputs(data, inputs_at)
    _, first_at = read_size(data, inputs_at)
    length, script_at = read_size(data, first_at + OUTPOINT_BYTES)
    outputs, stripped_end = read_size(data, outputs_at)
    for _ in range(outputs):
        script, stripped_end = read_size(data, stripped_end + AMOUNT_BYTES)
        stripped_end += script
    lock_at = past_witnesses(data, stripped_end, inputs) if marked else stripped_end
    end = lock_at + LOCK_TIME_BYTES
    stripped = data[at : at + VERSION_BYTES] + data[inputs_at:stripped_end] + data[lock_at:end]
    return end, double_sha256(stripped), data[script_at : script_at + length]


def _branch(data: bytes, at: int) -> tuple[list[bytes], int]:
    count, at = read_size(data, at)
    if count > _BRANCH_MAX:
        message = f"a merkle branch of {count} hashes is too long"
        raise AnswerRefused(message)
    end = at + count * HASH_BYTES
    return [data[place : place + HASH_BYTES] for place in range(at, end, HASH_BYTES)], end


def _index(data: bytes, at: int) -> tuple[int, int]:
    end = at + _INDEX_BYTES
    return int.from_bytes(data[at:end], "little"), end


def _committed_slot(script: bytes, root: bytes, height: int, chain_id: int) -> int | None:
    """Give the slot in the tree of chains that a coinbase keeps for us; None where it commits to
    another root, or in a way that would let one work count twice.
    """
    magic_at, root_at = script.find(_MAGIC), script.find(root)
    told = script[root_at + HASH_BYTES : root_at + HASH_BYTES + 2 * _INDEX_BYTES]
    if root_at < 0 or len(told) < 2 * _INDEX_BYTES:
        return None
    if magic_at < 0:
        alone = root_at <= _EARLY
    else:
        alone = script.rfind(_MAGIC) == magic_at == root_at - len(_MAGIC)
    size, nonce = (int.from_bytes(half, "little") for half in (told[:4], told[4:]))
    if not alone or size != 1 << height:
        return None
    mixed = (nonce * 1_103_515_245 + 12_345 + chain_id) & _MASK
    return ((mixed * 1_103_515_245 + 12_345) & _MASK) % size
