"""The questions that an EVM node answers, typed. Talks to one node; judges nothing.

Reads JSON-RPC through `chains.rpc`, gives the shapes of `wire`. Hot answers are decoded by msgspec;
web3 makes the rare contract calls, over the same connection, limits and errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final, Literal

from msgspec import Raw, Struct

from chains.answers import UnknownAnswer, decode, decode_or_none
from chains.errors import (
    AnswerRefused,
    ChainError,
    NodeBehind,
    NodeUnavailable,
    Unsupported,
)
from chains.evm import checks, words
from chains.evm.wire import (
    FullBlock,
    HashedBlock,
    Log,
    ParityTrace,
    Receipt,
    TracedTransaction,
    Transaction,
)
from chains.port import Head, Header
from chains.rpc import Question, RpcNode

#: The second argument of the block methods: whole transactions, or their ids.
_FULL: Final = True
_IDS: Final = False
_QUOTE: Final = ord('"')
_WORD_TEXT_MAX: Final = 2 + 64
_CALL_TRACER: Final = {"tracer": "callTracer", "timeout": "60s"}
_DECIMALS_ABI: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "name": "decimals",
        "inputs": [],
        "outputs": [{"name": "", "type": "uint8"}],
        "stateMutability": "view",
    }
]

Traces = Literal["debug", "flat"]


class Abilities(Struct):
    """What a node was found to offer. Learned at the start, corrected when it answers otherwise."""

    receipts_in_one: bool = True
    traces: Traces | None = None
    #: The node answered the question for traces with an error that may not be the last word.
    traces_unsure: bool = False


class BlockAnswer(Struct, frozen=True):
    """A full block, with every field as it came so that its hash can be made again."""

    block: FullBlock
    fields: dict[str, str | None]


class EvmClient:
    """One EVM node."""

    def __init__(self, node: RpcNode, abilities: Abilities) -> None:
        self.node = node
        self.abilities = abilities

    @property
    def name(self) -> str:
        """The node's host, for evidence and messages."""
        return self.node.name

    async def chain_id(self) -> int:
        """Ask which chain this is."""
        return words.integer(decode(await self.node.ask("eth_chainId"), str))

    async def head(self, *, finalized: bool) -> Head:
        """Give the tip and the finalized height, from one request."""
        questions = [Question("eth_getBlockByNumber", ["latest", _IDS])]
        if finalized:
            questions.append(Question("eth_getBlockByNumber", ["finalized", _IDS]))
        latest, *rest = await self.node.batch(questions)
        header = _header(_require(latest))
        if header is None:
            message = f"{self.name} has no latest block"
            raise NodeBehind(message)
        final = _finalized(rest[0]) if rest else 0
        return Head(header=header, finalized_height=min(final, header.height))

    async def header_at(self, height: int) -> Header:
        """Give the header at a height. **Raises**: `NodeBehind` when the node has none."""
        header = _header(await self.node.ask("eth_getBlockByNumber", hex(height), _IDS))
        if header is None or header.height != height:
            message = f"{self.name} has no block {height}"
            raise NodeBehind(message)
        return header

    async def header_by_hash(self, block_hash: str) -> Header | None:
        """Give a header by hash, or None."""
        return _header(await self.node.ask("eth_getBlockByHash", block_hash, _IDS))

    async def block_ids(self, height: int) -> tuple[Header, list[str]] | None:
        """Give a block's header and the ids of its transactions."""
        answer = await self.node.ask("eth_getBlockByNumber", hex(height), _IDS)
        found = decode_or_none(answer, HashedBlock)
        return None if found is None else (checks.header_of(found), found.transactions)

    async def block_by_hash(
        self, block_hash: str
    ) -> tuple[BlockAnswer, list[Receipt | None] | None]:
        """Give a full block and its receipts from one request; None where receipts come one by one."""
        questions = [Question("eth_getBlockByHash", [block_hash, _FULL])]
        if self.abilities.receipts_in_one:
            questions.append(Question("eth_getBlockReceipts", [block_hash]))
        block, *rest = await self.node.batch(questions)
        answer = _full_block(_require(block), block_hash)
        if not rest or isinstance(rest[0], Unsupported):
            self.abilities.receipts_in_one = False
            return answer, None
        return answer, _receipts(_require(rest[0]), block_hash)

    async def receipts_of(self, transactions: Sequence[str]) -> list[Receipt | None]:
        """Give the receipts of some transactions, one by one in one request; None for unknown ones."""
        answers = await self.node.ask_all(
            [Question("eth_getTransactionReceipt", [name]) for name in transactions]
        )
        return [decode_or_none(answer, Receipt) for answer in answers]

    async def logs_of_block(self, block_hash: str, contracts: Sequence[str]) -> list[Log]:
        """Give the listed contracts' transfers in one block, by hash: a node without it must say so."""
        if not contracts:
            return []
        filters = {"blockHash": block_hash, **_filter(contracts)}
        return decode(await self.node.ask("eth_getLogs", filters), list[Log])

    async def span(
        self, first_height: int, last_height: int, contracts: Sequence[str]
    ) -> tuple[list[BlockAnswer], list[Log]]:
        """Give full blocks and their logs by height. The last block comes with the logs, in one request."""
        heights = range(first_height, last_height)
        blocks = await self.node.ask_all([_by_height(height) for height in heights])
        filters = {
            "fromBlock": hex(first_height),
            "toBlock": hex(last_height),
            **_filter(contracts),
        }
        asked = [Question("eth_getLogs", [filters])] if contracts else []
        *found, last = await self.node.ask_all([*asked, _by_height(last_height)])
        answers = [
            _full_block(block, str(height))
            for height, block in enumerate([*blocks, last], first_height)
        ]
        return answers, [log for part in found for log in decode(part, list[Log])]

    async def transaction(self, name: str) -> Transaction | None:
        """Give a transaction, mined or not, or None."""
        answer = await self.node.ask("eth_getTransactionByHash", name)
        return decode_or_none(answer, Transaction)

    async def traced(self, header: Header) -> list[TracedTransaction]:
        """Give the call trees of a block, by hash."""
        answer = await self.node.ask("debug_traceBlockByHash", header.hash, _CALL_TRACER)
        return decode(answer, list[TracedTransaction])

    async def flat_traces(self, header: Header) -> list[ParityTrace]:
        """Give the flat frames of a block; nodes take its height only, the frames name its hash."""
        answer = await self.node.ask("trace_block", hex(header.height))
        return decode(answer, list[ParityTrace])

    async def learn_traces(self) -> None:
        """Find out how this node traces, if at all. **Raises**: `Retryable` where it does not answer."""
        header = (await self.head(finalized=False)).header
        if await self._offers(self.traced(header)):
            self.abilities.traces = "debug"
        elif await self._offers(self.flat_traces(header)):
            self.abilities.traces = "flat"

    async def _offers(self, question: Awaitable[object]) -> bool:
        try:
            await question
        except Unsupported:
            return False
        except UnknownAnswer:
            self.abilities.traces_unsure = True
            return False
        return True

    async def balance_at(self, contract: str | None, address: str, header: Header) -> int:
        """Give what an address holds after a block: of a token, or of the coin where it is None.

        By height, in one request with the block's own header, since not every node takes a hash here.
        **Raises**: `AnswerRefused` where the node has another block there; `Unsupported` where it no
        longer keeps that state.
        """
        height = hex(header.height)
        question = (
            Question("eth_getBalance", [address, height])
            if contract is None
            else Question("eth_call", [{"to": contract, "data": _balance_of(address)}, height])
        )
        asked = [question, Question("eth_getBlockByNumber", [height, _IDS])]
        balance, block = await self.node.batch(asked)
        found = _header(_require(block))
        if found is None:
            message = f"{self.name} has no block {header.height}"
            raise NodeBehind(message)
        if found.hash != header.hash:
            message = f"block {header.height} is {found.hash} here, expected {header.hash}"
            raise AnswerRefused(message)
        if isinstance(balance, UnknownAnswer):
            message = f"{self.name} does not tell what was held at {header.height}: {balance}"
            raise Unsupported(message)
        return _word(decode(_require(balance), str))

    async def decimals(self, contract: str) -> int | None:
        """Ask a token for its decimals: -1 where no contract stands, None where it does not say."""
        from web3 import AsyncWeb3
        from web3.exceptions import BadFunctionCallOutput, ContractLogicError

        from chains.evm.web3_provider import NodeProvider

        web3 = AsyncWeb3(NodeProvider(self.node))
        token = web3.eth.contract(web3.to_checksum_address(contract), abi=_DECIMALS_ABI)
        try:
            return int(await token.functions.decimals().call())
        except BadFunctionCallOutput:
            return -1
        except ContractLogicError:
            return None
        except UnknownAnswer as error:
            if "revert" in str(error).lower():
                return None
            raise


def _balance_of(address: str) -> str:
    """Write a call of `balanceOf(address)`. **Source**: EIP-20; its selector is 0x70a08231."""
    return "0x70a08231" + address.removeprefix("0x").lower().rjust(64, "0")


def _word(text: str) -> int:
    """Read a quantity, or the one word that a call returns; an empty return is no answer."""
    if not text.startswith("0x") or not 2 < len(text) <= _WORD_TEXT_MAX:
        message = f"expected one word, found {text[:80]!r}"
        raise AnswerRefused(message)
    return words.integer(text)


def _require(answer: Raw | ChainError) -> Raw:
    if isinstance(answer, ChainError):
        raise answer
    return answer


def _filter(contracts: Sequence[str]) -> dict[str, Any]:
    return {"address": list(contracts), "topics": [words.TRANSFER_TOPIC]}


def _by_height(height: int) -> Question:
    return Question("eth_getBlockByNumber", [hex(height), _FULL])


def _header(answer: Raw) -> Header | None:
    found = decode_or_none(answer, HashedBlock)
    return None if found is None else checks.header_of(found)


def _finalized(answer: Raw | ChainError) -> int:
    """Read the finalized height; a young chain has none yet. **Source**: execution-apis, -39001."""
    if isinstance(answer, ChainError):
        if isinstance(answer, NodeBehind | Unsupported | NodeUnavailable):
            return 0
        raise answer
    header = _header(answer)
    return 0 if header is None else header.height


def _full_block(answer: Raw, name: str) -> BlockAnswer:
    block = decode_or_none(answer, FullBlock)
    if block is None:
        message = f"block {name} is not there"
        raise NodeBehind(message)
    return BlockAnswer(block, _texts(answer))


def _texts(answer: Raw) -> dict[str, str | None]:
    """Give the header's own fields; lists are named and left out."""
    fields = decode(answer, dict[str, Raw])
    return {
        name: decode(value, str) if memoryview(value)[0] == _QUOTE else None
        for name, value in fields.items()
    }


def _receipts(answer: Raw, block_hash: str) -> list[Receipt | None]:
    found = decode_or_none(answer, list[Receipt | None])
    if found is None:
        message = f"the receipts of block {block_hash} are not there yet"
        raise NodeBehind(message)
    return list(found)
