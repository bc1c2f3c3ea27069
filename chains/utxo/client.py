"""One node of a Bitcoin-like chain, whatever it speaks: what hashes cover is hashed here.

Talks through its two kinds, `chains.utxo.core` (JSON-RPC) and `chains.utxo.esplora` (HTTP); judges nothing
that needs more than one node. A header that does not hash to its name, lacks its work, or names a target
that its parent does not allow, is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Struct

from chains.errors import AnswerRefused, ChainError, NodeBehind, Unsupported, WrongChain
from chains.heed import heed_cancellation
from chains.http_node import HttpNode
from chains.port import Head, Header
from chains.utxo import auxpow
from chains.utxo.header import read_header, require_work
from chains.utxo.headers import HeaderMemory, PlacedHeader, told_header
from chains.utxo.loose import LooseTransaction, read_loose
from chains.utxo.networks import Network
from chains.utxo.rules import BlockRules
from chains.utxo.told_header import ToldHeader, header_bytes


class KnownTransaction(Struct, frozen=True, kw_only=True):
    """What a node says of a transaction; `block_hash` is None while it waits to be mined."""

    transaction: LooseTransaction
    block_hash: str | None


class UtxoClient(ABC):
    """One node of one Bitcoin-like chain."""

    #: Whether its mempool can be read whole, one transaction after another.
    shows_mempool: bool
    #: Whether it knows outputs by address.
    tells_balances: bool = False

    def __init__(self, node: HttpNode, network: Network, rules: BlockRules) -> None:
        self._network = network
        self._rules = rules
        self._headers = HeaderMemory(rules)
        self.name = node.name

    @abstractmethod
    async def hash_at(self, height: int) -> str:
        """Give the hash of a block of the node's chain. **Raises**: `NodeBehind`."""

    @abstractmethod
    async def block_bytes(self, block_hash: str) -> bytes:
        """Give a block as it is on the wire. **Raises**: `NodeBehind` where the node does not store it."""

    @abstractmethod
    async def waiting(self) -> list[str]:
        """Name what waits in the mempool, in the node's words."""

    @abstractmethod
    async def transactions(self, names: Sequence[str]) -> list[LooseTransaction | ChainError]:
        """Give transactions that wait in the mempool; for each that cannot be had, why."""

    @abstractmethod
    async def transaction(self, name: str) -> KnownTransaction | None:
        """Give a transaction that waits, or is found by the node's index where it has one."""

    @abstractmethod
    async def height_of_unspent(self, name: str) -> int | None:
        """Give how high a transaction stands, of which some first output is not spent yet."""

    async def balance(self, address: str, height: int) -> int:
        """Give what an address holds of outputs up to a height. **Raises**: `Unsupported`."""
        message = f"{self.name} does not tell what {address} held at {height}"
        raise Unsupported(message)

    @abstractmethod
    async def _tip(self) -> str:
        """Name the best block."""

    @abstractmethod
    async def _told(self, block_hash: str) -> ToldHeader | None:
        """Give what the node tells of a header; None where it has none."""

    @abstractmethod
    async def _read_line(self, height: int) -> None:
        """Read the headers up to a height that the median needs, in few requests.

        Only to be fast: what is missing afterwards, or moved meanwhile, is asked for by its hash.
        """

    async def identify(self) -> None:
        """Compare the first block of the node's chain. **Raises**: `WrongChain` naming both."""
        found = await self.hash_at(0)
        if found != self._network.genesis_hash:
            message = (
                f"{self.name}: expected {self._network.name}, whose first block is "
                f"{self._network.genesis_hash}, found a chain that begins with {found}"
            )
            raise WrongChain(message)

    async def head(self) -> Head:
        """Give the tip. These chains call nothing final by themselves."""
        tip = await self._tip()
        header = await self.header_by_hash(tip)
        if header is None:
            message = f"{self.name} names {tip} as its best block and does not have it"
            raise NodeBehind(message)
        return Head(header=header, finalized_height=0)

    async def header_at(self, height: int) -> Header:
        """Give the header at a height of the node's chain. **Raises**: `NodeBehind`."""
        block_hash = await self.hash_at(height)
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
            found = await self._told(missing)
            if found is None:
                if not line:
                    return None
                message = f"{self.name} has {line[-1].hash} and not its parent {missing}"
                raise NodeBehind(message)
            self._keep(missing, found)

    def _keep(self, block_hash: str, told: ToldHeader) -> None:
        """Make the header's bytes of what is told, and require that they are the block's.

        Merged work stands in the block alone, and is checked when that is read.
        """
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
        self._headers.add(
            PlacedHeader(
                hash=header.hash,
                parent_hash=header.parent_hash,
                height=told.height,
                time_s=header.time_s,
                bits=header.bits,
            )
        )

    def _loose(self, name: str, data: bytes) -> LooseTransaction:
        """Read a transaction's bytes. **Raises**: `AnswerRefused` where they are another one's."""
        found = read_loose(data, self._rules)
        if found.txid != name:
            message = f"expected transaction {name}, found the bytes of {found.txid}"
            raise AnswerRefused(message)
        return found
