"""What a node's words mean to us: the wordings of the cases, and answers that are none."""

from __future__ import annotations

import json
import sys

import pytest
from msgspec import Raw

from chains.answers import RpcError, decode, meaning_of, result_of, split_body
from chains.errors import (
    AnswerRefused,
    NodeBehind,
    NodeBusy,
    NodeUnavailable,
    Retryable,
    Unsupported,
)
from chains.evm.wire import CallFrame

#: code, message, what it is. All of them may be asked again elsewhere but the first.
WORDINGS = [
    (-32601, "the method eth_getBlockReceipts does not exist/is not available", Unsupported),
    (-32601, "Method not found", Unsupported),
    (-32000, "trace_block is not supported", Unsupported),
    (429, "Too Many Requests", NodeBusy),
    (-32005, "daily request limit reached - upgrade to increase", NodeBusy),
    (-32016, "over rate limit", NodeBusy),
    (-32005, "limit exceeded", NodeBusy),
    (
        -32005,
        "query returned more than 10000 results. Try with this block range [0xBDE5F8, 0x102DBCC].",
        NodeUnavailable,
    ),
    (-32602, "range 1000000 exceeds limit of 10000", NodeUnavailable),
    (-32602, "invalid params", NodeUnavailable),
    (-32600, "You can make eth_getLogs requests with up to a 500 block range", NodeUnavailable),
    (
        -32000,
        "One of the blocks specified in filter (fromBlock, toBlock or blockHash) cannot be found",
        NodeBehind,
    ),
    (-32000, "header not found", NodeBehind),
    (-39001, "Unknown block", NodeBehind),
    (4444, "pruned history unavailable", NodeBehind),
    ("busy", None, NodeUnavailable),
    (None, "", NodeUnavailable),
]


@pytest.mark.parametrize(("code", "message", "kind"), WORDINGS)
def test_a_nodes_error_has_a_meaning(code, message, kind):
    found = meaning_of(RpcError(code=code, message=message, data=Raw(b'{"from":"0x1"}')))
    assert isinstance(found, kind)
    assert isinstance(found, Retryable) is not (kind is Unsupported)


def test_a_result_may_be_null_and_an_answer_must_be_something():
    null = result_of(split_body(b'{"id":1,"result":null}', many=False)[0])
    assert isinstance(null, Raw)
    assert bytes(null) == b"null"
    assert isinstance(result_of(split_body(b'{"id":1}', many=False)[0]), AnswerRefused)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"<html>", b'{"id":1,"result":', b"\xff\xfe", b"[1]", b"7", b'{"id":{}}']
)
@pytest.mark.parametrize("many", [True, False])
def test_a_body_that_is_no_answer_is_no_usable_answer(body, many):
    with pytest.raises(NodeUnavailable):
        split_body(body, many=many)


def test_nesting_without_end_is_refused_even_where_a_library_lifted_the_limit():
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        for body in (b"[" * 100_000, b'{"id":1,"result":' + b'{"a":' * 100_000):
            with pytest.raises(NodeUnavailable):
                split_body(body, many=True)
            with pytest.raises(AnswerRefused):
                decode(body, list[CallFrame])
        assert sys.getrecursionlimit() == 100_000
    finally:
        sys.setrecursionlimit(usual)


def test_an_answer_of_another_shape_is_refused():
    for body in ("7", "null", '{"a":1}', '["0x1",2]'):
        with pytest.raises(AnswerRefused):
            decode(body.encode(), list[str])
    assert decode(json.dumps(["0x1"]).encode(), list[str]) == ["0x1"]
