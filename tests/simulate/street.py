"""The chains of a run, and the way to their nodes: devnet's chains, asked without sockets.

What both families have is here and the EVM chains; `utxo_street.py` has the Bitcoin-like ones.

Simulated: everything that `chains.devnet` can show (reorganisations, branches that come back, nodes
that lag, stand still, lie, refuse), answers that come late, are cut off or never come. The product's
own reader, pool and parser ask; only the exchange of bytes over HTTP is replaced. Not simulated:
sockets, TLS, websockets and what aiohttp makes of broken ones (tests/contract, tests/cases).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any
from urllib.parse import urlsplit

from chains.devnet.blocks import Block, Fork
from chains.devnet.calls import PLAINLY, How
from chains.devnet.chain import DevnetChain
from chains.devnet.dialogue import reply_to
from chains.devnet.execution import Rules
from chains.devnet.faults import (
    ConflictingLogs,
    CutOff,
    DropSocket,
    DuplicateLogs,
    Fault,
    ForeignLogs,
    Hang,
    HttpStatus,
    HugeBody,
    InvalidJson,
    Refuse,
    RemovedLogs,
    Replace,
    SetField,
    SlowBody,
    Truncate,
    WrongId,
)
from chains.devnet.hexadecimal import data, hash_bytes
from chains.devnet.node import DevnetNode
from chains.devnet.reply import Reply
from chains.devnet.served import AnyNode
from chains.devnet.utxo.chain import UtxoChain
from chains.devnet.world import Seed
from chains.errors import AnswerRefused, NodeUnavailable
from chains.http_node import HttpAnswer, HttpNode
from schemas.caip import AssetName, ChainName
from tests.simulate import database
from tests.simulate.process import Process
from tests.simulate.settings import (
    CHAIN_IDS,
    DOLLAR_CONTRACT,
    TWIN_CONTRACT,
    chain_name,
    coin,
    dollar,
    twin,
)

BLOCKS = ("eth_getBlockByHash", "eth_getBlockByNumber")
RECEIPTS = ("eth_getBlockReceipts", "eth_getTransactionReceipt")

#: Blocks that are there before anybody watches.
BLOCKS_BEFORE = 8


class Movement:
    """Money that a transaction moves to one of ours, if the transaction stands in a block.

    `sent_s`: when its first transaction was sent, in seconds since 1970.
    """

    def __init__(
        self, chain: ChainName, tx: str, to: str, asset: str, amount: int, *, sent_s: int
    ) -> None:
        self.chain, self.tx, self.to, self.asset, self.amount = chain, tx, to, asset, amount
        self.sent_s = sent_s

    def __repr__(self) -> str:
        return (
            f"{self.amount} of {self.asset.rpartition('/')[2][:12]} to {self.to} in {self.tx[:10]}"
        )


class Street(ABC):
    """One chain and its two nodes. `listed` is the asset that orders ask for."""

    name: ChainName
    listed: AssetName
    #: Between the letter of a node and `.invalid`.
    host: str
    chain: DevnetChain | UtxoChain
    nodes: Mapping[str, AnyNode]

    def __init__(self, lot: Random, now: Callable[[], int]) -> None:
        self.lot = lot
        self.now = now
        self.movements: dict[str, list[Movement]] = {}
        self.is_over = False
        self._reached: dict[bytes, int] = {}
        self._measured = 0

    # --- what people do ---

    @abstractmethod
    def pay(self, kind: str, to: str, amount: int) -> str:
        """Send money from somebody who never paid before. `kind` is dollar, twin or coin."""

    @abstractmethod
    def pay_in_vain(self, to: str, amount: int) -> str:
        """Send a transaction that moves nothing to anybody of ours."""

    @abstractmethod
    def replace(self, tx: str) -> bool:
        """Let the payer of a waiting transaction spend the same on something else."""

    @abstractmethod
    def waiting(self) -> Collection[str]:
        """Name what waits to be mined."""

    # --- what the chain does ---

    @abstractmethod
    def mine(self, *, empty: bool = False) -> None:
        """Mine a block at about the present."""

    @property
    @abstractmethod
    def final_height(self) -> int:
        """How high the chain calls itself final."""

    @property
    @abstractmethod
    def forkable(self) -> int:
        """How deep a reorganisation may be."""

    def may_flip_back(self) -> bool:
        """Tell whether the branch that was left last may come back: not from below what may fork."""
        if not self.chain._branches:
            return False
        tree, tip = self.chain.world.tree, self.chain._branches[-1]
        block = tip
        while not tree.is_canonical(block):
            block = tree.parent(block)
        return block is not tip and block.height >= self.chain.height - self.forkable

    # --- what its nodes do ---

    @abstractmethod
    def reply(self, letter: str, body: bytes) -> Reply:
        """Let a node answer."""

    @abstractmethod
    def changes(self, lot: Random) -> Sequence[dict[str, object]]:
        """Give what may change at a node for a while."""

    @abstractmethod
    def lies(self, lot: Random, times: int) -> Sequence[Fault]:
        """Give what a node may lie."""

    def calm_down(self) -> None:
        """Let every node be well again."""
        for node in self.nodes.values():
            node.faults.clear()
            node.switches = type(node.switches)()

    # --- the truth ---

    def reached(self, block: Any) -> int:
        """Give the height of the highest block that was ever built upon a block."""
        tree = self.chain.world.tree
        blocks = list(tree._by_hash.values())
        for young in blocks[self._measured :]:
            at: Any = young
            while at is not None and self._reached.get(at.hash, -1) < young.height:
                self._reached[at.hash] = young.height
                at = tree.get(at.parent_hash)
        self._measured = len(blocks)
        return self._reached[block.hash]

    def line(self) -> Iterator[Any]:
        """The blocks of the chain as it is now, from the first."""
        tree = self.chain.world.tree
        for height in range(tree.head.height + 1):
            block = tree.at(height)
            if block is not None:
                yield block

    def standing(self) -> dict[str, Any]:
        """Where each transaction stands that stands in a block now."""
        return {tx: block for block in self.line() for tx in self.moved_by(block)}

    def stands_in(self, tx: str, block: Any) -> bool:
        """Tell whether a transaction moved something in a block."""
        return tx in self.moved_by(block)

    @abstractmethod
    def moved_by(self, block: Any) -> list[str]:
        """Name the transactions of a block that moved something."""

    @abstractmethod
    def held_by(self, block: Any) -> list[str]:
        """Name the transactions of a block."""

    @abstractmethod
    def places(self, tx: str) -> Sequence[Any]:
        """Give every block of any branch in which a transaction ever stood."""

    @abstractmethod
    def block(self, block_hash: str) -> Any:
        """Give a block of any branch by its hash as the chain writes it, or None."""

    @abstractmethod
    def hash_of(self, block: Any) -> str:
        """Write a block's hash as the chain does."""

    @abstractmethod
    def time_of(self, block: Any) -> int:
        """Give how far the chain is by a block, in seconds since 1970."""

    @abstractmethod
    def is_impossible(self, tx: str) -> bool:
        """Tell whether a transaction that stands spends what this one would."""


class EvmStreet(Street):
    """A chain with tokens."""

    chain: DevnetChain
    nodes: Mapping[str, DevnetNode]

    def __init__(self, number: int, lot: Random, now: Callable[[], int], *, lag: int) -> None:
        super().__init__(lot, now)
        self.name = chain_name(number)
        self.listed = dollar(self.name)
        self.host = str(CHAIN_IDS[number])
        seed = Seed(
            chain_id=CHAIN_IDS[number], genesis_time=now() - 200, fork=Fork.PRAGUE, extra_data=b""
        )
        self.chain = DevnetChain(seed, Rules())
        for symbol, contract in (("USD", DOLLAR_CONTRACT), ("TWIN", TWIN_CONTRACT)):
            self.chain.deploy_token(symbol, 6, address=contract)
        self.chain.finality_lag(lag)
        self.nodes = {name: DevnetNode(self.chain, name) for name in ("a", "b")}
        self._payers = 0
        start = now() - 20 * BLOCKS_BEFORE
        for height in range(BLOCKS_BEFORE):
            self.chain.mine(time=start + 20 * height)

    # --- what people do ---

    def pay(self, kind: str, to: str, amount: int) -> str:
        """Send money from somebody who never paid before: nobody waits for anybody's nonce."""
        self._payers += 1
        chain, payer = self.chain, self.chain.account(f"payer {self._payers}", coin=2 * 10**24)
        if kind == "coin":
            tx, asset = chain.pay_coin(payer, to, amount), coin(self.name)
        else:
            contract = DOLLAR_CONTRACT if kind == "dollar" else TWIN_CONTRACT
            chain.give_token(contract, payer, amount)
            tx = chain.pay_token(contract, payer, to, amount)
            asset = dollar(self.name) if kind == "dollar" else twin(self.name)
        self.movements[tx] = [Movement(self.name, tx, to, asset, amount, sent_s=self.now())]
        return tx

    def pay_in_vain(self, to: str, amount: int) -> str:
        """Send a transaction that fails: it moves nothing."""
        self._payers += 1
        payer = self.chain.account(f"payer {self._payers}")
        how = How(fails="out of patience")
        return self.chain.pay_token(DOLLAR_CONTRACT, payer, to, amount, how)

    def replace(self, tx: str) -> bool:
        """Let the payer of a waiting transaction spend its nonce on something else."""
        known = self.chain.world.known(hash_bytes(tx))
        if self.chain.world.find(known.hash, self.chain.world.tree.head) is not None:
            return False
        payer = "0x" + known.sender.hex()
        how = How(nonce=known.nonce, fee_max=PLAINLY.fee_max * 2, tip_max=PLAINLY.tip_max * 2)
        self.chain.pay_coin(payer, payer, 1, how)
        return True

    def waiting(self) -> Collection[str]:
        return [data(tx.hash) for tx in self.chain.mempool]

    # --- what the chain does ---

    def mine(self, *, empty: bool = False) -> None:
        tip = self.chain.world.tree.head
        time = max(tip.time + 1, self.now() + self.lot.choice((-2, -1, 0, 0, 0, 1)))
        self.chain.mine(time=time, transactions=[] if empty else None)

    @property
    def final_height(self) -> int:
        return self.chain.finalized_height or 0

    @property
    def forkable(self) -> int:
        """How deep a reorganisation may be: the chain does not take back what it called final."""
        return self.chain.height - max(self.final_height, BLOCKS_BEFORE - 1)

    # --- what its nodes do ---

    def reply(self, letter: str, body: bytes) -> Reply:
        return reply_to(self.nodes[letter], body)

    def changes(self, lot: Random) -> Sequence[dict[str, object]]:
        return (
            {"lag": lot.randint(1, 5)},
            {"on_block": self.hash_of(self.chain.world.tree.head)},
            {"half_open": True},
            {"chain_id": 999} if lot.random() < 0.2 else {"lag": 1},
            {"block_receipts": False},
            {"wrong_receipts_root": True},
        )

    def lies(self, lot: Random, times: int) -> Sequence[Fault]:
        other = "0x" + "ee" * 32
        by_hash = ("eth_getBlockByHash",)
        return (
            Truncate(methods=RECEIPTS, keep=0, times=times),
            Truncate(methods=("eth_getLogs",), keep=0, times=times),
            Replace(methods=BLOCKS, times=times),
            Replace(methods=RECEIPTS, times=times),
            SetField(methods=RECEIPTS, field="status", value="0x1", times=times),
            SetField(methods=RECEIPTS, field="blockHash", value=other, times=times),
            SetField(methods=by_hash, field="hash", value=other, times=times),
            SetField(methods=by_hash, field="parentHash", value=other, times=times),
            DuplicateLogs(methods=RECEIPTS, times=times),
            ConflictingLogs(methods=RECEIPTS, times=times),
            ForeignLogs(methods=RECEIPTS, times=times),
            RemovedLogs(methods=RECEIPTS, times=times),
            *lies_of_any_node(lot, times),
        )

    # --- the truth ---

    def moved_by(self, block: Block) -> list[str]:
        return [data(one.transaction.hash) for one in block.executed if one.status == 1]

    def held_by(self, block: Block) -> list[str]:
        return [data(one.transaction.hash) for one in block.executed]

    def places(self, tx: str) -> list[Block]:
        return list(self.chain.world._blocks_of.get(hash_bytes(tx), ()))

    def block(self, block_hash: str) -> Block | None:
        return self.chain.world.tree.get(hash_bytes(block_hash))

    def hash_of(self, block: Block) -> str:
        return data(block.hash)

    def time_of(self, block: Block) -> int:
        return block.time

    def is_impossible(self, tx: str) -> bool:
        """No money is said to wait here: what is sent says nothing of what will be moved."""
        return False


def lies_of_any_node(lot: Random, times: int) -> Sequence[Fault]:
    """Give what may go wrong between us and a node of any family."""
    return (
        WrongId(times=times),
        Refuse(times=times),
        HttpStatus(
            status=lot.choice((429, 500, 503)), retry_after_s=lot.choice((None, 3)), times=times
        ),
        InvalidJson(times=times),
        CutOff(times=times),
        DropSocket(times=times),
        Hang(times=times),
    )


async def exchange(node: HttpNode, path: str, body: bytes | None) -> HttpAnswer:
    """Stand in for `HttpNode._exchange`: the same answers and errors, without a connection."""
    assert body is not None
    assert not path
    process = database.client.get()
    assert isinstance(process, Process)
    world, limits = process.world, node.limits
    letter, host, _ = (urlsplit(node._url).hostname or "").split(".")
    street = next(street for street in world.streets if street.host == host)
    devnet = street.nodes[letter]
    await process.gate()
    if devnet.switches.half_open:
        await process.pass_time(limits.timeout_s)
        raise NodeUnavailable(f"{node.name}: no answer within {limits.timeout_s} s")
    await process.pass_time(world.answer_delay_s(process.lot))
    reply = street.reply(letter, body)
    fault = reply.transport
    match fault:
        case HttpStatus():
            wait = {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
            return HttpAnswer(fault.status, wait, fault.body.encode())
        case InvalidJson():
            return HttpAnswer(200, {}, fault.body.encode())
        case Hang() | SlowBody():
            await process.pass_time(limits.timeout_s)
            raise NodeUnavailable(f"{node.name}: no answer within {limits.timeout_s} s")
        case CutOff() | DropSocket():
            raise NodeUnavailable(f"{node.name}: the answer was cut off")
        case HugeBody():
            raise AnswerRefused(f"{node.name}: an answer above {limits.answer_bytes_max} bytes")
    late_s = world.answer_delay_s(process.lot)
    if late_s > limits.timeout_s:
        await process.pass_time(limits.timeout_s)
        raise NodeUnavailable(f"{node.name}: no answer within {limits.timeout_s} s")
    await process.pass_time(late_s)
    return HttpAnswer(reply.http_status, {}, reply.body or b"")


async def nothing(*_: Any) -> None:
    """Stand in for what the product does aside, in a thread."""
    await asyncio.sleep(0)
