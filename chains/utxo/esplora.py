"""A server that speaks Esplora's HTTP: another's view of the chain, or the only one where a shop runs no node.

Talks to one server through `chains.http_node`. Blocks come raw here too, so that nothing can be left out
of one: its transactions must hash to its root, the root stands in a header with its work, and the header
follows the one before it. The mempool is not read: that would be one request a transaction of all the world.

**Source**: Blockstream/esplora, API.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from chains.answers import decode
from chains.errors import AnswerRefused, ChainError, NodeBehind, NodeUnavailable, Unsupported
from chains.http_node import OK, HttpNode, require_let_in
from chains.utxo.client import KnownTransaction, UtxoClient
from chains.utxo.loose import LooseTransaction
from chains.utxo.networks import Network
from chains.utxo.rules import BlockRules
from chains.utxo.told_header import Height, ToldHeader, Version, Word, hash_of

#: How its URL is told from that of a node: `esplora+https://…`.
SCHEME: Final = "esplora+"
_NOT_FOUND: Final = 404
_TEXT_MAX: Final = 80


class _ToldBlock(Struct):
    id: str
    height: Height
    version: Version
    timestamp: Word
    merkle_root: str
    bits: Word
    nonce: Word
    previousblockhash: str | None = None


class _Status(Struct):
    confirmed: bool
    block_hash: str | None = None


class _Place(Struct):
    block_height: Height | None = None


class _Unspent(Struct):
    value: Annotated[int, Meta(ge=0)]
    status: _Place


class EsploraClient(UtxoClient):
    """One server behind Esplora's HTTP interface."""

    shows_mempool = False
    tells_balances = True

    def __init__(self, node: HttpNode, network: Network, rules: BlockRules) -> None:
        super().__init__(node, network, rules)
        self._node = node

    async def hash_at(self, height: int) -> str:
        """Give the hash of a block of the server's chain. **Raises**: `NodeBehind`."""
        found = await self._get("block-height", f"/block-height/{height}")
        if found is None:
            message = f"{self.name} has no block {height}"
            raise NodeBehind(message)
        return hash_of(_text(found))

    async def block_bytes(self, block_hash: str) -> bytes:
        """Give a block as it is on the wire. **Raises**: `NodeBehind` where the server has none."""
        found = await self._get("block/raw", f"/block/{block_hash}/raw")
        if found is None:
            message = f"{self.name} does not have block {block_hash}"
            raise NodeBehind(message)
        return found

    async def waiting(self) -> list[str]:
        """Refuse: see above."""
        message = f"{self.name}: its mempool is not read"
        raise Unsupported(message)

    async def transactions(self, names: Sequence[str]) -> list[LooseTransaction | ChainError]:
        """Refuse: see above."""
        message = f"{self.name}: its mempool is not read, nor are {len(names)} transactions of it"
        raise Unsupported(message)

    async def transaction(self, name: str) -> KnownTransaction | None:
        """Give a transaction, mined or not, or None."""
        status = await self._get("tx/status", f"/tx/{name}/status")
        data = None if status is None else await self._get("tx/raw", f"/tx/{name}/raw")
        if status is None or data is None:
            return None
        told = decode(status, _Status)
        if told.confirmed and told.block_hash is None:
            message = f"{self.name} says that {name} is mined and not where"
            raise AnswerRefused(message)
        mined_in = None if told.block_hash is None else hash_of(told.block_hash)
        return KnownTransaction(transaction=self._loose(name, data), block_hash=mined_in)

    async def height_of_unspent(self, name: str) -> int | None:
        """Say nothing: the server has an index of all transactions."""
        del name
        return None

    async def balance(self, address: str, height: int) -> int:
        """Add up the unspent outputs of an address that stand at a height or below.

        What was spent since is missing: such a balance may fall and never says too much. Nothing
        proves it, so nothing is credited by it.
        """
        found = await self._get("address/utxo", f"/address/{address}/utxo")
        if found is None:
            message = f"{self.name} does not know the address {address}"
            raise AnswerRefused(message)
        unspent = decode(found, list[_Unspent])
        return sum(
            one.value
            for one in unspent
            if one.status.block_height is not None and one.status.block_height <= height
        )

    async def _tip(self) -> str:
        found = await self._get("blocks/tip/hash", "/blocks/tip/hash")
        if found is None:
            message = f"{self.name} has no best block"
            raise NodeBehind(message)
        return hash_of(_text(found))

    async def _told(self, block_hash: str) -> ToldHeader | None:
        found = await self._get("block", f"/block/{block_hash}")
        if found is None:
            return None
        told = decode(found, _ToldBlock)
        return ToldHeader(
            hash=told.id,
            height=told.height,
            version=told.version,
            merkle_root=told.merkle_root,
            time=told.timestamp,
            bits=f"{told.bits:08x}",
            nonce=told.nonce,
            parent=told.previousblockhash,
        )

    async def _read_line(self, height: int) -> None:
        """Ask for nothing ahead: headers are asked for one by one, and kept."""

    async def _get(self, kind: str, path: str) -> bytes | None:
        """Get what stands at a path; None where there is nothing. **Raises**: `Retryable`."""
        async with self._node.observed(kind):
            answer = await self._node.exchange(path)
            require_let_in(answer)
            if answer.status == _NOT_FOUND:
                return None
            if answer.status != OK:
                message = f"{self.name} answers HTTP {answer.status} to {kind}"
                raise NodeUnavailable(message)
            return answer.body


def _text(body: bytes) -> str:
    return body[:_TEXT_MAX].decode("ascii", "replace").strip()
