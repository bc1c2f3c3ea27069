"""`reconciler demo`: payments played before your eyes; and what moves them from another terminal."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.console import Console

from reconciler.commands.common import BROKEN, DONE, NOT_WELL, REFUSED, put
from reconciler.demo.remote import Answer, Wish, ask_demo
from reconciler.kernel.refusals import Refusal

app = App(
    name="demo",
    help="Show ten payments, side by side, from the customer's transfer to the shop's event; twelve "
    "where litecoind is installed.",
)

Order = Annotated[str, Parameter(help="The order, as the demo shows it: yours-1.")]


@app.default
async def demo(
    *,
    once: Annotated[
        bool, Parameter(help="End after the stories: with 0 only when all ended right.")
    ] = False,
    chain: Annotated[
        Literal["devnet", "anvil"],
        Parameter(help="Scripted chains, which need nothing; or anvil, where it is there."),
    ] = "devnet",
) -> int:
    """Play ten stories with the real service between two chains of the demo's own.

    Two more are told on a Litecoin node in regtest, where litecoind is on the PATH.
    Everything happens in this process and in a temporary folder. Without --once the chains go on
    afterwards, and the commands below move them from another terminal.
    """
    from reconciler.demo.performance import perform

    folder = Path(tempfile.mkdtemp(prefix="reconciler-demo-"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an arrow must not end the demo
    console = Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())
    code = BROKEN
    try:
        code = await perform(console, folder, once=once, chain=chain)
    except Refusal:
        code = REFUSED
        raise
    finally:
        # what went wrong is looked for in the log; a demo that was only ended leaves nothing behind
        if code in {NOT_WELL, BROKEN}:
            console.print(f" The service's log and database are kept in {folder}", style="dim")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return code


@app.command
async def pay(
    order: Order,
    amount: Annotated[str, Parameter(help="How much, in the order's own asset: 25.00.")],
    /,
) -> int:
    """Pay to an order of the running demo."""
    return _show(await ask_demo("pay", Wish(order=order, amount=amount)))


@app.command
async def claim(
    order: Order,
    /,
    transaction: Annotated[
        str | None, Parameter(help="The transaction that is said to pay.")
    ] = None,
) -> int:
    """Press "I've paid" on an order of the running demo. It is evidence, and never proof."""
    return _show(await ask_demo("claim", Wish(order=order, tx=transaction)))


@app.command
async def reorganise(
    depth: Annotated[int, Parameter(help="How many blocks are replaced.")],
    /,
    *,
    network: Annotated[
        str, Parameter(help="Which network: aster, birch or, where it is there, litecoin.")
    ] = "aster",
    keep: Annotated[
        bool, Parameter(help="Mine the payments of these blocks again, in their places.")
    ] = False,
) -> int:
    """Let a network of the running demo replace its last blocks; the payments in them are gone."""
    return _show(await ask_demo("reorganise", Wish(depth=depth, network=network, keep=keep)))


@app.command
async def orders() -> int:
    """List the orders of the running demo."""
    return _show(await ask_demo("orders", Wish()))


def _show(answer: Answer) -> int:
    if answer.said:
        put(answer.said)
    rows = [("ORDER", "PAYMENT", "RECEIVED", "LEFT", "NETWORK", "ATTENTION")]
    rows += [
        (one.order, one.payment, one.received, one.left, one.network, one.attention)
        for one in answer.orders
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows if answer.orders else ():
        put("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return DONE
