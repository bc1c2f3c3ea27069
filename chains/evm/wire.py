"""The shapes of a node's answers, only the fields that we read, decoded in one typed pass.

Pure. A field that we do not name is skipped by the decoder, so unknown transaction types, header
fields and extraData of any length never break reading (CH-R07). Hex stays text here; `words` reads
it where it is needed, which is for the few entries that concern us.
"""

from __future__ import annotations

from msgspec import Struct


def _node_name(name: str) -> str:
    """Turn `block_hash` into `blockHash` and `from_` into `from`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


class Log(Struct, gc=False, rename=_node_name):
    """One log. `removed` is not read: what left the chain shows in the hashes (CH-G03)."""

    address: str
    topics: list[str]
    data: str
    block_hash: str | None = None
    transaction_hash: str | None = None
    log_index: str | None = None


class Receipt(Struct, rename=_node_name):
    """One receipt. `root` stands instead of `status` before Byzantium."""

    transaction_hash: str
    block_hash: str | None
    cumulative_gas_used: str
    logs: list[Log]
    logs_bloom: str | None = None
    status: str | None = None
    root: str | None = None
    type: str | None = None
    from_: str | None = None
    to: str | None = None
    contract_address: str | None = None
    deposit_nonce: str | None = None
    deposit_receipt_version: str | None = None


class Transaction(Struct, gc=False, rename=_node_name):
    """One transaction of a full block, or by itself."""

    hash: str
    from_: str
    to: str | None = None
    value: str = "0x0"
    nonce: str | None = None
    type: str | None = None
    block_hash: str | None = None
    block_number: str | None = None


class BlockHeader(Struct, rename=_node_name):
    """What every block answer has, whether its transactions are full or not."""

    hash: str | None
    parent_hash: str
    number: str | None
    timestamp: str
    logs_bloom: str | None = None
    receipts_root: str | None = None


class FullBlock(BlockHeader, rename=_node_name):
    """A block with its transactions."""

    transactions: list[Transaction] = []


class HashedBlock(BlockHeader, rename=_node_name):
    """A block with the ids of its transactions."""

    transactions: list[str] = []


class CallFrame(Struct, rename=_node_name):
    """One frame of the `callTracer`."""

    type: str
    from_: str = ""
    to: str | None = None
    value: str | None = None
    error: str | None = None
    calls: list[CallFrame] = []


class TracedTransaction(Struct, rename=_node_name):
    """One entry of `debug_traceBlockByHash`. Older nodes leave the id out."""

    result: CallFrame | None = None
    tx_hash: str | None = None
    error: str | None = None


class ParityAction(Struct, rename=_node_name):
    """What a frame of `trace_block` did. `address` and `balance` are a self-destruct's."""

    from_: str | None = None
    to: str | None = None
    value: str | None = None
    call_type: str | None = None
    address: str | None = None
    refund_address: str | None = None
    balance: str | None = None


class ParityResult(Struct, rename=_node_name):
    """What came of it; a creation names its new address here."""

    address: str | None = None


class ParityTrace(Struct, rename=_node_name):
    """One frame of `trace_block`; `reward` entries have no transaction."""

    type: str
    action: ParityAction
    trace_address: list[int] = []
    block_hash: str | None = None
    transaction_hash: str | None = None
    error: str | None = None
    result: ParityResult | None = None
