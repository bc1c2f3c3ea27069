"""The stories: what each customer does, how it has to end, and one sentence on what happened.

A story is told through `Script`; how it has to end is data that `endings` checks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from reconciler.demo.script import Script
from schemas.codes import Attention, ClaimEnd, ExceptionKind, Phase

Act = Callable[[Script], Awaitable[None]]


class Ask(Struct, frozen=True, kw_only=True):
    """An order that the shop places."""

    order: str
    route: str
    amount: str
    on_litecoin: bool = False


class Ending(Struct, frozen=True, kw_only=True):
    """How an order has to end. `kinds` happen in this order, perhaps with others between them.

    `counted` is what counts for the order in the end, in its asset; None is not compared.
    """

    order: str
    phase: Phase
    kinds: tuple[str, ...]
    counted: str | None = None
    attention: frozenset[Attention] = frozenset()
    exceptions: frozenset[ExceptionKind] = frozenset()
    claim: ClaimEnd | None = None


class Story(Struct, frozen=True, kw_only=True):
    """One story. `short`: its order is quick, and its customer is to be in time."""

    number: int
    title: str
    asks: tuple[Ask, ...]
    act: Act
    endings: tuple[Ending, ...]
    sentence: str
    short: bool = False

    @property
    def on_litecoin(self) -> bool:
        """Whether it is told on a Litecoin node alone."""
        return any(ask.on_litecoin for ask in self.asks)


async def _exact(script: Script) -> None:
    await script.pause(1.5)
    await script.pay("exact", "25.00")


async def _two_parts(script: Script) -> None:
    await script.pause(1.8)
    await script.pay("two-parts", "0.02")
    await script.see("two-parts", Phase.PARTIALLY_PAID)
    await script.pause(0.5)
    await script.pay("two-parts", "0.03", in_all="paid 0.02, then 0.03 AST")


async def _too_little(script: Script) -> None:
    await script.pause(1.0)
    await script.pay("too-little", "18.00")
    await script.see("too-little", Phase.DETECTED, Phase.PARTIALLY_PAID)


async def _nothing(script: Script) -> None:
    script.says("nothing", "closed the window")


async def _too_much(script: Script) -> None:
    await script.pause(4.0)
    await script.pay("too-much", "250.00")


async def _late(script: Script) -> None:
    script.says("late", "looks for the wallet")
    await script.see("late", Phase.EXPIRED)
    await script.pause(0.5)
    await script.pay("late", "25.00", said="paid 25.00 DUSD, late")


async def _look_alike(script: Script) -> None:
    await script.pause(2.0)
    look_alike = script.stage.look_alike
    tx = await script.pay("look-alike", "25.00", money=look_alike, said="paid 25.00 of a fake DUSD")
    await script.mined(look_alike, tx)
    await script.claim("look-alike", tx)
    script.says("look-alike", 'pressed "I\'ve paid"', in_all="paid fake DUSD, says paid")
    await script.happened("look-alike", "claimed")


async def _wrong_network(script: Script) -> None:
    await script.pause(2.5)
    birch = script.stage.birch_dollar
    await script.pay("wrong-network", "25.00", money=birch, said="paid 25.00 DUSD on Birch")
    await script.attention("wrong-network", Attention.WRONG_NETWORK)


async def _twins(script: Script) -> None:
    await script.pause(3.0)
    await script.pay_due("twin-b")
    await script.pause(1.5)
    await script.pay_due("twin-a")


async def _reorganised(script: Script) -> None:
    await script.pause(1.2)
    money = script.stage.birch_dollar
    tx = await script.pay("reorganised", "25.00")
    await script.see("reorganised", Phase.CONFIRMED)
    await script.pause(2.0)
    await script.take_back(money, tx)


async def _litecoin(script: Script) -> None:
    await script.pause(1.4)
    tx = await script.pay_waiting("litecoin")
    await script.pause(1.0)
    await script.hurry(tx)


async def _replaced(script: Script) -> None:
    await script.pause(1.6)
    tx = await script.pay_waiting("replaced")
    await script.pause(1.0)
    await script.replace("replaced", tx)
    await script.happened("replaced", "withdrawn")


_SEEN: Final = ("awaiting", "detected")

STORIES: Final[tuple[Story, ...]] = (
    Story(
        number=1,
        title="Paid exactly",
        asks=(Ask(order="exact", route="dollar", amount="25.00"),),
        act=_exact,
        endings=(
            Ending(
                order="exact",
                phase=Phase.CONFIRMED,
                kinds=(*_SEEN, "confirmed"),
                counted="25.00",
            ),
        ),
        sentence="{counted} came, was final three blocks later, and the machines can be prepared.",
    ),
    Story(
        number=2,
        title="In two parts",
        asks=(Ask(order="two-parts", route="coin", amount="0.05"),),
        act=_two_parts,
        endings=(
            Ending(
                order="two-parts",
                phase=Phase.CONFIRMED,
                kinds=(*_SEEN, "partially_paid", "detected", "confirmed"),
                counted="0.05",
            ),
        ),
        sentence="The first part left the order open, the second completed it: {counted} in all.",
    ),
    Story(
        number=3,
        title="Too little",
        asks=(Ask(order="too-little", route="quick", amount="25.00"),),
        act=_too_little,
        endings=(
            Ending(
                order="too-little",
                phase=Phase.UNDERPAID,
                kinds=("awaiting", "underpaid"),
                counted="18.00",
                exceptions=frozenset({ExceptionKind.UNDERPAID}),
            ),
        ),
        sentence="Only {counted} of {due} came in time; nothing is prepared, and a person "
        "decides whether to accept it or send it back.",
        short=True,
    ),
    Story(
        number=4,
        title="Nothing",
        asks=(Ask(order="nothing", route="quick", amount="25.00"),),
        act=_nothing,
        endings=(
            Ending(
                order="nothing", phase=Phase.EXPIRED, kinds=("awaiting", "expired"), counted="0"
            ),
        ),
        sentence="The chain was read past the deadline and nothing had come: the order expired, "
        "and the machines are free for others.",
    ),
    Story(
        number=5,
        title="Too much",
        asks=(Ask(order="too-much", route="dollar", amount="25.00"),),
        act=_too_much,
        endings=(
            Ending(
                order="too-much",
                phase=Phase.CONFIRMED,
                kinds=(*_SEEN, "confirmed"),
                counted="250.00",
                attention=frozenset({Attention.OVERPAID}),
                exceptions=frozenset({ExceptionKind.OVERPAID}),
            ),
        ),
        sentence="{counted} came for {due}: the order is confirmed, and a person sees that "
        "{excess} belongs to the customer.",
    ),
    Story(
        number=6,
        title="Late",
        asks=(Ask(order="late", route="quick", amount="25.00"),),
        act=_late,
        endings=(
            Ending(
                order="late",
                phase=Phase.EXPIRED,
                kinds=("awaiting", "expired", "late"),
                counted="0",
                attention=frozenset({Attention.LATE}),
                exceptions=frozenset({ExceptionKind.LATE}),
            ),
        ),
        sentence="The money came after the order had expired: it is kept under the order, unlocks "
        "nothing by itself, and a person decides.",
    ),
    Story(
        number=7,
        title="Look-alike token",
        asks=(Ask(order="look-alike", route="quick", amount="25.00"),),
        act=_look_alike,
        endings=(
            Ending(
                order="look-alike",
                phase=Phase.EXPIRED,
                kinds=("awaiting", "claimed", "expired"),
                counted="0",
                exceptions=frozenset({ExceptionKind.CLAIMED_UNSEEN}),
                claim=ClaimEnd.PAYS_NOTHING,
            ),
        ),
        sentence="A token that only calls itself DUSD came: it is worth nothing and counts for "
        'nothing, and a person sees that the customer pressed "I\'ve paid".',
        short=True,
    ),
    Story(
        number=8,
        title="Wrong network",
        asks=(Ask(order="wrong-network", route="quick", amount="25.00"),),
        act=_wrong_network,
        endings=(
            Ending(
                order="wrong-network",
                phase=Phase.EXPIRED,
                kinds=("awaiting", "expired"),
                counted="0",
                attention=frozenset({Attention.WRONG_NETWORK}),
                exceptions=frozenset({ExceptionKind.WRONG_NETWORK}),
            ),
        ),
        sentence="25.00 DUSD came to the right address on the wrong network: it is found and shown "
        "to a person, and it is not counted as if it were the other dollar.",
        short=True,
    ),
    Story(
        number=9,
        title="Two, one address",
        asks=(
            Ask(order="twin-a", route="shared", amount="25.00"),
            Ask(order="twin-b", route="shared", amount="25.00"),
        ),
        act=_twins,
        endings=(
            Ending(order="twin-a", phase=Phase.CONFIRMED, kinds=(*_SEEN, "confirmed")),
            Ending(order="twin-b", phase=Phase.CONFIRMED, kinds=(*_SEEN, "confirmed")),
        ),
        sentence="Both bought for 25.00 at one address; each was asked for cents of their own "
        "({counted} and {counted_b}), so each payment found its order.",
    ),
    Story(
        number=10,
        title="Reorganised away",
        asks=(Ask(order="reorganised", route="birch", amount="25.00"),),
        act=_reorganised,
        endings=(
            Ending(
                order="reorganised",
                phase=Phase.REVERSED,
                kinds=(*_SEEN, "confirmed", "reversed"),
                counted="0",
                exceptions=frozenset({ExceptionKind.REVERSED}),
            ),
        ),
        sentence="The payment was confirmed, then the chain replaced the blocks that held it: the "
        "shop is told to lock the machine, and a person sees it at once.",
    ),
    Story(
        number=11,
        title="Paid on Litecoin",
        asks=(Ask(order="litecoin", route="litecoin", amount="0.25", on_litecoin=True),),
        act=_litecoin,
        endings=(
            Ending(
                order="litecoin",
                phase=Phase.CONFIRMED,
                kinds=(*_SEEN, "confirmed"),
                counted="0.25",
            ),
        ),
        sentence="{counted} was seen on a real Litecoin node before any block held it, and was "
        "final three blocks later.",
    ),
    Story(
        number=12,
        title="Replaced",
        asks=(Ask(order="replaced", route="litecoin-quick", amount="0.25", on_litecoin=True),),
        act=_replaced,
        endings=(
            Ending(
                order="replaced",
                phase=Phase.EXPIRED,
                kinds=(*_SEEN, "withdrawn", "expired"),
                counted="0",
            ),
        ),
        sentence="While the payment waited for a block, its sender replaced it by one to themselves: "
        "what was seen is withdrawn, the order expired, and the machines are free for others.",
        short=True,
    ),
)
