"""Processes of real nodes that the demo starts, on ports of its own, and that end with it.

Writes nothing; what a node keeps on disk is its stage's matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

HOST: Final = "127.0.0.1"
#: Runs a command until the pipe from the demo closes, which the kernel does for a demo that was killed.
_GUARD: Final = (
    'exec 3<&0; "$@" 3<&- </dev/null & node=$!; '
    '{ while read -r _; do :; done <&3; kill -9 "$node"; } & wait "$node"'
)


@asynccontextmanager
async def running(command: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a node while the block runs, and not longer, however the demo ends.

    A Ctrl-C of the terminal does not reach it: the demo's own parts end first.
    """
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", _GUARD, "node", *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


def free_ports(count: int) -> list[int]:
    """Give ports that nobody listens on now, each once."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
