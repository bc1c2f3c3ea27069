"""A Bitcoin-like chain as the port promises it: several nodes, one answer.

Reads nodes through a pool, gives headers, whole blocks, the mempool and look-ups to the loop. Keeps no
position and publishes nothing. What it remembers (headers, the names of what was mined lately, what waits)
only makes it faster, or finds what a node without an index cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from chains.at_once import first_good
from chains.catalog import Catalogue
from chains.clock import Clock
from chains.errors import (
    AnswerRefused,
    ChainError,
    NodeBehind,
    Retryable,
    Unsupported,
)
from chains.heed import heed_cancellation
from chains.http_node import HttpNode, NodeLimits
from chains.observe import Observer, nobody
from chains.pool import RpcPool
from chains.port import BlockRead, Head, Header, Unmined, WatchedAddresses
from chains.rpc import RpcNode
from chains.several import NewestHead, Several, greet_all
from chains.told import told
from chains.typed import find_hash
from chains.utxo import pushes
from chains.utxo.block import RawBlock, read_block
from chains.utxo.client import UtxoClient
from chains.utxo.core import CoreClient
from chains.utxo.esplora import SCHEME, EsploraClient
from chains.utxo.loose import LooseTransaction
from chains.utxo.mined import MinedLately
from chains.utxo.networks import NETWORKS, Network
from chains.utxo.pays import Telling, transfers_of
from chains.utxo.pushes import NewBlocks
from chains.utxo.rules import BlockRules, rules_of
from chains.utxo.waiting import Waiting
from schemas.amounts import BaseUnits
from schemas.caip import AssetName, ChainName
from schemas.facts import LookedUpState, TransactionLookedUp, TransferSeen
from schemas.values import BlockRef, split_transfer_id

#: A raw block is a few MB and more in hex: so many are read at once in a long span.
_BLOCKS_AT_ONCE: Final = 4
#: Transactions are read from the mempool in such portions, and no more of them in one look.
_PORTION: Final = 50
_READ_A_LOOK: Final = 2_000
#: A node that answers slowly must not keep blocks waiting: what is left is read at the next look.
_LOOK_S: Final = 3.0
_POLL_S: Final = 1.0


class UtxoSource(Several[UtxoClient]):
    """One Bitcoin-like chain, seen through one or more nodes (`chains.port.ChainSource`)."""

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
        self._chain = chain
        self._coin = AssetName(entry.coin)
        self._network = NETWORKS[chain]
        self._rules = rules_of(chain)
        self._clock = clock
        pushing = [url for url in urls if url.startswith(pushes.SCHEME)]
        urls = [url for url in urls if url not in pushing]
        if not urls or not all(url.removeprefix(SCHEME).startswith("http") for url in urls):
            message = (
                f"chain {chain}: expected the URL of one node at least, http(s)://… or, for a server "
                f"that speaks Esplora, {SCHEME}https://…"
            )
            raise ValueError(message)
        nodes: list[HttpNode] = []
        clients: dict[int, UtxoClient] = {}
        for url in urls:
            node, client = _open(
                url,
                self._network,
                self._rules,
                clock=clock,
                observer=observer,
                limits=limits or NodeLimits(),
            )
            nodes.append(node)
            clients[id(node)] = client
        super().__init__(
            RpcPool(nodes, identify=lambda node: self._client(node).identify(), clock=clock),
            clients,
        )
        self._newest = NewestHead(self._pool, clock=clock, block_time_s=float(entry.block_time_s))
        self._pushes = NewBlocks(pushing[0]) if pushing else None
        self._poll_s = poll_interval_s or _POLL_S
        self._waiting = Waiting()
        self._mined = MinedLately()

    @property
    def chain(self) -> ChainName:
        """The chain that `identify` insists on."""
        return self._chain

    async def start(self) -> None:
        """Identify every node that answers. Harmless twice.

        **Raises**: `WrongChain`; `Retryable` when no node answers.
        """
        await greet_all(self._pool, self._pool.identify, self._chain)

    async def close(self) -> None:
        """Release connections. May be called twice."""
        await self._pool.close()
        if self._pushes is not None:
            await self._pushes.close()

    async def identify(self) -> None:
        """Ask the node in use for its first block again. **Raises**: `WrongChain` naming both."""
        await self._pool.read(self._pool.identify)

    @property
    def shows_mempool(self) -> bool:
        """Whether one node at least gives its mempool."""
        return any(client.shows_mempool for client in self._clients.values())

    def blind_spots(self) -> Sequence[str]:
        """Name what these nodes cannot show: nothing in a block is hidden, whoever made it."""
        if self.shows_mempool:
            return ()
        spot = (
            f"{self._chain}: no node shows its mempool, so a payment is seen when it is mined and not "
            "before; add a node of your own to see it within seconds"
        )
        return (spot,)

    async def head(self) -> Head:
        """Give the tip; when it is lower than one seen before, or old, ask every other node too."""
        return await self._newest.ask(lambda node: self._client(node).head())

    async def read_block(self, header: Header, watched: WatchedAddresses) -> BlockRead:
        """Read one raw block by hash, whole, from one node."""
        block, node = await self._pool.read(lambda node: self._raw(node, header, watched))
        ignored: Counter[str] = Counter()
        transfers = self._transfers(block, header, node, ignored)
        return BlockRead(
            header=header,
            transfers=transfers,
            ignored=dict(ignored),
            recipients=block.scripts,
            spent=block.spent,
        )

    async def read_range(
        self, first_height: int, last: Header, watched: WatchedAddresses
    ) -> BlockRead:
        """Read a span block by block, some at once. They must link to each other and end in `last`.

        **Raises**: `AnswerRefused` when they do not; whatever a single block raises.
        """
        transfers: list[TransferSeen] = []
        ignored: Counter[str] = Counter()
        before: str | None = None
        height = first_height
        while height <= last.height:
            heed_cancellation()
            upto = min(last.height, height + _BLOCKS_AT_ONCE - 1)
            calls = [partial(self._at, each, watched) for each in range(height, upto + 1)]
            for read in await first_good(calls):
                if before is not None and read.header.parent_hash != before:
                    message = (
                        f"block {read.header.height} does not follow {before}: the chain moved"
                    )
                    raise AnswerRefused(message)
                transfers += read.transfers
                ignored.update(read.ignored)
                before, height = read.header.hash, read.header.height + 1
        if before is not None and before != last.hash:
            message = f"expected the span to end in {last.hash}, found {before}"
            raise AnswerRefused(message)
        return BlockRead(
            header=last, transfers=transfers, ignored=dict(ignored), recipients=frozenset()
        )

    async def look_up(self, tx: str, watched: WatchedAddresses) -> TransactionLookedUp:
        """Tell what any node knows of a transaction, and what it pays us, read from its block.

        Every node is asked until one knows it; it is unknown only when all of them answered.
        """
        name = find_hash(tx)
        if name is None:
            return self._looked_up(tx, LookedUpState.UNKNOWN)
        failure: ChainError | None = None
        for node in self._pool.nodes:
            try:
                found = await self._pool.ask_one(
                    node, lambda node: self._look_up_on(node, name, watched)
                )
            except (Retryable, Unsupported) as error:
                failure = error
                continue
            if found.state is not LookedUpState.UNKNOWN:
                return found
        if failure is not None:
            raise failure
        return self._looked_up(name, LookedUpState.UNKNOWN)

    async def history_reaches(self, height: int) -> bool:
        """Prove that blocks are still stored: a pruned node has headers and no transactions."""
        try:
            return await self._pool.read(lambda node: self._stores(self._client(node), height))
        except NodeBehind:
            return False

    async def balance_at(self, asset: AssetName, address: str, header: Header) -> BaseUnits:
        """Give what an Esplora server counts at an address up to a block; other nodes do not know.

        **Raises**: `Unsupported` without such a server.
        """
        if asset != self._coin:
            message = f"{self._chain}: there is no {asset} here"
            raise Unsupported(message)
        return BaseUnits(
            await self._pool.read(
                lambda node: self._balance(self._client(node), address, header),
                among=lambda node: self._client(node).tells_balances,
            )
        )

    async def wait_for_change(self, timeout_s: float) -> None:
        """Return on a pushed block, else after the poll interval: pushes may stop without a word."""
        patience_s = min(timeout_s, self._poll_s)
        if self._pushes is None:
            await self._clock.sleep(patience_s)
        else:
            await self._pushes.wait(patience_s)

    async def pending(
        self, watched: WatchedAddresses, outpoints: Collection[str]
    ) -> Unmined | None:
        """Give what waits in one node's mempool, as far as it could be read by now.

        A first look at a full mempool takes several calls: what comes in meanwhile is read first.
        """
        if not self.shows_mempool:
            return None
        return await self._pool.read(
            lambda node: self._look(node, watched, outpoints),
            among=lambda node: self._client(node).shows_mempool,
        )

    async def _raw(
        self, node: HttpNode, header: Header, watched: WatchedAddresses
    ) -> tuple[RawBlock, str]:
        """Read a block from one node; give it, and the node's name."""
        client = self._client(node)
        block = read_block(await client.block_bytes(header.hash), self._rules, watched)
        if block.header.hash != header.hash:
            message = f"expected block {header.hash}, {node.name} gives {block.header.hash}"
            raise AnswerRefused(message)
        if block.height not in {None, header.height}:
            message = f"block {header.hash} says height {block.height}, expected {header.height}"
            raise AnswerRefused(message)
        self._mined.add(header.hash, block.txids)
        return block, node.name

    def _transfers(
        self, block: RawBlock, header: Header, node: str, ignored: Counter[str]
    ) -> list[TransferSeen]:
        found = transfers_of(block.paid, self._telling(header, node, ignored))
        return [self._since_it_waited(seen) for seen in found]

    def _since_it_waited(self, seen: TransferSeen) -> TransferSeen:
        """Give a mined transfer with its first sight in the mempool, if there was one."""
        at = self._waiting.first_sight(split_transfer_id(seen.transfer)[1])
        return seen if at is None else replace(seen, first_seen_at=min(at, seen.first_seen_at))

    def _telling(self, header: Header, node: str, ignored: Counter[str]) -> Telling:
        return Telling(
            network=self._network,
            asset=self._coin,
            block=BlockRef(height=header.height, hash=header.hash, time=header.time),
            seen_at=self._clock.now(),
            node=node,
            ignored=ignored,
        )

    async def _at(self, height: int, watched: WatchedAddresses) -> BlockRead:
        return await self.read_block(await self.header_at(height), watched)

    async def _stores(self, client: UtxoClient, height: int) -> bool:
        header = await client.header_at(height)
        await client.block_bytes(header.hash)
        return True

    async def _balance(self, client: UtxoClient, address: str, header: Header) -> int:
        """Ask for a balance of the server's present chain, which must hold the block before and after."""
        await self._require_on_chain(client, header)
        held = await client.balance(address, header.height)
        await self._require_on_chain(client, header)
        return held

    async def _require_on_chain(self, client: UtxoClient, header: Header) -> None:
        if not await self._is_on_chain(client, header):
            message = f"{client.name} has another block at {header.height} than {header.hash}"
            raise NodeBehind(message)

    # --- the mempool ---------------------------------------------------------------------------

    async def _look(
        self, node: HttpNode, watched: WatchedAddresses, outpoints: Collection[str]
    ) -> Unmined:
        client, waiting = self._client(node), self._waiting
        waiting.listed(await client.waiting(), watched)
        failed: list[str] = []
        until_s = self._clock.monotonic_s() + _LOOK_S
        for _ in range(_READ_A_LOOK // _PORTION):
            heed_cancellation()
            names = waiting.next_unread(_PORTION)
            if not names or self._clock.monotonic_s() > until_s:
                waiting.put_back(names)
                break
            found = await client.transactions(names)
            for name, one in zip(names, found, strict=True):
                if isinstance(one, LooseTransaction):
                    waiting.take(one, self._clock.now(), watched, outpoints)
                else:
                    failed.append(name)
        waiting.put_back(failed)
        return Unmined(transfers=self._waiting_for_us(node.name), spent=waiting.rivals(outpoints))

    def _waiting_for_us(self, node: str) -> list[TransferSeen]:
        found: list[TransferSeen] = []
        for sighted in self._waiting.sights:
            telling = Telling(
                network=self._network,
                asset=self._coin,
                block=None,
                seen_at=sighted.at,
                node=node,
                method="mempool",
            )
            found += transfers_of([sighted.paid], telling)
        return found

    # --- look-ups ------------------------------------------------------------------------------

    async def _look_up_on(
        self, node: HttpNode, name: str, watched: WatchedAddresses
    ) -> TransactionLookedUp:
        """Ask one node, and have it show the block that it names: another may know better."""
        client = self._client(node)
        known = await client.transaction(name)
        if known is not None and known.block_hash is None:
            return self._looked_up(name, LookedUpState.PENDING)
        header = await self._mined_in(client, name, None if known is None else known.block_hash)
        if header is None:
            return self._looked_up(name, LookedUpState.UNKNOWN)
        block, _ = await self._raw(node, header, watched)
        if bytes.fromhex(name)[::-1] not in block.txids:
            message = (
                f"{node.name} says that {name} is mined in {header.hash}, which does not hold it"
            )
            raise AnswerRefused(message)
        mine = [paid for paid in block.paid if paid.txid == name]
        telling = self._telling(header, node.name, Counter())
        return TransactionLookedUp(
            request="",
            chain=self._chain,
            tx=name,
            state=LookedUpState.INCLUDED,
            block=telling.block,
            pays=told(transfers_of(mine, telling)),
        )

    async def _mined_in(self, client: UtxoClient, name: str, told_in: str | None) -> Header | None:
        """Find a transaction's block by the node's index, by what was read lately, by what is unspent."""
        first = [] if told_in is None else [told_in]
        for block_hash in [*first, *self._mined.blocks_of(name)]:
            header = await client.header_by_hash(block_hash)
            if header is not None and await self._is_on_chain(client, header):
                return header
        height = await client.height_of_unspent(name)
        return None if height is None else await client.header_at(height)

    @staticmethod
    async def _is_on_chain(client: UtxoClient, header: Header) -> bool:
        try:
            return (await client.header_at(header.height)).hash == header.hash
        except NodeBehind:
            return False

    def _looked_up(self, tx: str, state: LookedUpState) -> TransactionLookedUp:
        return TransactionLookedUp(request="", chain=self._chain, tx=tx[:256], state=state)


def _open(
    url: str,
    network: Network,
    rules: BlockRules,
    *,
    clock: Clock,
    observer: Observer,
    limits: NodeLimits,
) -> tuple[HttpNode, UtxoClient]:
    chain = network.chain
    if url.startswith(SCHEME):
        server = HttpNode(
            url.removeprefix(SCHEME).rstrip("/"),
            chain=chain,
            clock=clock,
            observer=observer,
            limits=limits,
        )
        return server, EsploraClient(server, network, rules)
    node = RpcNode(url, chain=chain, clock=clock, observer=observer, limits=limits)
    return node, CoreClient(node, network, rules)
