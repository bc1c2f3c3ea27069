"""What goes wrong, and when: on the chain, at its nodes, in the log, to processes and clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from tests.simulate.service import Role
from tests.simulate.settings import CLOCK_JUMP_S_MAX
from tests.simulate.stream import shuffle_lanes
from tests.simulate.street import Street
from tests.simulate.world import World


class Weather:
    """Starts what the plan says; ends all of it when the time is over."""

    def __init__(self, world: World, roles: Sequence[Role]) -> None:
        self.world = world
        self.roles = roles
        self.lot = world.lot("weather")
        self._stalled: set[str] = set()

    def begin(self) -> None:
        faults = self.world.plan.faults
        for street in self.world.streets:
            self.world.do(self._mine(street))
        for every_s, act in (
            (faults.reorganise_every_s, self._reorganise),
            (faults.node_every_s, self._change_node),
            (faults.lie_every_s, self._lie),
            (faults.chain_stalls_every_s, self._stall),
            (faults.kill_every_s, self._kill),
            (faults.pause_every_s, self._pause),
            (faults.double_every_s, self._double),
            (faults.log_down_every_s, self._log_down),
            (faults.rebalance_every_s, self._rebalance),
            (faults.clock_jumps_every_s, self._jump),
        ):
            if every_s:
                self.world.do(self._now_and_then(every_s, act))

    async def _now_and_then(self, every_s: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self.lot.expovariate(1 / every_s))
            if self.world.faults_are_over:
                return
            await act()

    def clear(self) -> None:
        """Let everything be well again, for good."""
        world = self.world
        world.calm = True
        world.log.reachable = True
        self._stalled.clear()
        for street in world.streets:
            street.calm_down()
        for role in self.roles:
            if role.process is not None:
                role.process.resume()
        world.trace("calm")

    # --- the chain ---

    async def _mine(self, street: Street) -> None:
        every_s = self.world.plan.block_s
        lot = self.world.lot(f"miner {street.name}")
        while True:
            await asyncio.sleep(every_s * lot.choice((0.2, 1, 1, 1, 1.5)))
            if street.name not in self._stalled and not street.is_over:
                if self.world.plan.utxo:
                    self._replace_waiting(street, lot)
                street.mine(empty=lot.random() < 0.1)
                self.world.trace("mined", street.name, street.chain.height)

    def _replace_waiting(self, street: Street, lot: Random) -> None:
        """Let a customer change a payment that every node shows and no block holds."""
        faults = self.world.faults
        waiting = [tx for tx in street.movements if tx in street.waiting()]
        if waiting and lot.random() < faults.replace_share / 2:
            tx = lot.choice(waiting)
            if street.replace(tx):
                self.world.trace("replaced waiting", street.name, tx[:12])

    async def _reorganise(self) -> None:
        """Put other blocks in the place of the last ones: with the same money, later, or never."""
        lot, faults = self.lot, self.world.plan.faults
        street = lot.choice(self.world.streets)
        depth = min(street.forkable, lot.randint(1, faults.reorganise_depth_max))
        if depth < 1:
            return
        if faults.flip_back and lot.random() < 0.3 and street.may_flip_back():
            street.chain.flip_back()
            self.world.trace("flip back", street.name, street.chain.height)
            return
        moved = [tx for block in list(street.line())[-depth:] for tx in street.held_by(block)]
        omit = [tx for tx in moved if lot.random() < 0.5]
        gone = [tx for tx in omit if lot.random() < 0.2]
        back = [tx for tx in omit if tx not in gone]
        length = depth + lot.choice((0, 1, 1))
        street.chain.reorganise(depth, length=max(1, length), omit=back, drop=gone)
        self.world.trace("reorganised", street.name, depth, len(back), len(gone))
        for tx in omit:
            if lot.random() < faults.replace_share and street.replace(tx):
                self.world.trace("replaced", street.name, tx[:12])

    async def _stall(self) -> None:
        street = self.lot.choice(self.world.streets)
        self._stalled.add(street.name)
        await asyncio.sleep(self.lot.uniform(20, 70))
        self._stalled.discard(street.name)

    # --- its nodes ---

    async def _change_node(self) -> None:
        """Let a node lag, stand still on a branch, hang, or serve another chain, for a while."""
        lot = self.lot
        street = lot.choice(self.world.streets)
        node = street.nodes[lot.choice("ab")]
        change = lot.choice(street.changes(lot))
        self.world.trace("node", street.name, node.name, change)
        node.set(**change)
        await asyncio.sleep(lot.uniform(5, 30))
        well = type(node.switches)()
        node.set(**{key: getattr(well, key) for key in change})

    async def _lie(self) -> None:
        """Lie once or a few times, mostly about a block that pays somebody."""
        lot = self.lot
        street = lot.choice(self.world.streets)
        for _ in range(lot.choice((0, 10, 20))):
            if len(street.chain.mempool):
                break
            await asyncio.sleep(1.0)
        node = street.nodes[lot.choice("ab")]
        times = lot.choice((1, 2, 5))
        lie = lot.choice(street.lies(lot, times))
        self.world.trace("lie", street.name, node.name, type(lie).__name__, times)
        node.faults.add(lie)

    # --- processes ---

    async def _kill(self) -> None:
        role = self.lot.choice(self.roles)
        if role.process is not None and role.process.alive:
            self.world.trace("kill", role.process.name)
            role.process.kill()

    async def _pause(self) -> None:
        role = self.lot.choice(self.roles)
        process = role.process
        if process is None or not process.alive or process.is_paused:
            return
        self.world.trace("pause", process.name)
        process.pause()
        await asyncio.sleep(self.lot.uniform(1, 40))
        self.world.trace("resume", process.name)
        process.resume()

    async def _double(self) -> None:
        """Start a process beside the one that runs, which is stopped meanwhile or not."""
        role = self.lot.choice(self.roles)
        old, lot = role.process, self.lot
        if old is None or not old.alive:
            return
        if lot.random() < 0.6:
            old.pause()
        second = role.new_process()
        self.world.trace("second", second.name, "paused" if old.is_paused else "beside")
        life = self.world.do(role.run(second))
        await asyncio.sleep(lot.uniform(2, 25))
        old.resume()
        await asyncio.sleep(lot.uniform(2, 25))
        second.kill()
        await asyncio.wait([life])

    # --- log and clocks ---

    async def _log_down(self) -> None:
        self.world.trace("log down")
        self.world.log.reachable = False
        await asyncio.sleep(self.lot.choice((1.0, 5.0, 20.0)))
        self.world.log.reachable = True
        self.world.trace("log up")

    async def _rebalance(self) -> None:
        members = self.world.log.members.get("intake", [])
        places = list(range(len(members)))
        self.lot.shuffle(places)
        self.world.trace("rebalance", places)
        await shuffle_lanes(self.world.log, "intake", places)

    async def _jump(self) -> None:
        role = self.lot.choice(self.roles)
        if role.process is not None:
            role.process.clock.off_s = self.lot.uniform(-CLOCK_JUMP_S_MAX, CLOCK_JUMP_S_MAX)
            self.world.trace("clock", role.process.name, f"{role.process.clock.off_s:.1f}")
