"""The demo on scripted chains: nothing but Python is needed."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from chains.devnet import Devnet, DevnetChain
from chains.devnet.hexadecimal import ScriptError
from reconciler.demo.chain_time import ChainTime
from reconciler.demo.stage import (
    ASTER_ID,
    BIRCH_ID,
    DECIMALS_ASTER,
    DECIMALS_BIRCH,
    DOLLAR,
    FINALITY_LAG,
    Money,
    Stage,
    StageChain,
    StageError,
    Tip,
    chain_name,
    coin_of,
    token_of,
)


class DevnetStageChain:
    """A scripted chain."""

    def __init__(self, devnet: Devnet, chain_id: int, label: str, *, genesis_s: int) -> None:
        self.name = chain_name(chain_id)
        self.label = label
        self.first_height = 0
        self.chain: DevnetChain = devnet.add_chain(chain_id, block_time_s=1, genesis_time=genesis_s)
        self.chain.finality_lag(FINALITY_LAG)
        self.url = devnet.url(chain_id)
        self._numbers = itertools.count(1)

    async def pay(self, money: Money, to: str, amount: int) -> str:
        """Send from a new account: a transaction that is dropped holds nobody else up."""
        sender = self.chain.account(f"customer-{next(self._numbers)}")
        if money.contract is None:
            self.chain.give_coin(sender, amount)
            return self.chain.pay_coin(sender, to, amount)
        self.chain.give_token(money.contract, sender, amount)
        return self.chain.pay_token(money.contract, sender, to, amount)

    async def mine(self, time_s: int) -> None:
        """Make one block of what waits."""
        self.chain.mine(time=time_s)

    async def tip(self) -> Tip:
        """Give the newest block."""
        block = self.chain.block()
        return Tip(block.height, block.time)

    async def waits(self) -> bool:
        """Tell whether a transaction waits for a block."""
        return any(True for _ in self.chain.mempool)

    async def depth_of(self, tx: str) -> int:
        """Look from the tip down."""
        for height in range(self.chain.height, 0, -1):
            if tx in self.chain.block(height).transactions:
                return self.chain.height - height + 1
        return 0

    async def reorganise(self, depth: int, *, away: Sequence[str] | None = None) -> None:
        """Replace the last blocks."""
        try:
            if away is None:
                first = max(0, self.chain.height - depth + 1)
                blocks = [self.chain.block(n) for n in range(first, self.chain.height + 1)]
                away = [tx for block in blocks for tx in block.transactions]
            self.chain.reorganise(depth, drop=away)
        except ScriptError as error:
            raise StageError(str(error)) from error


@asynccontextmanager
async def devnet_stage(time: ChainTime, *, genesis_s: int) -> AsyncIterator[Stage]:
    """Open both chains. Their nodes answer over HTTP on a free port."""
    async with Devnet() as devnet:
        aster = DevnetStageChain(devnet, ASTER_ID, "Aster", genesis_s=genesis_s)
        birch = DevnetStageChain(devnet, BIRCH_ID, "Birch", genesis_s=genesis_s)
        yield make_stage(
            aster,
            birch,
            dollar=aster.chain.deploy_token(DOLLAR, DECIMALS_ASTER),
            look_alike=aster.chain.deploy_token(DOLLAR, DECIMALS_ASTER),
            birch_dollar=birch.chain.deploy_token(DOLLAR, DECIMALS_BIRCH),
            time=time,
        )


def make_stage(
    aster: StageChain,
    birch: StageChain,
    *,
    dollar: str,
    look_alike: str,
    birch_dollar: str,
    time: ChainTime,
) -> Stage:
    """Put two chains and their three dollars together."""
    return Stage(
        aster=aster,
        birch=birch,
        dollar=token_of(ASTER_ID, dollar, decimals=DECIMALS_ASTER),
        look_alike=token_of(ASTER_ID, look_alike, decimals=DECIMALS_ASTER, listed=False),
        aster_coin=coin_of(ASTER_ID, "AST"),
        birch_dollar=token_of(BIRCH_ID, birch_dollar, decimals=DECIMALS_BIRCH),
        birch_coin=coin_of(BIRCH_ID, "BIR"),
        time=time,
        tips={},
    )
