"""JSON-RPC answers: the envelope, the typed decode, and what a node's error means to us.

Pure. Reads bytes of a node, gives results or an error of `chains.errors`. Texts of providers only
make us faster; no decision about money hangs on one.
"""

from __future__ import annotations

import sys
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from chains.errors import (
    AnswerRefused,
    ChainError,
    NodeBehind,
    NodeBusy,
    NodeUnavailable,
    Unsupported,
)

T = TypeVar("T")

#: The EVM nests calls 1,024 deep, and a decoder uses two levels a call: Python's usual limit of 1,000
#: would let a stranger's transaction stop the chain. A library that web3 brings sets it to 100,000,
#: with which a hostile answer overflows the stack and ends the process (shown). So it is set here.
_RECURSION_LIMIT: Final = 3_500
_MESSAGE_MAX: Final = 300

_METHOD_NOT_FOUND: Final = -32601
_LIMIT_EXCEEDED: Final = -32005
_TOO_MANY_REQUESTS: Final = 429
_UNKNOWN_BLOCK: Final = -39001
_PRUNED: Final = 4444
#: Seen in go-ethereum, Erigon, Nethermind, Reth, Besu and hosted nodes. **Source**: the threads
#: named in cases CH-R02, CH-R03, CH-R09 and CH-R15.
_UNSUPPORTED_WORDS: Final = (
    "method not found", "does not exist/is not available", "not supported", "unsupported method",
    "method not allowed", "method is not available", "not whitelisted", "unknown method",
)  # fmt: skip
_BUSY_WORDS: Final = (
    "rate limit", "too many requests", "request limit", "exceeded the quota", "compute units",
    "requests per second",
)  # fmt: skip
_BEHIND_WORDS: Final = (
    "header not found", "block not found", "unknown block", "cannot be found", "missing trie node",
    "pruned history", "not yet available", "historical state", "could not find block",
)  # fmt: skip


class UnknownAnswer(NodeUnavailable):
    """The node is there and answers with an error of which we do not know what it means.

    `code` is the node's own: a family's client may know better.
    """

    def __init__(self, message: str, code: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code


class RpcError(Struct):
    """What a node says when it does not answer. `code` is text for a few providers."""

    code: int | str | None = None
    message: str | None = None
    data: Raw = Raw(b"null")


class RpcAnswer(Struct):
    """One JSON-RPC answer, its result still as bytes; no bytes at all when it has none."""

    id: int | str | None = None
    result: Raw = Raw()
    error: RpcError | None = None


#: Decoders are built once a type: building one costs more than decoding a small answer.
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode(value: bytes | Raw, kind: type[T]) -> T:
    """Read an answer. **Raises**: `AnswerRefused` where it has another shape than the method's."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        found: T = _bounded(decoder, value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"expected {getattr(kind, '__name__', kind)}, found: {error}"
        raise AnswerRefused(message) from error
    return found


def decode_or_none(value: Raw, kind: type[T]) -> T | None:
    """Read an answer that is `null` where the node has no such thing. **Raises**: as `decode`."""
    return None if bytes(memoryview(value)[:5]) == b"null" else decode(value, kind)


def _bounded(decoder: msgspec.json.Decoder[T], value: bytes | Raw) -> T:
    """Decode within a nesting that every EVM call fits and the stack bears."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    try:
        return decoder.decode(value)
    finally:
        sys.setrecursionlimit(usual)


_one: Final = msgspec.json.Decoder(RpcAnswer)
_one_or_many: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(list[RpcAnswer] | RpcAnswer)


def split_body(body: bytes, *, many: bool) -> list[RpcAnswer]:
    """Read a body that should be one answer or a list. **Raises**: `NodeUnavailable` when cut off."""
    try:
        found: Any = _bounded(_one_or_many if many else _one, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"expected a JSON-RPC answer, found {len(body)} bytes: {error}"
        raise NodeUnavailable(message) from error
    return found if isinstance(found, list) else [found]


def result_of(answer: RpcAnswer) -> Raw | ChainError:
    """Give the result (it may be `null`), or what the error means."""
    if answer.error is not None:
        return meaning_of(answer.error)
    if not memoryview(answer.result):
        return AnswerRefused("expected a result or an error, found neither")
    return answer.result


def meaning_of(error: RpcError) -> ChainError:
    """Name a node's error in our words; what is unknown may be asked again elsewhere."""
    said = (error.message or "").strip()
    words = said.lower()
    text = f"the node answers {error.code}: {said[:_MESSAGE_MAX]}"
    if error.code == _METHOD_NOT_FOUND or any(word in words for word in _UNSUPPORTED_WORDS):
        return Unsupported(text)
    if error.code == _TOO_MANY_REQUESTS or any(word in words for word in _BUSY_WORDS):
        return NodeBusy(text)
    if error.code == _LIMIT_EXCEEDED and "result" not in words and "range" not in words:
        return NodeBusy(text)
    if error.code in {_UNKNOWN_BLOCK, _PRUNED} or any(word in words for word in _BEHIND_WORDS):
        return NodeBehind(text)
    return UnknownAnswer(text, error.code)
