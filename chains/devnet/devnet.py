"""A devnet: scripted chains behind the JSON-RPC of their nodes, on one port, in one event loop.

Answers HTTP (of EVM chains websocket too) at `/<chain id>/<node>`, and takes commands at `/control`. Holds everything
in memory; writes nothing. The story of a test or demo is told through `DevnetChain`.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, Protocol, Self

import msgspec
from aiohttp import web

from chains.devnet.blocks import Fork
from chains.devnet.chain import DevnetChain
from chains.devnet.control import Command, call_verb, obey, obey_utxo
from chains.devnet.dialogue import reply_to
from chains.devnet.execution import Rules
from chains.devnet.hexadecimal import ScriptError, bytes_of
from chains.devnet.node import DevnetNode
from chains.devnet.spoilt_answers import send
from chains.devnet.utxo.chain import UtxoChain
from chains.devnet.utxo.dialogue import reply_to as reply_to_utxo
from chains.devnet.utxo.node import UtxoNode
from chains.devnet.utxo.world import START_TIME, UtxoSeed
from chains.devnet.websocket import Socket
from chains.devnet.world import GENESIS_TIME, Clock, Seed
from chains.heed import heed_cancellation

BODY_BYTES_MAX: Final = 32 * 2**20
_SHUTDOWN_S: Final = 1.0


class Pace(Protocol):
    """Waits between two blocks that are mined by themselves."""

    async def wait_s(self, seconds: float) -> None:
        """Return after so long, by this clock."""
        ...


class RealPace:
    """Waits by the machine's clock."""

    async def wait_s(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)


class Devnet:
    """Chains and their nodes, served while the context lasts."""

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.chains: dict[int, DevnetChain] = {}
        self.utxo_chains: dict[str, UtxoChain] = {}
        self._nodes: dict[tuple[int, str], DevnetNode] = {}
        self._utxo_nodes: dict[tuple[str, str], UtxoNode] = {}
        self._sockets: set[Socket] = set()
        self._sockets_made = 0
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self._tasks = asyncio.TaskGroup()
        self._miners: dict[int | str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        """Listen; a port of 0 is any free one."""
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_post("/control", self._control)
        app.router.add_route("*", "/{chain}/{node}", self._node_request)
        # cancellation: what hangs on purpose must not outlive the client that gave up on it
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=_SHUTDOWN_S, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop mining, drop every connection, free the port."""
        for miner in self._miners.values():
            miner.cancel()
        self.drop_sockets()
        if self._runner is not None:
            await self._runner.cleanup()
        # what went wrong in the body comes out as it is, not wrapped into the miners' group
        ended = isinstance(error, asyncio.CancelledError)
        await self._tasks.__aexit__(*(kind, error, traceback) if ended else (None, None, None))

    def add_chain(
        self,
        chain_id: int,
        *,
        block_time_s: int = 12,
        genesis_time: int = GENESIS_TIME,
        fork: Fork = Fork.PRAGUE,
        extra_data: str = "0x",
        clock: Clock | None = None,
        generous: bool = True,
        coin_logs: bool = False,
        mirror_logs: bool = False,
    ) -> DevnetChain:
        """Add a chain with one node, `a`. `coin_logs` is EIP-7708; for the rest see `Seed`, `Rules`."""
        if chain_id in self.chains:
            message = f"there is a chain {chain_id} already"
            raise ScriptError(message)
        seed = Seed(
            chain_id=chain_id,
            block_time_s=block_time_s,
            genesis_time=genesis_time,
            fork=fork,
            extra_data=bytes_of(extra_data),
            clock=clock,
        )
        rules = Rules(generous=generous, coin_logs=coin_logs, mirror_logs=mirror_logs)
        self.chains[chain_id] = DevnetChain(seed, rules)
        self.add_node(chain_id, "a")
        return self.chains[chain_id]

    def add_node(self, chain_id: int, name: str) -> DevnetNode:
        """Add another node of a chain."""
        node = DevnetNode(self._chain(chain_id), name)
        self._nodes[chain_id, name] = node
        return node

    def node(self, chain_id: int, name: str = "a") -> DevnetNode:
        """Give a node. **Raises**: `ScriptError`."""
        found = self._nodes.get((chain_id, name))
        if found is None:
            message = f"there is no node {name!r} of a chain {chain_id}"
            raise ScriptError(message)
        return found

    def add_utxo_chain(
        self,
        chain_id: str,
        *,
        network: str = "bitcoin-regtest",
        block_time_s: int = 600,
        start_time: int = START_TIME,
        clock: Clock | None = None,
    ) -> UtxoChain:
        """Add a UTXO chain with one node, `a`, under a name of its own; for the rest see `UtxoSeed`."""
        if chain_id in self.utxo_chains or chain_id.isdecimal() or not chain_id:
            message = f"expected the name of a new UTXO chain, found {chain_id!r}"
            raise ScriptError(message)
        seed = UtxoSeed(
            network=network, block_time_s=block_time_s, start_time=start_time, clock=clock
        )
        self.utxo_chains[chain_id] = UtxoChain(seed)
        self.add_utxo_node(chain_id, "a")
        return self.utxo_chains[chain_id]

    def add_utxo_node(self, chain_id: str, name: str) -> UtxoNode:
        """Add another node of a UTXO chain."""
        node = UtxoNode(self._utxo_chain(chain_id), name)
        self._utxo_nodes[chain_id, name] = node
        return node

    def utxo_node(self, chain_id: str, name: str = "a") -> UtxoNode:
        """Give a node. **Raises**: `ScriptError`."""
        found = self._utxo_nodes.get((chain_id, name))
        if found is None:
            message = f"there is no node {name!r} of a UTXO chain {chain_id!r}"
            raise ScriptError(message)
        return found

    @property
    def base_url(self) -> str:
        """Where it listens; `/control` is below it."""
        return f"http://{self._host}:{self._port}"

    def url(self, chain_id: int | str, name: str = "a") -> str:
        """Give a node's URL for HTTP."""
        return f"{self.base_url}/{chain_id}/{name}"

    def socket_url(self, chain_id: int, name: str = "a") -> str:
        """Give a node's URL for websockets."""
        return "ws" + self.url(chain_id, name).removeprefix("http")

    def mine_automatically(
        self, chain_id: int | str, interval_s: float, *, pace: Pace | None = None
    ) -> None:
        """Mine a block every so often, until the devnet ends or is told otherwise."""
        chain = self._utxo_chain(chain_id) if isinstance(chain_id, str) else self._chain(chain_id)
        self.stop_mining(chain_id)
        mining = self._mine_forever(chain, interval_s, pace or RealPace())
        self._miners[chain_id] = self._tasks.create_task(mining)

    def stop_mining(self, chain_id: int | str) -> None:
        """Mine only on command again."""
        miner = self._miners.pop(chain_id, None)
        if miner is not None:
            miner.cancel()

    def drop_sockets(self) -> None:
        """Break off every websocket connection."""
        for socket in self._sockets:
            socket.drop()

    def _chain(self, chain_id: int) -> DevnetChain:
        chain = self.chains.get(chain_id)
        if chain is None:
            message = f"there is no chain {chain_id}; there are {sorted(self.chains)}"
            raise ScriptError(message)
        return chain

    def _utxo_chain(self, chain_id: str) -> UtxoChain:
        chain = self.utxo_chains.get(chain_id)
        if chain is None:
            message = f"there is no UTXO chain {chain_id!r}; there are {sorted(self.utxo_chains)}"
            raise ScriptError(message)
        return chain

    async def _mine_forever(
        self, chain: DevnetChain | UtxoChain, interval_s: float, pace: Pace
    ) -> None:
        while True:
            heed_cancellation()
            await pace.wait_s(interval_s)
            chain.mine()

    async def _node_request(self, request: web.Request) -> web.StreamResponse:
        try:
            node = self._named(request.match_info["chain"], request.match_info["node"])
        except ScriptError as error:
            return web.Response(status=404, text=str(error))
        if node.switches.half_open:
            await asyncio.Event().wait()
        if isinstance(node, UtxoNode):
            authorization = request.headers.get("Authorization")
            return await send(request, reply_to_utxo(node, await request.read(), authorization))
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._serve_socket(request, node)
        return await send(request, reply_to(node, await request.read()))

    def _named(self, chain_id: str, name: str) -> DevnetNode | UtxoNode:
        """Find a node by its path: EVM chains have numbers, UTXO chains names."""
        if chain_id.isdecimal():
            return self.node(int(chain_id), name)
        return self.utxo_node(chain_id, name)

    async def _serve_socket(self, request: web.Request, node: DevnetNode) -> web.StreamResponse:
        self._sockets_made += 1
        socket = Socket(node, self._sockets_made)
        self._sockets.add(socket)
        try:
            return await socket.serve(request)
        finally:
            self._sockets.discard(socket)

    async def _control(self, request: web.Request) -> web.Response:
        try:
            command = msgspec.json.decode(await request.read(), type=Command)
            result = self._obey(command)
        except (ScriptError, msgspec.DecodeError, OverflowError) as error:
            return _json({"error": str(error)}, status=400)
        return _json({"result": result})

    def _obey(self, command: Command) -> Any:
        given = {"chain_id": command.chain, **command.with_}
        match command.do:
            case "add_chain":
                by_name = isinstance(command.chain, str)
                call_verb(self.add_utxo_chain if by_name else self.add_chain, given)
                return self.url(command.chain)
            case "add_node":
                self._add_node(command.chain, command.node)
                return self.url(command.chain, command.node)
            case "mine_automatically":
                return call_verb(self.mine_automatically, given)
            case "stop_mining":
                return self.stop_mining(command.chain)
            case "drop_sockets":
                return self.drop_sockets()
        if isinstance(command.chain, str):
            utxo_node = self.utxo_node(command.chain, command.node)
            return obey_utxo(self._utxo_chain(command.chain), utxo_node, command)
        return obey(self._chain(command.chain), self.node(command.chain, command.node), command)

    def _add_node(self, chain_id: int | str, name: str) -> None:
        if isinstance(chain_id, str):
            self.add_utxo_node(chain_id, name)
        else:
            self.add_node(chain_id, name)


def _json(content: Any, *, status: int = 200) -> web.Response:
    body = msgspec.json.encode(content)
    return web.Response(body=body, status=status, content_type="application/json")
