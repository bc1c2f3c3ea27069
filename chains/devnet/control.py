"""Commands from another process: `POST /control` moves the chains as a script in this one would.

Reads `{"do": …, "chain": …, "node": …, "with": {…}}`; calls the verb of that name, which is on one of
the lists below, with its own parameters' names and types. Nothing else can be called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import Struct

from chains.devnet.chain import DevnetChain
from chains.devnet.faults import AnyFault
from chains.devnet.hexadecimal import ScriptError
from chains.devnet.node import DevnetNode
from chains.devnet.served import AnyNode
from chains.devnet.utxo.chain import UtxoChain
from chains.devnet.utxo.faults import AnyUtxoFault
from chains.devnet.utxo.node import UtxoNode

CHAIN_VERBS: Final = frozenset(
    {
        "account",
        "balance",
        "block",
        "bridge_in",
        "deploy_token",
        "finality_lag",
        "finalize",
        "flip_back",
        "give_coin",
        "give_token",
        "mine",
        "mint_token",
        "pay_coin",
        "pay_inside",
        "pay_many",
        "pay_token",
        "reorganise",
        "rewind",
        "send",
        "set_code",
        "transfer_from",
    }
)
UTXO_CHAIN_VERBS: Final = frozenset(
    {
        "announce",
        "block",
        "depth",
        "evict",
        "flip_back",
        "mine",
        "mine_aside",
        "new_address",
        "outpoints",
        "pay_coin",
        "pay_many",
        "raw",
        "reorganise",
        "replace",
        "rewind",
        "waiting",
    }
)
NODE_VERBS: Final = frozenset({"set", "fault", "clear_faults", "status"})
#: What happens to one UTXO node's mempool. A chain's verb of the same name is for everybody, and so these
#: have names of their own.
UTXO_NODE_VERBS: Final = {"node_hear": "hear", "node_evict": "evict", "restart": "restart"}


class Command(Struct, frozen=True, forbid_unknown_fields=True):
    """One command. `with` is written `with_` here, since Python reserves the word."""

    do: str
    chain: int | str
    node: str = "a"
    with_: dict[str, Any] = msgspec.field(default_factory=dict, name="with")


class NodeStatus(Struct, frozen=True, kw_only=True):
    """What a node has done."""

    height: int
    requests: int
    faults_struck: int


def obey(chain: DevnetChain, node: DevnetNode, command: Command) -> Any:
    """Carry out a command and give its result. **Raises**: `ScriptError` saying what is wrong."""
    if command.do in CHAIN_VERBS:
        return call_verb(getattr(chain, command.do), command.with_)
    return _obey_node(node, command, AnyFault, CHAIN_VERBS)


def obey_utxo(chain: UtxoChain, node: UtxoNode, command: Command) -> Any:
    """Carry out a command to a UTXO chain. **Raises**: `ScriptError` saying what is wrong."""
    if command.do in UTXO_CHAIN_VERBS:
        return call_verb(getattr(chain, command.do), command.with_)
    if command.do in UTXO_NODE_VERBS:
        return call_verb(getattr(node, UTXO_NODE_VERBS[command.do]), command.with_)
    known = UTXO_CHAIN_VERBS | UTXO_NODE_VERBS.keys()
    return _obey_node(node, command, AnyUtxoFault, known)


def _obey_node(node: AnyNode, command: Command, faults: Any, verbs: AbstractSet[str]) -> Any:
    if command.do not in NODE_VERBS:
        known = ", ".join(sorted(verbs | NODE_VERBS))
        message = f"unknown command {command.do!r}; known are {known}"
        raise ScriptError(message)
    if command.do == "set":
        node.set(**command.with_)
    elif command.do == "fault":
        node.faults.add(_converted(command.with_, faults, "fault"))
    elif command.do == "clear_faults":
        node.faults.clear()
    return NodeStatus(
        height=node.head.height, requests=node.requests, faults_struck=node.faults.struck()
    )


def call_verb(verb: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Call a method with JSON values, by its own parameters' names. **Raises**: `ScriptError`."""
    wanted = _hints(getattr(verb, "__func__", verb))
    unknown = sorted(set(given) - set(wanted))
    if unknown:
        message = f"{verb.__name__} has no parameter {unknown[0]!r}; it has {', '.join(wanted)}"
        raise ScriptError(message)
    converted = {name: _converted(value, wanted[name], name) for name, value in given.items()}
    try:
        inspect.signature(verb).bind(**converted)
    except TypeError as error:
        message = f"{verb.__name__}: {error}"
        raise ScriptError(message) from error
    result = verb(**converted)
    # an amount may be longer than a JSON number is exact
    return str(result) if isinstance(result, int) and not isinstance(result, bool) else result


@lru_cache(maxsize=64)
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(function)
    hints.pop("return", None)
    return hints


def _converted(value: Any, wanted: Any, name: str) -> Any:
    """Read a JSON value as a parameter; numbers may be written as text, since amounts are big."""
    try:
        return msgspec.convert(value, wanted, strict=False)
    except (msgspec.ValidationError, TypeError) as error:
        message = f"{name}: {error}"
        raise ScriptError(message) from error
