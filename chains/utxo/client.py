"""The questions that a node of a Bitcoin-like chain answers, typed. Talks to one node; judges nothing.

Reads JSON-RPC through `chains.rpc`; gives headers at their height, raw blocks and raw transactions. What
a hash covers is hashed here: a header that does not hash to its name, or does not have its work, is
refused. The methods are those that bitcoind, litecoind, dogecoind and btcd share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw, Struct, field

from chains.answers import UnknownAnswer, decode, decode_or_none
from chains.errors import AnswerRefused, ChainError, NodeBehind, WrongChain
from chains.heed import heed_cancellation
from chains.port import Head, Header
from chains.rpc import Question, RpcNode
from chains.utxo import auxpow
from chains.utxo.header import read_header, require_work
from chains.utxo.headers import MEDIAN_SPAN, HeaderMemory, PlacedHeader, told_header
from chains.utxo.loose import LooseTransaction, read_loose
from chains.utxo.networks import Network
from chains.utxo.rules import BlockRules
from chains.utxo.told_header import Height, ToldHeader, bytes_of, hash_of, header_bytes

#: What nodes answer to names that they do not have.
#: **Source**: Bitcoin Core rpc/protocol.h: RPC_INVALID_ADDRESS_OR_KEY, RPC_INVALID_PARAMETER, RPC_MISC_ERROR;
#: btcd btcjson/jsonrpcerr.go: ErrRPCBlockNotFound and ErrRPCNoTxInfo are -5, ErrRPCOutOfRange -1.
_UNKNOWN_NAME: Final = -5
_OUT_OF_RANGE: Final = frozenset({-8, -1})
_NOT_STORED: Final = -1
_RAW: Final = 0
_VERBOSE: Final = 1
_IN_JSON: Final = True
#: Outputs that waiting transactions spend count as unspent.
_CHAIN_ONLY: Final = False
#: So many outputs of a transaction are asked for while one unspent is looked for.
OUTPUTS_PROBED: Final = 16


class _ToldTransaction(Struct):
    hex: str
    block_hash: str | None = field(default=None, name="blockhash")


class _Unspent(Struct):
    confirmations: Height
    best_block: str = field(name="bestblock")


class KnownTransaction(Struct, frozen=True, kw_only=True):
    """What a node says of a transaction; `block_hash` is None while it waits to be mined."""

    transaction: LooseTransaction
    block_hash: str | None


class UtxoClient:
    """One node of one Bitcoin-like chain."""

    def __init__(self, node: RpcNode, network: Network, rules: BlockRules) -> None:
        self.node = node
        self._network = network
        self._rules = rules
        self._headers = HeaderMemory()

    @property
    def name(self) -> str:
        """The node's host, for evidence and messages."""
        return self.node.name

    async def identify(self) -> None:
        """Compare the first block of the node's chain. **Raises**: `WrongChain` naming both."""
        found = await self._hash_at(0)
        if found != self._network.genesis_hash:
            message = (
                f"{self.name}: expected {self._network.name}, whose first block is "
                f"{self._network.genesis_hash}, found a chain that begins with {found}"
            )
            raise WrongChain(message)

    async def head(self) -> Head:
        """Give the tip. These chains call nothing final by themselves."""
        tip = hash_of(decode(await self.node.ask("getbestblockhash"), str))
        header = await self.header_by_hash(tip)
        if header is None:
            message = f"{self.name} names {tip} as its best block and does not have it"
            raise NodeBehind(message)
        return Head(header=header, finalized_height=0)

    async def header_at(self, height: int) -> Header:
        """Give the header at a height of the node's chain. **Raises**: `NodeBehind`."""
        block_hash = await self._hash_at(height)
        if self._headers.line_of(block_hash)[1] is not None:
            await self._read_line(height)
        header = await self.header_by_hash(block_hash)
        if header is None or header.height != height:
            message = f"{self.name} has no header of block {height}, {block_hash}"
            raise NodeBehind(message)
        return header

    async def header_by_hash(self, block_hash: str) -> Header | None:
        """Give a header by its hash, of any branch; None where the node does not know it."""
        while True:
            heed_cancellation()
            line, missing = self._headers.line_of(block_hash)
            if missing is None:
                return told_header(line)
            found = await self._header(missing)
            if found is None:
                if not line:
                    return None
                message = f"{self.name} has {line[-1].hash} and not its parent {missing}"
                raise NodeBehind(message)

    async def block_bytes(self, block_hash: str) -> bytes:
        """Give a block as it is on the wire. **Raises**: `NodeBehind` where the node does not store it."""
        try:
            answer = await self.node.ask("getblock", block_hash, _RAW)
        except UnknownAnswer as error:
            if error.code in {_UNKNOWN_NAME, _NOT_STORED}:
                message = f"{self.name} does not have block {block_hash}: {error}"
                raise NodeBehind(message) from error
            raise
        return bytes_of(decode(answer, str))

    async def waiting(self) -> list[str]:
        """Name what waits in the mempool."""
        return [hash_of(name) for name in decode(await self.node.ask("getrawmempool"), list[str])]

    async def transactions(self, names: Sequence[str]) -> list[LooseTransaction | ChainError]:
        """Give transactions that wait in the mempool; for each that cannot be had, why."""
        answers = await self.node.batch(
            [Question("getrawtransaction", [name, _RAW]) for name in names]
        )
        return [
            self._transaction(name, answer) for name, answer in zip(names, answers, strict=True)
        ]

    async def transaction(self, name: str) -> KnownTransaction | None:
        """Give a transaction that waits, or is found by the node's index where it has one."""
        try:
            answer = await self.node.ask("getrawtransaction", name, _VERBOSE)
        except UnknownAnswer as error:
            if error.code == _UNKNOWN_NAME:
                return None
            raise
        told = decode(answer, _ToldTransaction)
        found = read_loose(bytes_of(told.hex), self._rules)
        _require_name(found, name)
        mined_in = None if told.block_hash is None else hash_of(told.block_hash)
        return KnownTransaction(transaction=found, block_hash=mined_in)

    async def height_of_unspent(self, name: str) -> int | None:
        """Give how high a transaction stands, of which some first output is not spent yet."""
        answers = await self.node.batch(
            [Question("gettxout", [name, index, _CHAIN_ONLY]) for index in range(OUTPUTS_PROBED)]
        )
        for answer in answers:
            if isinstance(answer, ChainError):
                continue
            unspent = decode_or_none(answer, _Unspent)
            if unspent is not None and unspent.confirmations:
                best = await self.header_by_hash(hash_of(unspent.best_block))
                if best is not None:
                    return best.height + 1 - unspent.confirmations
        return None

    async def _hash_at(self, height: int) -> str:
        try:
            answer = await self.node.ask("getblockhash", height)
        except UnknownAnswer as error:
            if error.code in _OUT_OF_RANGE:
                message = f"{self.name} has no block {height}: {error}"
                raise NodeBehind(message) from error
            raise
        return hash_of(decode(answer, str))

    async def _read_line(self, height: int) -> None:
        """Read the headers up to a height that the median needs, in two requests.

        Only to be fast: what is missing afterwards, or moved meanwhile, is asked for by its hash.
        """
        heights = range(max(0, height - MEDIAN_SPAN + 1), height + 1)
        hashes = await self.node.batch([Question("getblockhash", [each]) for each in heights])
        names = [hash_of(decode(one, str)) for one in hashes if not isinstance(one, ChainError)]
        unknown = [name for name in names if self._headers.get(name) is None]
        answers = await self.node.batch(
            [Question("getblockheader", [name, _IN_JSON]) for name in unknown]
        )
        for name, answer in zip(unknown, answers, strict=True):
            if not isinstance(answer, ChainError):
                self._keep(name, answer)

    async def _header(self, block_hash: str) -> PlacedHeader | None:
        try:
            answer = await self.node.ask("getblockheader", block_hash, _IN_JSON)
        except NodeBehind:
            return None
        except UnknownAnswer as error:
            if error.code == _UNKNOWN_NAME:
                return None
            raise
        return self._keep(block_hash, answer)

    def _keep(self, block_hash: str, answer: Raw) -> PlacedHeader:
        """Make the header's bytes of what is told, and require that they are the block's.

        Merged work stands in the block alone, and is checked when that is read.
        """
        told = decode(answer, ToldHeader)
        data = header_bytes(told)
        header = read_header(data)
        if header.hash != block_hash:
            message = f"expected header {block_hash}, {self.name} gives one of {header.hash}"
            raise AnswerRefused(message)
        if self._rules.auxpow_chain_id is None or not auxpow.is_merged(header):
            require_work(data, header.bits, self._rules)
        if (told.height == 0) != (header.hash == self._network.genesis_hash):
            message = f"{self.name} says that block {header.hash} stands at {told.height}"
            raise AnswerRefused(message)
        placed = PlacedHeader(
            hash=header.hash,
            parent_hash=header.parent_hash,
            height=told.height,
            time_s=header.time_s,
        )
        self._headers.add(placed)
        return placed

    def _transaction(self, name: str, answer: Raw | ChainError) -> LooseTransaction | ChainError:
        if isinstance(answer, ChainError):
            return answer
        try:
            found = read_loose(bytes_of(decode(answer, str)), self._rules)
            _require_name(found, name)
        except AnswerRefused as error:
            return error
        return found


def _require_name(found: LooseTransaction, name: str) -> None:
    if found.txid != name:
        message = f"expected transaction {name}, found the bytes of {found.txid}"
        raise AnswerRefused(message)
