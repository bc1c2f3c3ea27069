"""`eth_call` for the few read-only calls that a payment watcher makes of a token. Pure.

**Source**: ERC-20; the bytes32 symbols of old tokens such as MKR.
"""

from __future__ import annotations

from typing import Final

from chains.devnet.blocks import Block
from chains.devnet.hexadecimal import bytes_of, data, word
from chains.devnet.ledger import Ledger
from chains.devnet.rpc_errors import refused
from chains.devnet.tokens import Token, balance_key
from chains.devnet.world import World

DECIMALS: Final = bytes.fromhex("313ce567")
SYMBOL: Final = bytes.fromhex("95d89b41")
NAME: Final = bytes.fromhex("06fdde03")
BALANCE_OF: Final = bytes.fromhex("70a08231")


def call_answer(world: World, called: bytes, content: str, at: Block) -> str:
    """Answer a call; an account without code answers with nothing, as the EVM does.

    **Raises**: `RpcError` `execution reverted` for a call that the contract does not know.
    """
    if not world.ledger.code(called, at):
        return "0x"
    token = world.tokens.get(called)
    answer = None if token is None else _token_answer(world.ledger, token, bytes_of(content), at)
    if answer is None:
        raise refused(3, "execution reverted", data="0x")
    return data(answer)


def _token_answer(ledger: Ledger, token: Token, content: bytes, at: Block) -> bytes | None:
    selector, argument = content[:4], content[4:36]
    if selector == DECIMALS:
        return word(token.decimals)
    if selector == BALANCE_OF and len(argument) == 32:
        return word(max(0, ledger.number(balance_key(token.address, argument[12:]), at)))
    if selector in {SYMBOL, NAME}:
        text = (token.symbol if selector == SYMBOL else token.name).encode()
        return text[:32].ljust(32, b"\0") if token.symbol_is_bytes32 else _abi_text(text)
    return None


def _abi_text(text: bytes) -> bytes:
    padded = text.ljust(-(-len(text) // 32) * 32, b"\0")
    return word(32) + word(len(text)) + padded
