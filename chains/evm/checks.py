"""Do a node's answers fit each other? Nothing is parsed before they do.

Pure. Reads a block, its receipts or its logs; gives them paired and free of copies, or refuses the
whole answer. A refused answer is asked again elsewhere and never half used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from chains.errors import AnswerRefused, NodeBehind
from chains.evm import roots, words
from chains.evm.listed import Listed
from chains.evm.wire import BlockHeader, FullBlock, Log, Receipt, Transaction
from chains.port import Header

RootRule = Literal["standard", "without_bridge_receipts", "none"]

_ZERO_ADDRESS: Final = frozenset({None, f"0x{'0' * 40}"})
#: 9999-12-31; a time beyond it is no time.
_TIME_MAX: Final = 253_402_300_799


def header_of(answer: BlockHeader) -> Header:
    """Read a header. **Raises**: `NodeBehind` for a pending block, `AnswerRefused` for nonsense."""
    if answer.hash is None or answer.number is None:
        message = "the node gave a pending block where a mined one was asked for"
        raise NodeBehind(message)
    seconds = words.integer(answer.timestamp)
    if seconds > _TIME_MAX:
        message = f"expected a time, found {seconds} seconds"
        raise AnswerRefused(message)
    time = datetime.fromtimestamp(seconds, UTC)
    return Header(
        height=words.integer(answer.number),
        hash=words.hash_text(answer.hash),
        parent_hash=words.hash_text(answer.parent_hash),
        time=time,
        coverage_time=time,
    )


def require_same(found: Header, expected: Header) -> None:
    """Refuse another block than the one that was asked for."""
    if (found.height, found.hash) != (expected.height, expected.hash):
        message = (
            f"expected block {expected.height} {expected.hash}, found {found.height} {found.hash}"
        )
        raise AnswerRefused(message)


def require_own_hash(fields: dict[str, str | None], expected: str, *, always: bool) -> bool:
    """Hash the header again; give whether it could be proven.

    `always` says that headers of this chain could be proven before, so that a difference in a header
    whose fields are all known is a lie. **Raises**: `AnswerRefused`.
    """
    computed, all_known = roots.header_hash(fields)
    if f"0x{computed.hex()}" == expected:
        return True
    if always and all_known:
        message = f"the header says {expected}, its fields hash to 0x{computed.hex()}"
        raise AnswerRefused(message)
    return False


def paired_receipts(
    block: FullBlock, receipts: Iterable[Receipt | None], rule: RootRule
) -> list[Receipt]:
    """Give one receipt a transaction, in the block's order, proven by the receipts' root.

    **Raises**: `NodeBehind` when receipts are not there yet; `AnswerRefused` when they are of another
    block, conflict, or do not hash to the root.
    """
    block_hash = words.hash_text(block.hash or "")
    found: dict[str, Receipt] = {}
    for receipt in receipts:
        if receipt is None:
            message = f"a receipt of block {block_hash} is not there yet"
            raise NodeBehind(message)
        _require_block(receipt.block_hash, block_hash, receipt.transaction_hash)
        name = words.hash_text(receipt.transaction_hash)
        if found.setdefault(name, receipt) != receipt:
            message = f"two receipts of {name} differ"
            raise AnswerRefused(message)
    names = [words.hash_text(transaction.hash) for transaction in block.transactions]
    missing = [name for name in names if name not in found]
    if missing:
        message = f"{len(missing)} receipts of block {block_hash} are not there yet"
        raise NodeBehind(message)
    beyond = [found[name] for name in found if name not in set(names)]
    _require_root(block, [*(found[name] for name in names), *beyond], rule)
    if beyond and rule != "without_bridge_receipts":
        message = f"expected {len(names)} receipts, found {len(found)}"
        raise AnswerRefused(message)
    return [found[name] for name in names]


def _require_block(found: str | None, expected: str, what: str) -> None:
    if found is None or words.hash_text(found) != expected:
        message = f"{what} is said to be in {found}, asked was {expected}"
        raise AnswerRefused(message)


def _require_root(block: FullBlock, receipts: Sequence[Receipt], rule: RootRule) -> None:
    if rule == "none":
        return
    expected = words.hash_text(block.receipts_root or "")
    tried = [list(receipts)]
    if rule == "without_bridge_receipts":
        tried.append([receipt for receipt in receipts if not is_bridge(receipt)])
    if not any(f"0x{roots.receipts_root(some).hex()}" == expected for some in tried):
        message = f"the receipts of block {block.hash} do not hash to {expected}"
        raise AnswerRefused(message)


def is_bridge(entry: Receipt | Transaction) -> bool:
    """Tell a state-sync entry: from nobody to nobody. Later forks put them under the root.

    **Source**: Polygon bor, state sync transactions; PIP-74.
    """
    return entry.from_ in _ZERO_ADDRESS and entry.to in _ZERO_ADDRESS


def block_logs(logs: Iterable[Log], block_hash: str) -> list[Log]:
    """Give the logs of one block, in order and each once.

    Identical copies collapse (CH-R08); a copy that conflicts, or of another block, discards the answer.
    """
    found: dict[int, Log] = {}
    for log in logs:
        _require_block(log.block_hash, block_hash, f"a log of {log.transaction_hash}")
        if log.log_index is None or log.transaction_hash is None:
            message = f"a log of block {block_hash} names no transaction or no index"
            raise AnswerRefused(message)
        place = words.integer(log.log_index)
        if _content(found.setdefault(place, log)) != _content(log):
            message = f"two logs at {place} of block {block_hash} differ"
            raise AnswerRefused(message)
    return [found[place] for place in sorted(found)]


def _content(log: Log) -> tuple[str, ...]:
    texts = (log.transaction_hash or "", log.address, log.data, *log.topics)
    return tuple(text.lower() for text in texts)


def require_found_again(hits: Sequence[Log], receipt: Receipt) -> None:
    """Find every hit again in the receipt of its own transaction. **Raises**: `AnswerRefused`."""
    own = {
        words.integer(log.log_index): _content(log)
        for log in receipt.logs
        if log.log_index is not None
    }
    for hit in hits:
        if own.get(words.integer(hit.log_index or "")) != _content(hit):
            message = f"log {hit.log_index} of {hit.transaction_hash} is not in its receipt"
            raise AnswerRefused(message)


def silent_contracts(block: BlockHeader, logs: Sequence[Log], listed: Listed) -> list[str]:
    """Name the contracts of which the block's bloom promises a transfer and the answer has none.

    A bloom errs on one side only, so this is suspicion: the receipts decide. A block without a bloom
    makes every contract suspicious.
    """
    bloom = -1 if block.logs_bloom is None else int.from_bytes(words.raw(block.logs_bloom), "big")
    spoke = {log.address.lower() for log in logs}
    return [
        contract
        for contract, mask in listed.bloom_masks.items()
        if bloom & mask == mask and contract not in spoke
    ]
