"""The running demo's side of `remote`: a few verbs over HTTP on the loop-back address.

Writes a small state file with its address, which holds a token, so that no other page or user of the
machine moves the demo.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
from aiohttp import web

from chains.registry import parse_transaction_id
from reconciler.demo.book import Line
from reconciler.demo.nodes import HOST
from reconciler.demo.play import Play
from reconciler.demo.remote import Answer, NotMoved, OrderLine, Wish, state_file
from reconciler.demo.stage import StageError
from reconciler.demo.words import amount_words, attention_words, money_of, phase_words, time_left
from reconciler.kernel.refusals import Refusal
from schemas.amounts import AmountError


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Be the one demo of this user that other terminals move. **Raises**: `Refusal` when another is.

    It locks the folder, so that no file is left; the kernel forgets the lock of a process that was killed.
    """
    folder = state_file().parent
    _own_folder(folder)
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            message = (
                "a demo is running already, and the other terminal's commands go to it: end it first "
                "with Ctrl-C there; or run this one with --once, which ends by itself and takes none; or "
                "set XDG_STATE_HOME to another folder in both terminals of this one"
            )
            raise Refusal(message) from None
        yield
    finally:
        os.close(held)


class Control:
    """The running side."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._token = secrets.token_urlsafe(16)
        self._verbs: dict[str, Callable[[Wish], Awaitable[Answer]]] = {
            "pay": self._pay,
            "claim": self._claim,
            "reorganise": self._reorganise,
            "orders": self._orders,
        }

    async def run(self) -> None:
        """Listen until cancelled, and say where in the state file."""
        app = web.Application()
        app.router.add_post("/{token}/{verb}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        path = state_file()
        try:
            await web.TCPSite(runner, HOST, 0).start()
            url = f"http://{HOST}:{runner.addresses[0][1]}/{self._token}"
            _write_private(path, url)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()
            _forget(path, self._token)

    async def _answer(self, request: web.Request) -> web.Response:
        verb = self._verbs.get(request.match_info["verb"])
        if verb is None or not secrets.compare_digest(request.match_info["token"], self._token):
            return web.Response(status=404)
        try:
            answer = await verb(msgspec.json.decode(await request.read(), type=Wish))
        except (AmountError, StageError, NotMoved, msgspec.DecodeError) as error:
            return web.Response(status=400, text=str(error))
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def _pay(self, wish: Wish) -> Answer:
        self._known(wish.order)
        self._is_money(wish)
        tx = await self._play.script.pay(wish.order, wish.amount)
        money, units = self._play.script.paid.by_tx[tx]
        label = self._play.stage.chains[money.chain].label
        said = f"sent {money.words(units)} to {wish.order} on {label}; it is in the next block"
        return Answer(said=f"{said}\ntransaction {tx}")

    def _is_money(self, wish: Wish) -> None:
        """Refuse to pay nothing, which no chain and no watcher calls a payment."""
        event = self._play.book.last(wish.order)
        if event is not None and not money_of(event, self._play.stage).units(wish.amount):
            message = f"expected an amount above zero, found {wish.amount[:40]!r}"
            raise NotMoved(message)

    async def _claim(self, wish: Wish) -> Answer:
        self._known(wish.order)
        self._play.script.says(wish.order, 'pressed "I\'ve paid"')
        await self._play.script.claim(wish.order, wish.tx)
        named = f", naming transaction {wish.tx}" if wish.tx else ""
        event = self._play.book.last(wish.order)
        if wish.tx and event is not None and parse_transaction_id(event.chain, wish.tx) is None:
            named = f'. "{wish.tx[:80]}" is no transaction id: it is dropped, and the claim stays'
        return Answer(said=f'the customer of {wish.order} pressed "I\'ve paid"{named}')

    async def _reorganise(self, wish: Wish) -> Answer:
        chains = {chain.label.lower(): chain for chain in self._play.stage.chains.values()}
        chain = chains.get(wish.network.lower())
        if chain is None:
            message = f"expected a network of {', '.join(chains)}, found {wish.network[:40]!r}"
            raise NotMoved(message)
        await chain.reorganise(wish.depth, away=[] if wish.keep else None)
        fate = "kept their places" if wish.keep else "are gone"
        said = f"{chain.label} replaced its last {wish.depth} blocks; payments in them {fate}"
        line = Line(at=self._play.clock.now(), order="", text=said, tone="warn")
        self._play.book.add_line(line)
        return Answer(said=said)

    async def _orders(self, _wish: Wish) -> Answer:
        play = self._play
        now = play.clock.now()
        lines = []
        for order in play.book.events:
            event = play.book.last(order)
            if event is None:
                continue
            lines.append(
                OrderLine(
                    order=order,
                    payment=phase_words(event, play.stage)[0],
                    received=amount_words(event, play.stage),
                    attention=attention_words(event),
                    left=time_left(event, now),
                    network=play.stage.chains[money_of(event, play.stage).chain].label,
                    address=event.address,
                )
            )
        return Answer(orders=tuple(lines))

    def _known(self, order: str) -> None:
        if order not in self._play.book.events:
            known = ", ".join(self._play.book.events)
            message = f"there is no order {order[:40]!r}; there are {known}"
            raise NotMoved(message)


def _own_folder(folder: Path) -> None:
    """Make a folder of this user alone. **Raises**: `Refusal` where others own it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        message = f"{folder} belongs to another user; set XDG_STATE_HOME"
        raise Refusal(message)


def _write_private(path: Path, text: str) -> None:
    """Write a file that only this user reads. **Raises**: `Refusal` where others own the folder."""
    _own_folder(path.parent)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text + "\n", encoding="utf-8")


def _forget(path: Path, token: str) -> None:
    """Take the file away, unless a younger demo has written its own."""
    with contextlib.suppress(OSError):
        if token in path.read_text(encoding="utf-8"):
            path.unlink()
