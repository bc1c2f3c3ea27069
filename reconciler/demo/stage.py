"""What the stories need of a chain, whatever stands behind it; and what is paid on the chains.

`devnet_stage`, `anvil_stage` and `litecoin_chain` implement it. Amounts are base units.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from eth_hash.auto import keccak
from msgspec import Struct

from chains.heed import heed_cancellation
from chains.registry import parse_address
from reconciler.demo.chain_time import ChainTime
from schemas.amounts import format_decimal_amount, parse_decimal_amount
from schemas.caip import AssetName, ChainName

BLOCK_S: Final = 1.0
#: Behind so many blocks nothing is taken back, in the demo's chains.
FINALITY_LAG: Final = 200
ASTER_ID: Final = 313_371
BIRCH_ID: Final = 313_372
DOLLAR: Final = "DUSD"
DECIMALS_ASTER: Final = 6
#: The same dollar has 18 decimals on the other network, as some real ones do.
DECIMALS_BIRCH: Final = 18
COIN_DECIMALS: Final = 18


class Money(Struct, frozen=True, kw_only=True):
    """One thing that can be paid. `contract` is None for a chain's coin."""

    chain: ChainName
    asset: AssetName
    symbol: str
    decimals: int
    contract: str | None
    listed: bool = True

    def units(self, text: str) -> int:
        """Read a decimal amount. **Raises**: `AmountError`."""
        return parse_decimal_amount(text, self.decimals)

    def words(self, amount: int) -> str:
        """Write an amount for people: at least two decimals, no zeros behind them."""
        whole, _, fraction = format_decimal_amount(amount, self.decimals).partition(".")
        return f"{whole}.{fraction.rstrip('0').ljust(2, '0')} {self.symbol}"


class Tip(Struct, frozen=True):
    """The newest block. **Units**: `time_s` in seconds since 1970."""

    height: int
    time_s: int


class StageChain(Protocol):
    """One chain of the demo, as its customers and its miner use it.

    `first_height` is where the shop's watching begins.
    """

    name: ChainName
    label: str
    url: str
    first_height: int

    async def pay(self, money: Money, to: str, amount: int) -> str:
        """Send from an account that nobody used before; gives the transaction. It waits for a block."""
        ...

    async def mine(self, time_s: int) -> None:
        """Make one block of what waits."""
        ...

    async def tip(self) -> Tip:
        """Give the newest block."""
        ...

    async def waits(self) -> bool:
        """Tell whether a transaction waits for a block."""
        ...

    async def depth_of(self, tx: str) -> int:
        """Give how many blocks would have to go for a transaction to go; 0 when it is in none."""
        ...

    async def reorganise(self, depth: int, *, away: Sequence[str] | None = None) -> None:
        """Replace the last blocks by as many and one more.

        The transactions `away` never come back (None: all of them); the others keep their place.
        **Raises**: `StageError`.
        """
        ...


class WaitingChain(StageChain, Protocol):
    """A chain whose payments are seen while they wait for a block, and may be replaced until then."""

    async def pay_little_fee(self, to: str, amount: int) -> str:
        """Send as `pay`, with a fee that no miner takes: it waits."""
        ...

    async def hurry(self, tx: str) -> None:
        """Have the miners take what they left waiting."""
        ...

    async def replace(self, tx: str) -> str:
        """Replace what waits by a payment to its sender; gives that."""
        ...


class StageError(Exception):
    """A chain cannot do what it was told; the sentence says why."""


class Stage(Struct, frozen=True, kw_only=True):
    """The chains and everything that is paid on them. `tips` are kept by the miners.

    `litecoin` and its coin are None where there is no litecoind.
    """

    aster: StageChain
    birch: StageChain
    dollar: Money
    look_alike: Money
    aster_coin: Money
    birch_dollar: Money
    birch_coin: Money
    litecoin: WaitingChain | None = None
    litecoin_coin: Money | None = None
    time: ChainTime
    tips: dict[ChainName, Tip]

    @property
    def chains(self) -> Mapping[ChainName, StageChain]:
        """Every chain by name."""
        every = (self.aster, self.birch, self.litecoin)
        return {chain.name: chain for chain in every if chain is not None}

    @property
    def listed(self) -> Sequence[Money]:
        """What the shop's own catalogue knows; Litecoin's coin stands in the built-in one."""
        every = (self.aster_coin, self.dollar, self.birch_coin, self.birch_dollar)
        return [money for money in every if money.listed]

    def money(self, asset: AssetName) -> Money:
        """Give what an asset is. **Raises**: KeyError."""
        every = (*self.listed, self.look_alike, self.litecoin_coin)
        return {money.asset: money for money in every if money is not None}[asset]

    async def mine_for_ever(self, chain: StageChain) -> None:
        """Make a block a second, as long as chain time moves on."""
        while True:
            heed_cancellation()
            await self.mine_once(chain)
            await asyncio.sleep(BLOCK_S / 4)

    async def mine_once(self, chain: StageChain) -> None:
        """Make a block if it is time for one."""
        tip = await chain.tip()
        time_s = self.time.next_block_s(tip.time_s, waiting=await chain.waits())
        if time_s is not None:
            await chain.mine(time_s)
            tip = await chain.tip()
        self.tips[chain.name] = tip


def chain_name(chain_id: int) -> ChainName:
    """Name an EVM chain."""
    return ChainName(f"eip155:{chain_id}")


def shop_address(name: str) -> str:
    """Give an address of the shop's. Nobody has its key, and nobody needs it: the service only looks."""
    raw: bytes = keccak(f"the demo's shop/{name}".encode())[-20:]
    return parse_address(chain_name(ASTER_ID), f"0x{raw.hex()}").display


def coin_of(chain_id: int, symbol: str) -> Money:
    """Describe a chain's coin."""
    chain = chain_name(chain_id)
    return Money(
        chain=chain,
        asset=AssetName(f"{chain}/slip44:1"),
        symbol=symbol,
        decimals=COIN_DECIMALS,
        contract=None,
    )


def token_of(chain_id: int, contract: str, *, decimals: int, listed: bool = True) -> Money:
    """Describe a token. `contract` is in checksummed form."""
    chain = chain_name(chain_id)
    return Money(
        chain=chain,
        asset=AssetName(f"{chain}/erc20:{contract}"),
        symbol=DOLLAR,
        decimals=decimals,
        contract=contract,
        listed=listed,
    )
