"""A node that speaks JSON-RPC: what bitcoind, litecoind, dogecoind and btcd share.

Talks to one node through `chains.rpc`. Headers come as JSON (btcd gives no other form with a height),
blocks and transactions raw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw, Struct, field

from chains.answers import UnknownAnswer, decode, decode_or_none
from chains.errors import AnswerRefused, ChainError, NodeBehind, Unsupported
from chains.heed import heed_cancellation
from chains.rpc import Question, RpcNode
from chains.utxo.client import KnownTransaction, UtxoClient
from chains.utxo.header import read_header
from chains.utxo.headers import MEDIAN_SPAN
from chains.utxo.loose import LooseTransaction
from chains.utxo.networks import Network
from chains.utxo.rules import BlockRules
from chains.utxo.told_header import Height, ToldHeader, bytes_of, hash_of, told_of

#: What nodes answer to names that they do not have.
#: **Source**: Bitcoin Core rpc/protocol.h: RPC_INVALID_ADDRESS_OR_KEY, RPC_INVALID_PARAMETER, RPC_MISC_ERROR;
#: btcd btcjson/jsonrpcerr.go: ErrRPCBlockNotFound and ErrRPCNoTxInfo are -5, ErrRPCOutOfRange -1.
_UNKNOWN_NAME: Final = -5
#: What btcd answers where it would have to tell the height of a block that is not on its chain.
#: **Source**: btcd 0.24.2, rpcserver.go, handleGetBlockHeader.
_BESIDE: Final = -32603
#: So many headers of a branch are followed down at most to where it parts from the node's chain.
_BESIDE_MAX: Final = 1_000
_OUT_OF_RANGE: Final = frozenset({-8, -1})
_NOT_STORED: Final = -1
_RAW: Final = 0
_VERBOSE: Final = 1
_IN_JSON: Final = True
_IN_BYTES: Final = False
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


class CoreClient(UtxoClient):
    """One node behind JSON-RPC."""

    shows_mempool = True

    def __init__(self, node: RpcNode, network: Network, rules: BlockRules) -> None:
        super().__init__(node, network, rules)
        self._node = node

    async def hash_at(self, height: int) -> str:
        """Give the hash of a block of the node's chain. **Raises**: `NodeBehind`."""
        try:
            answer = await self._node.ask("getblockhash", height)
        except UnknownAnswer as error:
            if error.code in _OUT_OF_RANGE:
                message = f"{self.name} has no block {height}: {error}"
                raise NodeBehind(message) from error
            raise
        return hash_of(decode(answer, str))

    async def block_bytes(self, block_hash: str) -> bytes:
        """Give a block as it is on the wire. **Raises**: `NodeBehind` where the node does not store it."""
        try:
            answer = await self._node.ask("getblock", block_hash, _RAW)
        except UnknownAnswer as error:
            if error.code in {_UNKNOWN_NAME, _NOT_STORED}:
                message = f"{self.name} does not have block {block_hash}: {error}"
                raise NodeBehind(message) from error
            raise
        return bytes_of(decode(answer, str))

    async def waiting(self) -> list[str]:
        """Name what waits in the mempool, in the node's words: there may be a hundred thousand."""
        return decode(await self._node.ask("getrawmempool"), list[str])

    async def transactions(self, names: Sequence[str]) -> list[LooseTransaction | ChainError]:
        """Give transactions that wait in the mempool; for each that cannot be had, why."""
        answers = await self._node.batch(
            [Question("getrawtransaction", [name, _RAW]) for name in names]
        )
        return [self._one(name, answer) for name, answer in zip(names, answers, strict=True)]

    async def transaction(self, name: str) -> KnownTransaction | None:
        """Give a transaction that waits, or is found by the node's index where it has one."""
        try:
            answer = await self._node.ask("getrawtransaction", name, _VERBOSE)
        except UnknownAnswer as error:
            if error.code == _UNKNOWN_NAME:
                return None
            raise
        told = decode(answer, _ToldTransaction)
        mined_in = None if told.block_hash is None else hash_of(told.block_hash)
        return KnownTransaction(
            transaction=self._loose(name, bytes_of(told.hex)), block_hash=mined_in
        )

    async def height_of_unspent(self, name: str) -> int | None:
        """Give how high a transaction stands, of which some first output is not spent yet."""
        answers = await self._node.batch(
            [Question("gettxout", [name, index, _CHAIN_ONLY]) for index in range(OUTPUTS_PROBED)]
        )
        for answer in answers:
            if isinstance(answer, Unsupported):
                continue
            if isinstance(answer, ChainError):
                raise answer
            unspent = decode_or_none(answer, _Unspent)
            if unspent is not None and unspent.confirmations:
                return await self._height_at(unspent)
        return None

    async def _height_at(self, unspent: _Unspent) -> int:
        best = await self.header_by_hash(hash_of(unspent.best_block))
        if best is None:
            message = (
                f"{self.name} names {unspent.best_block} as its best block and does not have it"
            )
            raise NodeBehind(message)
        return best.height + 1 - unspent.confirmations

    async def _tip(self) -> str:
        return hash_of(decode(await self._node.ask("getbestblockhash"), str))

    async def _told(self, block_hash: str) -> ToldHeader | None:
        try:
            answer = await self._node.ask("getblockheader", block_hash, _IN_JSON)
        except NodeBehind:
            return None
        except UnknownAnswer as error:
            if error.code == _UNKNOWN_NAME:
                return None
            if error.code == _BESIDE:
                return await self._told_beside(block_hash)
            raise
        return decode(answer, ToldHeader)

    async def _told_beside(self, block_hash: str) -> ToldHeader:
        """Tell a header of a branch that btcd left, of which it gives the bytes and no height.

        It stands one above its parent, and so on down to one that has its height.
        """
        branch: list[tuple[str, bytes]] = []
        below: int | None = None
        while below is None:
            heed_cancellation()
            if len(branch) == _BESIDE_MAX:
                message = (
                    f"{self.name} has {_BESIDE_MAX} headers above {block_hash} beside its chain"
                )
                raise AnswerRefused(message)
            answer = await self._node.ask("getblockheader", block_hash, _IN_BYTES)
            branch.append((block_hash, bytes_of(decode(answer, str))))
            block_hash = read_header(branch[-1][1]).parent_hash
            below = await self._height_on_chain(block_hash)
        placed = [
            (name, told_of(data, below + above))
            for above, (name, data) in enumerate(reversed(branch), 1)
        ]
        for name, told in placed:
            self._keep(name, told)
        return placed[-1][1]

    async def _height_on_chain(self, block_hash: str) -> int | None:
        """Give how high a header stands; None for one that is not on btcd's chain."""
        known = self._headers.get(block_hash)
        if known is not None:
            return known.height
        try:
            answer = await self._node.ask("getblockheader", block_hash, _IN_JSON)
        except UnknownAnswer as error:
            if error.code == _BESIDE:
                return None
            raise
        return decode(answer, ToldHeader).height

    async def _read_line(self, height: int) -> None:
        heights = range(max(0, height - MEDIAN_SPAN + 1), height + 1)
        hashes = await self._node.batch([Question("getblockhash", [each]) for each in heights])
        names = [hash_of(decode(one, str)) for one in hashes if not isinstance(one, ChainError)]
        unknown = [name for name in names if self._headers.get(name) is None]
        answers = await self._node.batch(
            [Question("getblockheader", [name, _IN_JSON]) for name in unknown]
        )
        for name, answer in zip(unknown, answers, strict=True):
            if not isinstance(answer, ChainError):
                self._keep(name, decode(answer, ToldHeader))

    def _one(self, name: str, answer: Raw | ChainError) -> LooseTransaction | ChainError:
        if isinstance(answer, ChainError):
            return answer
        try:
            return self._loose(name, bytes_of(decode(answer, str)))
        except AnswerRefused as error:
            return error
