"""A scripted UTXO chain that speaks a Bitcoin node's JSON-RPC: a regtest of Bitcoin, Litecoin or Dogecoin.

Blocks, ids, roots and work are real, and so is what spends what: a script makes double spends,
replacements, chains of unmined transactions, reorganisations with other spends in them. Signatures are
made up, subsidies and the maturity of coinbases are not looked at.

In this process::

    async with Devnet() as devnet:
        chain = devnet.add_utxo_chain("btc")
        tx = chain.pay_coin(shop, 25_000_000)
        chain.mine()
        rival = chain.replace(tx, [Pay(other, 25_000_000)], hold=True)
        chain.reorganise(1, place={rival: 0})          # the first payment can never be mined now
        devnet.utxo_node("btc").set(lag=3, tx_index=True)
        devnet.utxo_node("btc").faults.add(ChangeByte(methods=("getblock",)))
        url = devnet.url("btc")                        # http://127.0.0.1:…/btc/a

From another process, as `chains.devnet` says, by the chain's name::

    {"do": "add_chain", "chain": "btc", "with": {"network": "bitcoin-regtest"}}
    {"do": "pay_coin", "chain": "btc", "with": {"to": "bcrt1…", "amount": "25000000"}}
    {"do": "replace", "chain": "btc", "with": {"txid": "…", "payments": [{"to": "…", "amount": 1}]}}
    {"do": "node_evict", "chain": "btc", "node": "a", "with": {"txid": "…"}}

The miners have a mempool, which `mine` takes from, and every node has one of its own. `evict` and
`announce` act on the miners' (and `announce` tells every node that hears); `UtxoNode.evict`, `.hear` and
`.restart` (over `/control` `node_evict`, `node_hear`, `restart`) on one node's.
"""

from chains.devnet.utxo.chain import Pay, Spend, UtxoChain

__all__ = ["Pay", "Spend", "UtxoChain"]
