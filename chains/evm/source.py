"""An EVM chain as the port promises it: several nodes, one answer.

Reads nodes through a pool, gives headers, whole blocks and look-ups to the loop. Keeps no position
and publishes nothing. What it learns about nodes (what they can do, how wide a range they take) only
makes it faster.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from chains.catalog import Catalogue
from chains.clock import Clock
from chains.errors import (
    AnswerRefused,
    CatalogueDiffers,
    ChainError,
    NodeBehind,
    NodeBusy,
    Retryable,
    Unsupported,
    WrongChain,
)
from chains.evm import checks, words
from chains.evm.client import Abilities, EvmClient
from chains.evm.frames import trees_of_flat, trees_of_traced
from chains.evm.heads import NewHeads
from chains.evm.listed import listed_on
from chains.evm.reader import BlockReader, SpanRead, Trees
from chains.evm.wire import FullBlock
from chains.heed import heed_cancellation
from chains.http_node import HttpNode, NodeLimits
from chains.observe import Observer, nobody
from chains.pool import RpcPool
from chains.port import BlockRead, Head, Header, Unmined, WatchedAddresses
from chains.rpc import RpcNode
from chains.several import NewestHead, Several, greet_all
from chains.told import told
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.facts import LookedUpState, TransactionLookedUp, TransferSeen
from schemas.values import BlockRef

_SPAN_FIRST: Final = 16
_SPAN_MAX: Final = 64
#: How far to look for a block with a transaction whose receipt proves that history is there.
_HISTORY_PROBES_MAX: Final = 20
_POLL_SHARE: Final = 4
_POLL_MIN_S: Final = 0.1
_POLL_MAX_S: Final = 1.0


class EvmSource(Several[EvmClient]):
    """One EVM chain, seen through one or more nodes (`chains.port.ChainSource`)."""

    def __init__(
        self,
        *,
        chain: ChainName,
        urls: Sequence[str],
        catalogue: Catalogue,
        clock: Clock,
        observer: Observer = nobody,
        limits: NodeLimits | None = None,
        poll_interval_s: float | None = None,
    ) -> None:
        entry = catalogue.chain(chain)
        self._entry = entry
        self._catalogue = catalogue
        self._clock = clock
        self._listed = listed_on(chain, catalogue)
        http = [url for url in urls if url.startswith("http")]
        sockets = [url for url in urls if url.startswith("ws")]
        if not http or len(http) + len(sockets) != len(urls):
            message = (
                f"chain {chain}: expected at least one http(s):// node, and ws(s):// beside it"
            )
            raise ValueError(message)
        nodes = [
            RpcNode(url, chain=chain, clock=clock, observer=observer, limits=limits or NodeLimits())
            for url in http
        ]
        super().__init__(
            RpcPool(nodes, identify=self._identify_node, clock=clock),
            {id(node): EvmClient(node, Abilities()) for node in nodes},
        )
        self._heads = NewHeads(sockets[0], clock) if sockets else None
        self._reader = BlockReader(
            listed=self._listed, rule=entry.receipts_root, clock=clock, trees=self._trees
        )
        share = float(entry.block_time_s) / _POLL_SHARE
        self._poll_s = poll_interval_s or max(_POLL_MIN_S, min(_POLL_MAX_S, share))
        self._started = False
        self._span = _SPAN_FIRST
        self._newest = NewestHead(self._pool, clock=clock, block_time_s=float(entry.block_time_s))
        self._unchecked: list[str] = []

    @property
    def chain(self) -> ChainName:
        """The chain that `identify` insists on."""
        return self._listed.chain

    async def start(self) -> None:
        """Identify every node that answers, compare decimals, learn who traces. Harmless twice.

        **Raises**: `WrongChain`, `CatalogueDiffers`; `Retryable` when no node answers.
        """
        if self._started:
            return
        await _import_web3()
        await greet_all(self._pool, lambda node: self._client(node).learn_traces(), self.chain)
        await self._compare_decimals()
        self._started = True

    async def close(self) -> None:
        """Release connections. May be called twice."""
        await self._pool.close()
        if self._heads is not None:
            await self._heads.close()

    async def identify(self) -> None:
        """Ask the node in use for its chain id again. **Raises**: `WrongChain` naming both ids."""
        await self._pool.read(self._pool.identify)
        for client in self._clients.values():
            if client.abilities.traces_unsure and client.abilities.traces is None:
                with suppress(Retryable, Unsupported):
                    await client.learn_traces()

    @property
    def shows_mempool(self) -> bool:
        """Say no: what waits on an EVM chain are intentions, which decide nothing."""
        return False

    def blind_spots(self) -> Sequence[str]:
        """Name what these nodes cannot show."""
        coin = self._catalogue.asset(self._listed.coin).symbol
        spots = [
            f"{self.chain}: the decimals of {contract} could not be compared: it does not say"
            for contract in self._unchecked
        ]
        if not any(client.abilities.traces for client in self._clients.values()):
            spots.append(
                f"{self.chain}: no node traces calls, so {coin} that a contract sends (a contract "
                f"wallet, some exchanges) is not seen when it arrives; routes in {coin} are blind to it"
            )
        return spots

    async def head(self) -> Head:
        """Give the tip; when it is lower than one seen before, or old, ask every other node too."""
        return await self._newest.ask(self._head_of)

    async def read_block(self, header: Header, watched: WatchedAddresses) -> BlockRead:
        """Read one block by hash, whole, from one node."""
        return await self._pool.read(
            lambda node: self._reader.read_block(self._client(node), header, watched)
        )

    async def read_range(
        self, first_height: int, last: Header, watched: WatchedAddresses
    ) -> BlockRead:
        """Read a span below the finalized height in pieces; any error halves a piece first.

        Pieces must link to each other and end in `last`. **Raises**: `AnswerRefused` when they do
        not; whatever a single block raises.
        """
        transfers: list[TransferSeen] = []
        ignored: Counter[str] = Counter()
        before: str | None = None
        height = first_height
        while height <= last.height:
            piece = await self._piece(height, last.height, watched)
            if before is not None and piece.parent_hash != before:
                message = f"block {height} does not follow {before}: the chain moved while we read"
                raise AnswerRefused(message)
            transfers += piece.transfers
            ignored.update(piece.ignored)
            before, height = piece.last.hash, piece.last.height + 1
        if before is not None and before != last.hash:
            message = f"expected the span to end in {last.hash}, found {before}"
            raise AnswerRefused(message)
        return BlockRead(
            header=last, transfers=transfers, ignored=dict(ignored), recipients=frozenset()
        )

    async def look_up(self, tx: str, watched: WatchedAddresses) -> TransactionLookedUp:
        """Tell what any node knows of a transaction, and what it pays us, read from its block."""
        name = words.find_transaction_id(tx)
        if name is None:
            return self._looked_up(tx, LookedUpState.UNKNOWN)
        state, header = await self._look_up_anywhere(name)
        if header is None:
            return self._looked_up(name, state)
        read = await self.read_block(header, watched)
        mine = [seen for seen in read.transfers if seen.transfer.split("/")[1] == name]
        block = BlockRef(height=header.height, hash=header.hash, time=header.time)
        return TransactionLookedUp(
            request="",
            chain=self.chain,
            tx=name,
            state=state,
            block=block,
            pays=told(mine),
        )

    async def history_reaches(self, height: int) -> bool:
        """Prove that receipts are still there: a block with a transaction must give its receipt."""
        try:
            return await self._pool.read(lambda node: self._reaches(self._client(node), height))
        except NodeBehind:
            return False

    async def balance_at(self, asset: AssetName, address: str, header: Header) -> BaseUnits:
        """Give what an address holds of the coin or of a listed token after a block."""
        entry = self._catalogue.asset(asset)
        contract = None if entry.is_coin else entry.id.rpartition(":")[2]
        return BaseUnits(
            await self._pool.read(
                lambda node: self._client(node).balance_at(contract, address, header)
            )
        )

    async def wait_for_change(self, timeout_s: float) -> None:
        """Return on a pushed head, else after the poll interval."""
        if self._heads is not None and await self._heads.wait(timeout_s):
            return
        await self._clock.sleep(min(timeout_s, self._poll_s))

    async def pending(
        self, watched: WatchedAddresses, outpoints: Collection[str]
    ) -> Unmined | None:
        """Say that there is none: an EVM mempool shows intentions, which decide nothing."""
        del watched, outpoints
        return None

    async def _identify_node(self, node: HttpNode) -> None:
        found = await self._client(node).chain_id()
        if found != self._listed.chain_id:
            message = f"{node.name}: expected chain id {self._listed.chain_id}, found {found}"
            raise WrongChain(message)

    async def _compare_decimals(self) -> None:
        self._unchecked = []
        for asset in self._catalogue.assets_of(self.chain):
            if asset.is_coin:
                continue
            contract = asset.id.rpartition(":")[2]
            found = await self._decimals(contract)
            if found is None:
                self._unchecked.append(asset.id)
            elif found != asset.decimals:
                what = "no contract" if found < 0 else f"{found} decimals"
                message = f"asset {asset.id}: expected {asset.decimals} decimals, found {what}"
                raise CatalogueDiffers(message)

    async def _decimals(self, contract: str) -> int | None:
        return await self._pool.read(lambda node: self._client(node).decimals(contract))

    async def _head_of(self, node: HttpNode) -> Head:
        return await self._client(node).head(finalized=self._entry.finalized)

    async def _trees(self, header: Header, block: FullBlock) -> Trees | None:
        """Give call trees from a node that traces; None only where none of them ever does."""
        if not any(client.abilities.traces for client in self._clients.values()):
            return None
        return await self._pool.read(
            lambda node: self._trees_of(self._client(node), header, block),
            among=lambda node: self._client(node).abilities.traces is not None,
        )

    async def _trees_of(self, client: EvmClient, header: Header, block: FullBlock) -> Trees:
        if client.abilities.traces == "flat":
            frames = await client.flat_traces(header)
            return trees_of_flat(frames, self._traceable(block), header.hash)
        traced = await client.traced(header)
        every = [words.hash_text(transaction.hash) for transaction in block.transactions]
        names = every if len(traced) == len(every) else self._traceable(block)
        return trees_of_traced(traced, names)

    def _traceable(self, block: FullBlock) -> list[str]:
        """Name the transactions that the EVM ran; bridge entries are written by the chain itself."""
        bridged = self._entry.receipts_root == "without_bridge_receipts"
        return [
            words.hash_text(transaction.hash)
            for transaction in block.transactions
            if not (bridged and checks.is_bridge(transaction))
        ]

    async def _piece(self, first: int, last_height: int, watched: WatchedAddresses) -> SpanRead:
        """Read as much from `first` on as the nodes give, halving down to one block, read by hash."""
        while True:
            heed_cancellation()
            upto = min(last_height, first + self._span - 1)
            if upto == first:
                self._span = min(_SPAN_MAX, self._span * 2)
                return await self._single(first, watched)
            try:
                piece = await self._span_of(first, upto, watched)
            except (Retryable, Unsupported) as error:
                self._span = max(1, (upto - first + 1) // 2)
                if isinstance(error, NodeBusy):
                    raise
                continue
            self._span = min(_SPAN_MAX, self._span + 1)
            return piece

    async def _span_of(self, first: int, upto: int, watched: WatchedAddresses) -> SpanRead:
        return await self._pool.read(
            lambda node: self._reader.read_span(self._client(node), first, upto, watched)
        )

    async def _single(self, height: int, watched: WatchedAddresses) -> SpanRead:
        header = await self.header_at(height)
        read = await self.read_block(header, watched)
        return SpanRead(
            parent_hash=header.parent_hash,
            last=header,
            transfers=read.transfers,
            ignored=Counter(read.ignored),
        )

    async def _look_up_anywhere(self, name: str) -> tuple[LookedUpState, Header | None]:
        """Ask every node until one knows the transaction; unknown only when all of them answered."""
        failure: ChainError | None = None
        for node in self._pool.nodes:
            try:
                found = await self._look_up_on(node, name)
            except (Retryable, Unsupported) as error:
                failure = error
                continue
            if found[0] is not LookedUpState.UNKNOWN:
                return found
        if failure is not None:
            raise failure
        return LookedUpState.UNKNOWN, None

    async def _look_up_on(self, node: HttpNode, name: str) -> tuple[LookedUpState, Header | None]:
        client = self._client(node)
        found = await self._pool.ask_one(node, lambda _: client.transaction(name))
        if found is None:
            return LookedUpState.UNKNOWN, None
        if found.block_hash is None:
            return LookedUpState.PENDING, None
        header = await client.header_by_hash(words.hash_text(found.block_hash))
        receipts = await client.receipts_of([name])
        if header is None or receipts[0] is None:
            message = f"{node.name} says that {name} is mined and does not have its block yet"
            raise NodeBehind(message)
        succeeded = words.integer(receipts[0].status or "0x0") == 1
        return LookedUpState.INCLUDED if succeeded else LookedUpState.FAILED, header

    def _looked_up(self, tx: str, state: LookedUpState) -> TransactionLookedUp:
        return TransactionLookedUp(request="", chain=self.chain, tx=tx[:256], state=state)

    @staticmethod
    async def _reaches(client: EvmClient, height: int) -> bool:
        for probed in range(height, height + _HISTORY_PROBES_MAX):
            found = await client.block_ids(probed)
            if found is None:
                return probed > height
            header, names = found
            if names:
                receipt = (await client.receipts_of(names[:1]))[0]
                return (
                    receipt is not None and words.hash_text(receipt.block_hash or "") == header.hash
                )
        return True


async def _import_web3() -> None:
    """Import web3 aside: it takes a second, for which the loop that we share must not stand still.

    It also brings a library that lifts Python's recursion limit so far that deep input ends the
    process instead of raising; nothing here needs that, so it is put back.
    """
    usual = sys.getrecursionlimit()
    await asyncio.to_thread(import_module, "chains.evm.web3_provider")
    sys.setrecursionlimit(usual)
