"""What does this block pay? From a file of a node's answers, without a node.

Pure. Reads one file (a node's JSON; on Bitcoin-like chains a raw block too), writes the same
`TransferSeen` that a watcher would publish; used by the `inspect` command and by tests on real blocks.
Nothing is asked and nothing is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from msgspec import UNSET, Raw, Struct, UnsetType

from chains.answers import decode
from chains.catalog import Catalogue, CatalogueError
from chains.errors import AnswerRefused
from chains.evm import checks, parse, words
from chains.evm.frames import Move, moves_of, trees_of_flat, trees_of_traced
from chains.evm.listed import listed_on
from chains.evm.parse import Reading
from chains.evm.wire import CallFrame, FullBlock, ParityTrace, Receipt, TracedTransaction
from chains.port import WatchedAddresses
from chains.utxo.file import read_file
from chains.utxo.networks import NAMESPACE
from schemas.caip import AssetName, ChainName
from schemas.facts import FoundBy, TransferSeen
from schemas.values import BlockRef


class Inspection(Struct, frozen=True, kw_only=True):
    """What one block pays. `ignored` counts what looked like a payment and is none, by reason.

    `traced` is False where the file has no traces: what inner calls pay of the chain's coin is unseen. A
    chain without calls has nothing to trace, and says True.
    """

    transfers: list[TransferSeen]
    ignored: dict[str, int]
    traced: bool


class BlockFile(Struct, kw_only=True, rename="camel"):
    """A block with full transactions, its receipts, and traces where the file has them."""

    block: FullBlock
    receipts: list[Receipt]
    chain: str | None = None
    call_tracer: Raw | UnsetType = UNSET
    trace_block: Raw | UnsetType = UNSET


class _Everybody:
    """Every address there is."""

    def __contains__(self, address_bytes: object, /) -> bool:
        return True

    def __len__(self) -> int:
        return 0


def inspect_block(
    content: bytes,
    chain: ChainName,
    catalogue: Catalogue,
    addresses: Collection[bytes] | None,
    *,
    height: int | None = None,
) -> Inspection:
    """Give what the block in a file pays to some addresses, or to everybody (`addresses` is None).

    With addresses, each gets what it gains: what it sends on in the same transaction is taken off, as
    a watcher does. For everybody nothing is taken off, because nobody is ours, and the amounts add up
    to what moved. Amounts of zero are counted under `zero_value` and not given.

    The file of an EVM block holds `block` (full transactions), `receipts`, and one of `callTracer`,
    `traceBlock` or none. That of a Bitcoin-like block is raw, hex, or `getblock` of verbosity 2; outputs
    without an address are counted by what they are. `height` is needed for old raw blocks, whose
    coinbase does not say it; a block that says another is refused.

    **Raises**: `CatalogueError` for an unknown chain; `AnswerRefused` or `NodeBehind` where the file
    contradicts itself, its root, or the chain.
    """
    watched: WatchedAddresses = _Everybody() if addresses is None else frozenset(addresses)
    if chain.startswith(f"{NAMESPACE}:"):
        coin = catalogue.asset(AssetName(catalogue.chain(chain).coin))
        pays = read_file(content, chain, coin.name_id, watched, height)
        return Inspection(transfers=pays.transfers, ignored=pays.ignored, traced=True)
    return _inspect_evm(content, chain, catalogue, watched, height)


def _inspect_evm(
    content: bytes,
    chain: ChainName,
    catalogue: Catalogue,
    watched: WatchedAddresses,
    height: int | None,
) -> Inspection:
    listed = listed_on(chain, catalogue)
    file = decode(content, BlockFile)
    if file.chain is not None and file.chain != chain:
        message = f"expected a block of {chain}, the file says {file.chain}"
        raise CatalogueError(message)
    header = checks.header_of(file.block)
    if height not in {None, header.height}:
        message = f"the block stands at height {header.height}, not at {height}"
        raise AnswerRefused(message)
    reading = Reading(
        listed=listed,
        watched=watched,
        block=BlockRef(height=header.height, hash=header.hash, time=header.time),
        seen_at=header.time,
        node="file",
        method="receipts",
        found_by=FoundBy.WATCH,
        net=not isinstance(watched, _Everybody),
        ignored=Counter(),
    )
    receipts = checks.paired_receipts(
        file.block, file.receipts, catalogue.chain(chain).receipts_root
    )
    moves = _moves(file, header.hash)
    entries = [
        (transaction, receipt, None if moves is None else moves[words.hash_text(transaction.hash)])
        for transaction, receipt in zip(file.block.transactions, receipts, strict=True)
    ]
    transfers = parse.transfers_of_block(entries, reading)
    return Inspection(transfers=transfers, ignored=dict(reading.ignored), traced=moves is not None)


def _moves(file: BlockFile, block_hash: str) -> dict[str, list[Move]] | None:
    names = [words.hash_text(transaction.hash) for transaction in file.block.transactions]
    if not isinstance(file.call_tracer, UnsetType):
        trees = trees_of_traced(_traced(file.call_tracer), names)
    elif not isinstance(file.trace_block, UnsetType):
        trees = trees_of_flat(decode(file.trace_block, list[ParityTrace]), names, block_hash)
    else:
        return None
    return {name: moves_of(tree) for name, tree in trees.items()}


def _traced(answer: Raw) -> list[TracedTransaction]:
    """Read traces in a node's envelope, or bare trees in the block's order."""
    try:
        return [TracedTransaction(result=tree) for tree in decode(answer, list[CallFrame])]
    except AnswerRefused:
        return decode(answer, list[TracedTransaction])
