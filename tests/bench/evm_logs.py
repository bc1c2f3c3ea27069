"""EVM logs: the bytes of an answer to transfers of 1,000 watched addresses, per log.

Beside it, in the same run and on the same bytes: a bare typed decode (the floor), web3's contract
events, and ethereum-etl's extraction where `RECONCILER_ETL_PYTHON` names an interpreter that has it
(it needs an older web3 than ours). Run it as a script or by `python -m tests.bench.evm_logs`.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec
from web3 import Web3
from web3._utils.method_formatters import log_entry_formatter

from chains.answers import decode, result_of, split_body
from chains.catalog import load_catalogue
from chains.evm import checks, parse, words
from chains.evm.listed import listed_on
from chains.evm.wire import Log, Receipt, Transaction
from schemas.caip import ChainName
from schemas.values import BlockRef
from tests.bench.report import Row, show

LOGS = 4_000
WATCHED = 1_000
HIT_EVERY = 20
ROUNDS = 9
BUDGET_US = 6.0
WEB3_TIMES = 100
ETL_TIMES = 2

CHAIN = ChainName("eip155:1")
LISTED = listed_on(CHAIN, load_catalogue())
BLOCK = BlockRef(height=18_000_000, hash=f"0x{7:064x}", time=datetime(2023, 8, 26, tzinfo=UTC))
ABI = [
    {
        "anonymous": False,
        "name": "Transfer",
        "type": "event",
        "inputs": [
            {"indexed": True, "name": "from", "type": "address"},
            {"indexed": True, "name": "to", "type": "address"},
            {"indexed": False, "name": "value", "type": "uint256"},
        ],
    }
]
#: Run by the other interpreter: the same bytes, ethereum-etl's own mapper and extractor.
ETL = """
import json, statistics, sys, time
from ethereumetl.mappers.receipt_log_mapper import EthReceiptLogMapper
from ethereumetl.service.token_transfer_extractor import EthTokenTransferExtractor
body, rounds = open(sys.argv[1], "rb").read(), int(sys.argv[2])
mapper, extractor, taken = EthReceiptLogMapper(), EthTokenTransferExtractor(), []
for _ in range(rounds):
    started = time.perf_counter()
    logs = [mapper.json_dict_to_receipt_log(log) for log in json.loads(body)["result"]]
    found = [extractor.extract_transfer_from_log(log) for log in logs]
    taken.append((time.perf_counter() - started) / len(found))
print(statistics.median(taken))
"""


def make_answer(seed: int = 1) -> tuple[bytes, frozenset[bytes]]:
    """Make one answer of a node, as `eth_getLogs` gives it, and the addresses that are ours."""
    lot = random.Random(seed)
    watched = [lot.randbytes(20) for _ in range(WATCHED)]
    contracts = sorted(LISTED.tokens)
    logs = []
    for number in range(LOGS):
        to = lot.choice(watched) if number % HIT_EVERY == 0 else lot.randbytes(20)
        logs.append(
            {
                "address": lot.choice(contracts),
                "topics": [
                    words.TRANSFER_TOPIC,
                    f"0x{lot.randbytes(20).hex():0>64}",
                    f"0x{to.hex():0>64}",
                ],
                "data": f"0x{lot.randrange(10**12):064x}",
                "blockNumber": hex(BLOCK.height),
                "transactionHash": f"0x{number // 3:064x}",
                "transactionIndex": hex(number // 3),
                "blockHash": BLOCK.hash,
                "logIndex": hex(number),
                "removed": False,
            }
        )
    body = {"jsonrpc": "2.0", "id": 1, "result": logs}
    return json.dumps(body, separators=(",", ":")).encode(), frozenset(watched)


def ours(body: bytes, watched: frozenset[bytes]) -> int:
    """Do what a watcher does with the bytes of one answer."""
    result = result_of(split_body(body, many=False)[0])
    if not isinstance(result, msgspec.Raw):
        raise result
    logs = decode(result, list[Log])
    reading = parse.Reading(
        listed=LISTED,
        watched=watched,
        block=BLOCK,
        seen_at=BLOCK.time,
        node="bench",
        method="receipt",
    )
    found = 0
    for place in parse.token_hits(logs, reading):
        log = logs[place]
        name = log.transaction_hash or ""
        receipt = Receipt(
            transaction_hash=name,
            block_hash=BLOCK.hash,
            cumulative_gas_used="0x0",
            logs=[log],
            status="0x1",
        )
        checks.require_found_again([log], receipt)
        transaction = Transaction(hash=name, from_=f"0x{'aa' * 20}", nonce="0x1")
        found += len(parse.transfers_in(transaction, receipt, None, reading))
    return found


def bare(body: bytes) -> int:
    """Decode, and nothing else."""

    class Answer(msgspec.Struct):
        result: list[Log]

    return len(msgspec.json.decode(body, type=Answer).result)


def with_web3(body: bytes, watched: frozenset[bytes]) -> int:
    """Decode every log with web3's contract event, and look for our addresses."""
    web3 = Web3()
    events = {
        contract: web3.eth.contract(web3.to_checksum_address(contract), abi=ABI).events.Transfer()
        for contract in LISTED.tokens
    }
    found = 0
    for entry in json.loads(body)["result"]:
        event = events[entry["address"]].process_log(log_entry_formatter(entry))
        found += bytes.fromhex(event["args"]["to"][2:]) in watched
    return found


def per_log_us(run: Callable[[], int], rounds: int, expected: int) -> float:
    """Measure a run, give the median per log, and require that it found the same."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        found = run()
        taken.append(time.perf_counter() - started)
        if found != expected:
            message = f"expected {expected} transfers, found {found}"
            raise RuntimeError(message)
    return statistics.median(taken) / LOGS * 1e6


def etl_us(body: bytes) -> float | None:
    """Ask the other interpreter; None where there is none."""
    python = os.environ.get("RECONCILER_ETL_PYTHON")
    if python is None:
        return None
    file = Path(os.environ.get("TMPDIR", "/tmp")) / f"evm-logs-{os.getpid()}.json"
    file.write_bytes(body)
    try:
        command = [python, "-c", ETL, str(file), str(ROUNDS)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    finally:
        file.unlink()
    return float(out) * 1e6


def measure() -> list[Row]:
    """Measure everything in one run."""
    body, watched = make_answer()
    hits = LOGS // HIT_EVERY
    own = per_log_us(lambda: ours(body, watched), ROUNDS, hits)
    floor = per_log_us(lambda: bare(body), ROUNDS, LOGS)
    web3 = per_log_us(lambda: with_web3(body, watched), 3, hits)
    etl = etl_us(body)
    rows = [
        Row(
            what="EVM log, bytes to transfers of 1,000 watched addresses",
            value=own,
            unit="µs/log",
            budget=f"<= {BUDGET_US:g} µs",
            beside=f"bare typed decode {floor:.2f} µs ({own / floor:.2f} times it)",
        ),
        Row(
            what="beside web3's contract events",
            value=web3 / own,
            unit="times faster",
            budget=f">= {WEB3_TIMES} times",
            beside=f"web3 {web3:.1f} µs/log",
        ),
    ]
    if etl is not None:
        rows.append(
            Row(
                what="beside ethereum-etl's extraction",
                value=etl / own,
                unit="times faster",
                budget=f">= {ETL_TIMES} times",
                beside=f"ethereum-etl {etl:.1f} µs/log",
            )
        )
    return rows


def main() -> None:
    """Print the rows."""
    show("EVM logs", measure())


if __name__ == "__main__":
    main()
