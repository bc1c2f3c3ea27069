"""Scripted chains that speak a node's JSON-RPC, and tell every lie on demand.

Stands where a node stands: `chains.evm` reads it over HTTP and websocket, `chains.utxo` reads
`chains.devnet.utxo`, which has words of its own. There is no EVM; a script says what each transaction
does, and hashes, roots, blooms, receipts, logs and traces follow from it. The server, the tree of blocks,
what a node is like and the faults of connections are the same for both.

In this process::

    async with Devnet() as devnet:
        chain = devnet.add_chain(1)
        usdt = chain.deploy_token("USDT", 6, address="0xdAC17F958D2ee523a2206206994597C13D831ec7")
        tx = chain.pay_token(usdt, chain.account("payer"), shop, 25_000_000)
        chain.mine()
        chain.reorganise(1, drop=[tx])
        devnet.node(1).set(lag=3)
        devnet.node(1).faults.add(HttpStatus(methods=("eth_getLogs",), status=429, retry_after_s=2))
        url = devnet.url(1)              # http://127.0.0.1:…/1/a; ws at the same path

From another process, the same verbs as JSON, `POST /control`::

    {"do": "pay_token", "chain": 1, "with": {"token": "0x…", "sender": "0x…", "to": "0x…",
                                             "amount": "25000000"}}
    {"do": "mine", "chain": 1, "with": {"blocks": 3}}
    {"do": "reorganise", "chain": 1, "with": {"depth": 2, "omit": ["0x…"]}}
    {"do": "set", "chain": 1, "node": "a", "with": {"lag": 5, "call_tracer": false}}
    {"do": "fault", "chain": 1, "node": "a", "with": {"fault": "hang", "methods": ["eth_getLogs"]}}
    {"do": "clear_faults", "chain": 1, "node": "a"}
    {"do": "status", "chain": 1, "node": "a"}
    {"do": "drop_sockets", "chain": 1}
    {"do": "add_chain", "chain": 137, "with": {"mirror_logs": true}}
    {"do": "add_node", "chain": 137, "node": "b"}
    {"do": "mine_automatically", "chain": 1, "with": {"interval_s": 2}}
    {"do": "stop_mining", "chain": 1}

Answered by 200 `{"result": …}`, or 400 `{"error": "<sentence>"}`. Verbs of a chain are the methods of
`DevnetChain` on `control.CHAIN_VERBS`, with the same parameter names; `set` takes `node.Switches`,
`fault` one of `faults.AnyFault`. Amounts may be numbers or digits in quotes; results that are amounts
are digits in quotes. What one transaction does beyond the plain verbs is a `Call` tree, by `send`.

An omitted transaction holds up the later ones of its sender, as a nonce does on any chain.
"""

from chains.devnet.branching import MinedBlock
from chains.devnet.calls import Call, How, Payment, RawLog, Step, TokenMove
from chains.devnet.chain import DevnetChain
from chains.devnet.devnet import Devnet
from chains.devnet.utxo import Pay, Spend, UtxoChain

__all__ = [
    "Call",
    "Devnet",
    "DevnetChain",
    "How",
    "MinedBlock",
    "Pay",
    "Payment",
    "RawLog",
    "Spend",
    "Step",
    "TokenMove",
    "UtxoChain",
]
