"""The 81 failure cases by id, and what of them waits for watchers of chains that we do not have yet.

Every id has its tests in this folder, named `test_<id>_<story>`; a house test holds the list and the
names together. Cases of chains beyond EVM are tested by the rule that they teach.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CASES: Final = {
    "F01": "Token transfer that returns false: status 1, nothing moved",
    "F02": "Look-alike token with the same name, symbol and decimals",
    "F03": "Zero-value transferFrom by a stranger",
    "F04": "Poisoned history: look-alike address copied into a refund or a claim",
    "F05": "Failed transaction that carries value",
    "F06": "OP_RETURN says 28.6 USDT, protocol says invalid",
    "F07": "Partial payment: Amount 1000 XRP, delivered 0.0031 XRP",
    "F08": "hard_fail deferred transaction",
    "F09": "Counterfeit jetton named like USDT",
    "F10": "Homoglyph ticker",
    "F11": "Failed TRC-20 transfer shown as a normal contract call",
    "F12": "Base coin added to the stablecoin total",
    "F13": "TRC-10 token row mixed into the TRX history",
    "T01": "ERC-721 shares topic0 with ERC-20",
    "T02": "Provider returns topics or addresses in another letter case",
    "T03": "bytes32 symbol()",
    "T04": "Fee-on-transfer (USDT has the switch)",
    "T05": "150 transfers in one transaction",
    "T06": "Native transfer also logged by 0x…1010",
    "T07": "Payment that arrives as a mint (from = 0x0)",
    "T08": "Native coin sent by a contract wallet (internal transfer)",
    "T09": "Stablecoin decimals 18 on BSC, 6 on Ethereum",
    "T10": "Native vs bridged USDC",
    "T11": "Absurd 78-digit amount from a bad decode",
    "T12": "Token transfers do not mention the wallet address",
    "T13": "Quote with more decimals than the token has",
    "R01": "Load-balanced node is 20 blocks behind and returns an empty list",
    "R02": '"query returned more than 10000 results"',
    "R03": "Range-limit messages differ per provider",
    "R04": "Same filter, different slicing, different count",
    "R05": "Block comes back as null",
    "R06": "Cursor moves past a block that failed",
    "R07": "extraData is 97 / 278 bytes",
    "R08": "Events during a websocket reconnect",
    "R09": "Pruned history answers with an empty list",
    "R10": "Receipt null although the block is known",
    "R11": "Node flaps while the order clock runs",
    "R12": ".hex() lost its 0x prefix",
    "R13": "Address comparison by letter case",
    "R14": "Confirmed-only list lacks a confirmed transfer; page token missing",
    "R15": "Small ranges and unknown blocks as errors",
    "G01": "157-block reorganisation",
    "G02": "Same transaction mined again in another block",
    "G03": "The removed flag cannot be trusted",
    "G04": "Two-block reorg, no new event for our address",
    "G05": "Rollback fails inside a poisoned database transaction",
    "B01": "RBF replacement that pays the attacker himself",
    "B02": "Satoshi from floats",
    "B03": "Coinbase output treated as spendable money",
    "B04": "Two outputs to one address in one transaction",
    "B05": "Historic duplicate txids (BIP30)",
    "B06": "Address beyond the gap limit",
    "B07": "Taproot / bech32m",
    "B08": "Malleated twin of the same payment",
    "B09": "Provider hides unconfirmed transactions",
    "B10": "Confirmation count is cached or nonsense",
    "D01": "BIGINT ends at 9.22 ETH",
    "D02": "Sums overflow NUMERIC(78)",
    "D03": "NUMERIC that is a float",
    "D04": "Exponent notation",
    "D05": "Check-then-insert: one payment, two credits",
    "D06": "Float columns and batched floats",
    "M01": "Two open orders, same address, same amount",
    "M02": "One transaction used for a second order",
    "M03": "Claim theft: someone else's transaction hash",
    "M04": "Late payment to an expired order",
    "M05": "Exchange took the fee from the amount",
    "M06": "Expiry of a sister invoice cancels the paid order",
    "M07": "Duplicate notifications",
    "M08": "Right address, wrong network",
    "M09": "Memo/tag missing or placeholder",
    "M10": "Order paid twice",
    "M11": "Claim arrives before the transaction is visible",
    "M12": "Quoted in coin, judged in fiat at a later rate",
    "M13": "Order below the dust limit / below one base unit",
    "M14": "Expiry worker forgets or never tells",
    "K01": "commit() without offsets during a background rebalance",
    "K02": "Commit error treated as fatal",
    "K03": "Offset out of range after retention",
    "K04": "Producer fenced",
    "K05": "Offsets skipped around rebalances",
}


class Waits(NamedTuple):
    """What is shown now, and what comes with the watcher."""

    now: str
    with_the_watcher: str


#: Bitcoin, Litecoin, Dogecoin: facts as their watcher will write them stand in for it.
UTXO: Final = {
    "F06": Waits(
        "an output's own units count, and as dust; an overlay's output in a raw block is no transfer",
        "the same block from a node",
    ),
    "B01": Waits(
        "a dropped transfer is withdrawn, its claim ends as replaced, the order expires as others do",
        "the conflicting spend of a watched outpoint, in mempool or block, gives TransferDropped",
    ),
    "B02": Waits(
        "a node's decimal text becomes satoshi by digits; finer than a satoshi is refused",
        "the same from a node's own answer",
    ),
    "B03": Waits(
        "what a block makes is marked; a fact so marked is final at its 101st block, not its hundredth",
        "a block's coinbase from a node, through to the order",
    ),
    "B04": Waits(
        "two outputs of a raw block to one script are two transfers; two rows and one sum",
        "the same block from a node",
    ),
    "B05": Waits(
        "the same transfer id in two blocks is one row",
        "blocks 91722, 91812, 91842 and 91880 are read in order",
    ),
    "B06": Waits(
        "every placed order's address, derived ones too, is on the watchlist and paid at any index",
        "the same on a UTXO node",
    ),
    "B07": Waits(
        "a taproot address is its witness v1 script, matched in a raw block by its bytes; the wrong checksum "
        "and another chain's are refused",
        "an order that is paid at a taproot address",
    ),
    "B08": Waits(
        "a twin and a drop count once, and the claim on the old id ends as replaced",
        "two mempool transactions with a prevout in common; one confirms",
    ),
    "B09": Waits(
        "a mempool transfer that is not told of three times is counted on no longer, and is not dropped",
        "a provider that leaves out what waits, between ones that do not",
    ),
    "B10": Waits(
        "depth is counted from stored heights; without a height nothing is confirmed",
        "confirmations of a node's answer are not read",
    ),
    "G02": Waits(
        "mined again in another block of an EVM chain, and at another index",
        "the same on a UTXO chain, with invalidateblock and reconsiderblock",
    ),
    "G04": Waits(
        "every block of the new branch is read, on an EVM chain",
        "the same on a UTXO chain, as the report has it",
    ),
}

#: Chains outside the first scope, and the rule that is tested in their place.
BY_THEIR_RULE: Final = {
    "F07": "the effect that the ledger records is credited, not the amount that was asked for",
    "F08": "one status counts; an unknown one is no success",
    "F09": "the emitter is on the list or it is nobody; what it calls itself is not read",
    "F10": "no decision by a name or symbol",
    "F11": "a failed call with full parameters moves nothing",
    "F12": "sums are per asset",
    "F13": "an asset needs a listed id of its own",
    "T12": "what the ledger indexes is asked for; receivers are matched here",
    "R14": "an answer of exactly a page's length is not complete",
    "M09": "the reserved amount is the reference: exact, or a person decides",
}

#: What another part of the project still owes a case.
OWED: Final = {
    "T08": "without a tracing node the balance is compared before an order ends (the second look)",
    "R04": "the second look reads finalized blocks again by itself and alarms on a difference",
}
