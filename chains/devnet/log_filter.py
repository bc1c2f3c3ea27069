"""Which logs a filter asks for. Pure.

**Source**: execution-apis `eth_getLogs`; go-ethereum `eth/filters` for limits and errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from chains.devnet.answers import Answer, log_answers
from chains.devnet.blocks import Block
from chains.devnet.hexadecimal import ScriptError, address_bytes, hash_bytes
from chains.devnet.rpc_errors import invalid_params
from chains.devnet.scripted import Log

#: go-ethereum `eth/filters/api.go`: maxSubTopics, and its limit on addresses.
VALUES_MAX: Final = 1_000
TOPICS_MAX: Final = 4


class LogFilter(Struct, frozen=True, kw_only=True):
    """Addresses, and for each topic the values that fit; empty means any."""

    addresses: frozenset[bytes]
    topics: tuple[frozenset[bytes], ...]

    def fits(self, log: Log) -> bool:
        """Tell whether a log is asked for."""
        if self.addresses and log.address not in self.addresses:
            return False
        if len(self.topics) > len(log.topics):
            return False
        return all(
            not wanted or topic in wanted
            for wanted, topic in zip(self.topics, log.topics, strict=False)
        )

    def rows(self, block: Block, *, removed: bool = False) -> Iterator[Answer]:
        """Give the logs of a block that are asked for."""
        for one in block.executed:
            if any(self.fits(log) for log in one.logs):
                answers = log_answers(block, one, removed=removed)
                yield from (
                    row for row, log in zip(answers, one.logs, strict=True) if self.fits(log)
                )


def read_filter(asked: dict[str, Any]) -> LogFilter:
    """Read a filter's addresses and topics. **Raises**: `RpcError` as geth words it."""
    try:
        addresses = frozenset(address_bytes(one) for one in _values(asked.get("address")))
        topics = tuple(
            frozenset(hash_bytes(one) for one in _values(position))
            for position in asked.get("topics") or ()
        )
    except (ScriptError, TypeError, AttributeError) as error:
        raise invalid_params(f"invalid argument 0: {error}") from error
    if len(topics) > TOPICS_MAX:
        raise invalid_params("exceed max topics")
    if len(addresses) > VALUES_MAX or any(len(values) > VALUES_MAX for values in topics):
        raise invalid_params("exceed max addresses or topics per search position")
    return LogFilter(addresses=addresses, topics=topics)


def _values(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)
