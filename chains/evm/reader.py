"""Reading blocks from one node so that a lie shows: rules 2 and 3 of what a watcher promises.

Talks through one `EvmClient` a read, parses through `parse`, proves through `checks`. A read gives a
whole block or raises; nothing half read leaves this file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from chains.at_once import at_once
from chains.clock import Clock
from chains.errors import AnswerRefused, NodeBehind
from chains.evm import checks, parse, words
from chains.evm.checks import RootRule
from chains.evm.client import BlockAnswer, EvmClient
from chains.evm.frames import Move, moves_of
from chains.evm.listed import Listed
from chains.evm.parse import Reading
from chains.evm.wire import CallFrame, FullBlock, Log, Receipt, Transaction
from chains.port import BlockRead, Header, WatchedAddresses
from schemas.facts import TransferSeen
from schemas.values import BlockRef

Trees = dict[str, CallFrame]
#: Gives the call trees of a block from a node that traces, or None where none does.
TreeSource = Callable[[Header, FullBlock], Awaitable[Trees | None]]

#: Traces of a full block are some tens of MB, so a span's are not asked for all together.
_TRACES_AT_ONCE: Final = 4
#: Row counts at which providers cut an answer off without a word.
_ROUND_COUNTS: Final = frozenset({100, 1_000, 10_000})
#: Below this, two answers of equal size are chance and not a provider's limit.
_LARGEST_SEEN_MIN: Final = 20


class SpanRead(Struct, frozen=True, kw_only=True):
    """A span of blocks, read whole. `parent_hash` is that of its first block."""

    parent_hash: str
    last: Header
    transfers: Sequence[TransferSeen]
    ignored: Counter[str]


class BlockReader:
    """Reads blocks of one chain, from whichever node it is given."""

    def __init__(self, *, listed: Listed, rule: RootRule, clock: Clock, trees: TreeSource) -> None:
        self._listed = listed
        self._rule = rule
        self._clock = clock
        self._trees = trees
        self._headers_prove = False
        self._largest_rows: dict[str, int] = {}

    async def read_block(
        self, client: EvmClient, header: Header, watched: WatchedAddresses
    ) -> BlockRead:
        """Read one block by hash. **Raises**: `NodeBehind`, `AnswerRefused`, other `Retryable`."""
        answer, receipts = await client.block_by_hash(header.hash)
        block = self._proven(answer, header)
        moves = await self._moves(header, block)
        if receipts is not None:
            return self._by_receipts(client, header, block, receipts, moves, watched)
        logs = await client.logs_of_block(header.hash, self._listed.contracts)
        return await self._by_logs(client, header, block, logs, moves, watched)

    async def read_span(
        self, client: EvmClient, first_height: int, last_height: int, watched: WatchedAddresses
    ) -> SpanRead:
        """Read blocks by height, below the finalized one. **Raises**: as `read_block`."""
        answers, logs = await client.span(first_height, last_height, self._listed.contracts)
        self._require_uncut(client, logs)
        headers = _linked(answers, first_height)
        by_block: defaultdict[str, list[Log]] = defaultdict(list)
        for log in logs:
            by_block[words.hash_text(log.block_hash or "")].append(log)
        if not set(by_block) <= {header.hash for header in headers}:
            message = (
                f"{client.name} gives logs of other blocks than {first_height} to {last_height}"
            )
            raise AnswerRefused(message)
        transfers: list[TransferSeen] = []
        ignored: Counter[str] = Counter()
        blocks = [
            self._proven(answer, header) for header, answer in zip(headers, answers, strict=True)
        ]
        all_moves = await at_once(
            [partial(self._moves, *pair) for pair in zip(headers, blocks, strict=True)],
            most=_TRACES_AT_ONCE,
        )
        for header, block, moves in zip(headers, blocks, all_moves, strict=True):
            read = await self._by_logs(client, header, block, by_block[header.hash], moves, watched)
            transfers += read.transfers
            ignored.update(read.ignored)
        return SpanRead(
            parent_hash=headers[0].parent_hash,
            last=headers[-1],
            transfers=transfers,
            ignored=ignored,
        )

    def _proven(self, answer: BlockAnswer, header: Header) -> FullBlock:
        """Require the block that was asked for, and its own hash where that can be made again."""
        checks.require_same(checks.header_of(answer.block), header)
        proven = checks.require_own_hash(answer.fields, header.hash, always=self._headers_prove)
        self._headers_prove = self._headers_prove or proven
        return answer.block

    def _require_uncut(self, client: EvmClient, logs: Sequence[Log]) -> None:
        """Refuse a row count at which providers cut off (CH-R02); one block alone is not cut."""
        rows, largest = len(logs), self._largest_rows.get(client.name, 0)
        self._largest_rows[client.name] = max(rows, largest)
        if rows in _ROUND_COUNTS or (rows == largest and rows >= _LARGEST_SEEN_MIN):
            message = f"{client.name} gives exactly {rows} logs, which may be where it cuts off"
            raise AnswerRefused(message)

    async def _moves(self, header: Header, block: FullBlock) -> dict[str, list[Move]] | None:
        if not block.transactions:
            return {}
        trees = await self._trees(header, block)
        return None if trees is None else {name: moves_of(tree) for name, tree in trees.items()}

    def _by_receipts(
        self,
        client: EvmClient,
        header: Header,
        block: FullBlock,
        receipts: Sequence[Receipt | None],
        moves: dict[str, list[Move]] | None,
        watched: WatchedAddresses,
    ) -> BlockRead:
        """Parse a block of which every receipt is proven by the root."""
        paired = checks.paired_receipts(block, receipts, self._rule)
        reading = self._reading(client, header, watched, "receipts")
        entries = [
            (transaction, receipt, _moves_of(moves, transaction.hash))
            for transaction, receipt in zip(block.transactions, paired, strict=True)
        ]
        return _block_read(header, block, parse.transfers_of_block(entries, reading), reading)

    async def _by_logs(
        self,
        client: EvmClient,
        header: Header,
        block: FullBlock,
        answer: Sequence[Log],
        moves: dict[str, list[Move]] | None,
        watched: WatchedAddresses,
    ) -> BlockRead:
        """Parse a block of which only logs were given; what pays us is proven by its own receipt.

        Where the bloom promises a transfer that the logs do not have, all receipts decide.
        """
        logs = checks.block_logs(answer, header.hash)
        names = [words.hash_text(transaction.hash) for transaction in block.transactions]
        if checks.silent_contracts(block, logs, self._listed):
            receipts = await client.receipts_of(names)
            return self._by_receipts(client, header, block, receipts, moves, watched)
        reading = self._reading(client, header, watched, "receipt")
        hits: defaultdict[str, list[Log]] = defaultdict(list)
        for place in parse.token_hits(logs, reading):
            hits[words.hash_text(logs[place].transaction_hash or "")].append(logs[place])
        if not set(hits) <= set(names):
            message = f"a log of block {header.hash} belongs to none of its transactions"
            raise AnswerRefused(message)
        wanted = [
            (name, transaction)
            for name, transaction in zip(names, block.transactions, strict=True)
            if _may_pay(name, transaction, hits, moves, reading)
        ]
        found: list[TransferSeen] = []
        receipts = await client.receipts_of([name for name, _ in wanted])
        for (name, transaction), receipt in zip(wanted, receipts, strict=True):
            own = _own_receipt(receipt, name, header)
            _require_same_hits(hits[name], own, reading)
            if not parse.succeeded(own):
                reading.ignored["failed_transaction"] += 1
            found += parse.transfers_in(transaction, own, _moves_of(moves, name), reading)
        return _block_read(header, block, found, reading)

    def _reading(
        self, client: EvmClient, header: Header, watched: WatchedAddresses, method: str
    ) -> Reading:
        return Reading(
            listed=self._listed,
            watched=watched,
            block=BlockRef(height=header.height, hash=header.hash, time=header.time),
            seen_at=self._clock.now(),
            node=client.name,
            method=method,
        )


def _linked(answers: Sequence[BlockAnswer], first_height: int) -> list[Header]:
    """Require consecutive blocks, each the parent of the next. **Raises**: `AnswerRefused`."""
    headers = [checks.header_of(answer.block) for answer in answers]
    for height, header in enumerate(headers, first_height):
        before = headers[height - first_height - 1] if height > first_height else None
        if header.height != height or (before is not None and header.parent_hash != before.hash):
            message = f"block {height} {header.hash} does not follow the block before it"
            raise AnswerRefused(message)
    return headers


def _moves_of(moves: dict[str, list[Move]] | None, name: str) -> list[Move] | None:
    return None if moves is None else moves.get(words.hash_text(name), [])


def _may_pay(
    name: str,
    transaction: Transaction,
    hits: dict[str, list[Log]],
    moves: dict[str, list[Move]] | None,
    reading: Reading,
) -> bool:
    """Tell whose receipt is needed. A creation with value names its receiver only there."""
    native = parse.native_hit(transaction, None, reading)
    creates = transaction.to is None and words.integer(transaction.value) > 0
    inner = parse.inner_hits((moves or {}).get(name, ()), reading)
    return native or creates or inner or name in hits


def _own_receipt(receipt: Receipt | None, name: str, header: Header) -> Receipt:
    if receipt is None:
        message = f"the receipt of {name} is not there yet"
        raise NodeBehind(message)
    own = (words.hash_text(receipt.transaction_hash), words.hash_text(receipt.block_hash or ""))
    if own != (name, header.hash):
        message = f"expected the receipt of {name} in {header.hash}, found {own}"
        raise AnswerRefused(message)
    return receipt


def _require_same_hits(hits: Sequence[Log], receipt: Receipt, reading: Reading) -> None:
    """Require the logs that concern us to be the same in the answer and in the receipt."""
    checks.require_found_again(hits, receipt)
    aside = replace(reading, ignored=Counter(), recipients=set())
    own = parse.token_hits(receipt.logs, aside) if parse.succeeded(receipt) else []
    if len(own) != len(hits):
        message = f"{receipt.transaction_hash} pays us {len(own)} times, the logs say {len(hits)}"
        raise AnswerRefused(message)


def _block_read(
    header: Header, block: FullBlock, transfers: Sequence[TransferSeen], reading: Reading
) -> BlockRead:
    return BlockRead(
        header=header,
        transfers=transfers,
        ignored=dict(reading.ignored),
        recipients=frozenset(reading.recipients),
        spent=parse.nonces_used(block.transactions),
    )
