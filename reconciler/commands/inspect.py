"""`reconciler inspect`: what does this block pay? Reads a file, asks no node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chains.addresses import AddressError
from chains.catalog import Catalogue, CatalogueError, load_catalogue
from chains.errors import ChainError
from chains.inspect import inspect_block
from chains.registry import parse_address
from reconciler.commands.common import DONE, BadArgument, put, read_chain, say
from schemas.caip import ChainName
from schemas.codec import encode


def inspect(
    *,
    chain: Annotated[str, Parameter(help="The chain, as CAIP-2: eip155:1.")],
    block: Annotated[
        Path,
        Parameter(
            help="EVM: a JSON file of a node's answers: block (with full transactions), receipts, and "
            "callTracer or traceBlock where inner calls count. Bitcoin, Litecoin, Dogecoin: a raw block, "
            "its hex, or the JSON of getblock with verbosity 2."
        ),
    ],
    address: Annotated[
        list[str] | None,
        Parameter(help="What the block pays to this address; may be given several times."),
    ] = None,
    everybody: Annotated[
        bool, Parameter(name="--all", help="What the block pays to anybody.")
    ] = False,
    height: Annotated[
        int | None, Parameter(help="How high a raw block stands, where it does not say so itself.")
    ] = None,
    catalogue: Annotated[
        Path | None, Parameter(help="A file with chains and assets beside those that we know.")
    ] = None,
) -> int:
    """Tell what a block pays, as JSON lines of TransferSeen on standard output.

    What looked like a payment and is none is counted by reason on standard error, which also says when
    inner calls are unseen because the file has no traces.
    """
    if bool(address) == everybody:
        raise BadArgument("give either --address, once or several times, or --all")
    name = read_chain(chain)
    addresses = None if everybody else [_raw(name, text) for text in address or ()]
    listed = _catalogue(catalogue)
    try:
        found = inspect_block(block.read_bytes(), name, listed, addresses, height=height)
    except OSError as error:
        raise BadArgument(f"--block {block}: {error.strerror}") from None
    except (CatalogueError, ChainError) as error:
        raise BadArgument(f"--block {block}: {error}") from None
    for transfer in found.transfers:
        put(encode(transfer).decode())
    for reason, count in sorted(found.ignored.items()):
        say(f"not counted: {count} {reason}")
    if not found.traced:
        say(
            "not seen: what contracts send of the chain's coin in inner calls, for the file has neither "
            "callTracer nor traceBlock"
        )
    return DONE


def _catalogue(path: Path | None) -> Catalogue:
    try:
        return load_catalogue(path)
    except OSError as error:
        raise BadArgument(f"--catalogue {path}: {error.strerror}") from None
    except CatalogueError as error:
        raise BadArgument(f"--catalogue {path}: {error}") from None


def _raw(chain: ChainName, text: str) -> bytes:
    try:
        return parse_address(chain, text).raw
    except AddressError as error:
        raise BadArgument(f"--address: {error}") from None
    except CatalogueError as error:
        raise BadArgument(f"--chain: {error}") from None
