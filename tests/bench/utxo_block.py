"""A Bitcoin block: its raw bytes to the transfers of 1,000 watched scripts, its merkle root checked.

Beside it, in the same run and on the same bytes: hashing every transaction's id and the tree over them
(the floor: bytes that are cut already), bitcoinlib and python-bitcoinlib, which are asked for the same
outputs and ids. The block is real and comes by path (`RECONCILER_CHAIN_DATA`). Run it as a script or by
`python -m tests.bench.utxo_block`.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

import bitcoin.core

from chains.utxo.address import address_of_script
from chains.utxo.block import read_block
from chains.utxo.merkle import double_sha256, merkle_root
from chains.utxo.networks import BITCOIN as NETWORK
from chains.utxo.pays import Telling, transfers_of
from chains.utxo.rules import BITCOIN
from chains.watched import Watched
from schemas.caip import AssetName
from schemas.values import BlockRef
from tests.bench.report import Row, show
from tests.parts.chain_data import chain_file
from tests.parts.utxo_blocks import Everything
from tests.parts.utxo_reference import read_reference

FILE = "bitcoin/block-702861.bin"
COIN = AssetName(f"{NETWORK.chain}/slip44:0")
WATCHED = 1_000
HITS = 50
ROUNDS = 31
ROUNDS_OF_PEERS = 3
BUDGET_MS = 25.0
BITCOINLIB_TIMES = 40
PYTHON_BITCOINLIB_TIMES = 5


def make_watched(data: bytes) -> Watched:
    """Make scripts that are ours: some that the block pays once, and many that it does not."""
    every = read_block(data, BITCOIN, Everything())
    times: dict[bytes, int] = {}
    for one in every.paid:
        times[one.script] = times.get(one.script, 0) + 1
    paid = sorted(
        script
        for script, count in times.items()
        if count == 1 and address_of_script(NETWORK, script) is not None
    )
    watched = Watched()
    for script in paid[:: len(paid) // HITS][:HITS]:
        watched.add(script)
    for number in range(WATCHED - HITS):
        watched.add(b"\x00\x14" + number.to_bytes(20, "big"))
    return watched


def ours(data: bytes, watched: Watched) -> int:
    """Do what a watcher does with the bytes of one block."""
    block = read_block(data, BITCOIN, watched)
    time_of = datetime.fromtimestamp(block.header.time_s, UTC)
    telling = Telling(
        network=NETWORK,
        asset=COIN,
        block=BlockRef(height=block.height or 0, hash=block.header.hash, time=time_of),
        seen_at=time_of,
        node="bench",
    )
    return len(transfers_of(block.paid, telling))


def hashing(stripped: list[bytes]) -> int:
    """Hash every id and the tree, and nothing else."""
    merkle_root([double_sha256(one) for one in stripped])
    return HITS


def with_bitcoinlib(data: bytes, watched: Watched) -> int:
    """Parse with bitcoinlib, and look for our scripts."""
    from bitcoinlib.blocks import Block

    block = Block.parse(data, parse_transactions=True)
    return sum(
        out.lock_script in watched for tx in block.transactions if tx.txid for out in tx.outputs
    )


def with_python_bitcoinlib(data: bytes, watched: Watched) -> int:
    """Parse with python-bitcoinlib, check its root, and look for our scripts."""
    block = bitcoin.core.CBlock.deserialize(data)
    found = sum(bytes(out.scriptPubKey) in watched for tx in block.vtx for out in tx.vout)
    if block.calc_merkle_root() != block.hashMerkleRoot:
        raise RuntimeError("another root")
    return found


def median_ms(run: Callable[[], int], rounds: int) -> float:
    """Measure a run, give the median, and require that it found the same."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        found = run()
        taken.append(time.perf_counter() - started)
        if found != HITS:
            message = f"expected {HITS} outputs, found {found}"
            raise RuntimeError(message)
    return statistics.median(taken) * 1e3


def measure() -> list[Row]:
    """Measure everything in one run."""
    os.environ.setdefault("BCL_DATA_DIR", tempfile.mkdtemp())
    logging.disable(logging.WARNING)
    data = chain_file(FILE).read_bytes()
    watched = make_watched(data)
    stripped = [tx.stripped() for tx in read_reference(data, merged=False).txs]
    own = median_ms(lambda: ours(data, watched), ROUNDS)
    floor = median_ms(lambda: hashing(stripped), ROUNDS)
    second = median_ms(lambda: with_python_bitcoinlib(data, watched), ROUNDS_OF_PEERS)
    first = median_ms(lambda: with_bitcoinlib(data, watched), ROUNDS_OF_PEERS)
    return [
        Row(
            what="Bitcoin block 702861 to transfers of 1,000 watched scripts, root checked",
            value=own,
            unit="ms",
            budget=f"<= {BUDGET_MS:g} ms",
            beside=f"hashing every txid {floor:.2f} ms ({own / floor:.2f} times it)",
        ),
        Row(
            what="beside bitcoinlib",
            value=first / own,
            unit="times faster",
            budget=f">= {BITCOINLIB_TIMES} times",
            beside=f"bitcoinlib {first:.0f} ms",
        ),
        Row(
            what="beside python-bitcoinlib",
            value=second / own,
            unit="times faster",
            budget=f">= {PYTHON_BITCOINLIB_TIMES} times",
            beside=f"python-bitcoinlib {second:.0f} ms",
        ),
    ]


def main() -> None:
    """Print the rows."""
    show("Bitcoin block", measure())


if __name__ == "__main__":
    main()
