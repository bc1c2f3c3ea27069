"""Blocks spoilt at random: whatever is read of them must be true, and nothing else than a refusal may come.

A few thousand run with the suite. A million by hand: `python -m tests.parts.utxo_fuzz 1000000 [SEED]`.
A failing case is told with its seed and number, and made again by `case_of`.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from chains.errors import AnswerRefused
from chains.utxo.block import RawBlock, read_block
from chains.utxo.node_block import read_node_block
from chains.utxo.rules import BlockRules
from tests.parts.utxo_blocks import Everything, made_blocks, work_on
from tests.parts.utxo_reference import Block, Unreadable, read_reference, root_of

Seeds = Sequence[tuple[BlockRules, bytes]]
EDGES = (0, 1, 2, 8, 9, 0x7F, 0x80, 0xFC, 0xFD, 0xFE, 0xFF)
#: Processor time of one small block: some hundred times what the slowest honest one takes.
SECONDS_MAX = 1.0


@dataclass
class Told:
    """What came out of a run."""

    cases: int = 0
    read: int = 0
    slowest_s: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)


def case_of(seeds: Seeds, seed: int, case: int) -> tuple[BlockRules, bytes]:
    """Make one case anew."""
    lot = random.Random(f"{seed}/{case}")
    rules, data = lot.choice(seeds)
    for _ in range(lot.choice((1, 1, 1, 2, 4))):
        data = spoil(data, lot.choice(seeds)[1], lot)
    return rules, mended(data, rules) if lot.random() < 0.7 else data


def spoil(data: bytes, other: bytes, lot: random.Random) -> bytes:
    at = lot.randrange(len(data) + 1)
    end = min(len(data), at + lot.choice((1, 1, 2, 4, 32, 64, 200)))
    match lot.randrange(8):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:end] + data[at:]
        case 3:
            begin = lot.randrange(len(other))
            return data[:at] + other[begin : begin + end - at] + data[end:]
        case 4:
            return data[:at] + lot.randbytes(lot.choice((1, 2, 8))) + data[at:]
        case 5:
            return data[:at] + b"\xfd\xfe\xff"[lot.randrange(3) :][:1] + data[at:]
        case 6:
            return data[:at] + bytes([lot.choice(EDGES)]) + data[at + 1 :]
    flipped = bytearray(data or b"\0")
    flipped[at % len(flipped)] ^= 1 << lot.randrange(8)
    return bytes(flipped)


def mended(data: bytes, rules: BlockRules) -> bytes:
    """Give a spoilt block the root and the work that its transactions ask for, where it has any."""
    try:
        found = read_reference(data, merged=rules.auxpow_chain_id is not None)
    except (Unreadable, RecursionError):
        return data
    if not found.txs or found.before:
        return data
    return work_on(data[:36] + found.root() + data[68:80]) + data[80:]


def look(rules: BlockRules, data: bytes, told: Told) -> None:
    """Read one case. **Raises**: AssertionError where what was read is not in the bytes."""
    started = time.process_time()
    try:
        found = read_block(data, rules, Everything())
    except AnswerRefused as refused:
        told.reasons[" ".join(word for word in str(refused).split() if word.isalpha())] += 1
    else:
        told.read += 1
        require_true(found, read_reference(data, merged=rules.auxpow_chain_id is not None), data)
    told.cases += 1
    took = time.process_time() - started
    told.slowest_s = max(told.slowest_s, took)
    assert took < SECONDS_MAX


def require_true(found: RawBlock, reference: Block, data: bytes) -> None:
    """Hold what was read against the obvious reader, and that one against the bytes."""
    txids = [tx.txid() for tx in reference.txs]
    shown = [txid[::-1].hex() for txid in txids]
    assert reference.full() == data
    assert root_of(txids) == found.header.merkle_root == data[36:68]
    assert found.txids == txids
    assert [(one.txid, one.index, one.amount, one.script, one.coinbase) for one in found.paid] == [
        (shown[place], index, out.amount, out.script, place == 0)
        for place, tx in enumerate(reference.txs)
        for index, out in enumerate(tx.outputs)
    ]
    assert dict(found.spent) == {
        f"{one.outpoint[:32][::-1].hex()}:{int.from_bytes(one.outpoint[32:], 'little')}": spender
        for tx, spender in zip(reference.txs[1:], shown[1:], strict=True)
        for one in tx.inputs
    }
    assert found.amount == sum(out.amount for tx in reference.txs for out in tx.outputs)


def spoil_text(text: bytes, lot: random.Random) -> bytes:
    """Spoil a node's JSON: its letters, its numbers, its pieces."""
    for _ in range(lot.choice((1, 1, 2))):
        at = lot.randrange(len(text))
        piece = lot.choice((b"", b"0", b"9", b"-", b"e-9", b'"', b"}", b"null", text[at : at + 40]))
        text = text[:at] + piece + text[at + lot.choice((0, 1, 1, len(piece))) :]
    return text


def look_at_text(rules: BlockRules, text: bytes, honest: RawBlock) -> bool:
    """Read a spoilt JSON: it is refused, or says what the honest one said."""
    try:
        found, _ = read_node_block(text, rules, Everything())
    except AnswerRefused:
        return False
    assert (found.txids, found.paid, found.header) == (honest.txids, honest.paid, honest.header)
    return True


def run(seeds: Seeds, cases: int, seed: int) -> Told:
    """Look at so many cases."""
    told = Told()
    for case in range(cases):
        rules, data = case_of(seeds, seed, case)
        try:
            look(rules, data, told)
        except BaseException:
            print(f"seed {seed} case {case} {rules.coin}: {data.hex()}", file=sys.stderr)
            raise
    return told


def main() -> None:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    told = run(made_blocks(), cases, seed)
    print(
        f"{told.cases} cases, {told.read} read, slowest {told.slowest_s * 1e3:.1f} ms of processor"
    )
    for reason, count in told.reasons.most_common():
        print(f"{count:9} {reason}")


if __name__ == "__main__":
    main()
