"""What happens between a watcher and its nodes, as metrics and log lines."""

from __future__ import annotations

from chains.observe import (
    BlockTaken,
    Observation,
    Observer,
    ReadFailed,
    Reorganised,
    RpcRequest,
    SourceStarted,
)
from reconciler.observability import metrics
from reconciler.observability.logs import logger
from reconciler.observability.metrics import Meters

log = logger("watch")


def observer_of(meters: Meters) -> Observer:
    """Make what chains/ tells its observations to."""

    def observe(seen: Observation) -> None:
        match seen:
            case RpcRequest():
                _count_request(meters, seen)
            case BlockTaken():
                _count_blocks(meters, seen)
            case ReadFailed():
                meters.add(metrics.WATCH_READ_FAILURES, chain=seen.chain, error=seen.error)
                log.warning(
                    "a read failed and is tried again",
                    chain=seen.chain,
                    error=seen.error,
                    message=seen.message,
                    failures_in_a_row=seen.failures_in_a_row,
                )
            case SourceStarted():
                for spot in seen.blind_spots:
                    log.warning("these nodes are blind to something", chain=seen.chain, what=spot)
            case Reorganised():
                log.warning(
                    "reorganisation",
                    chain=seen.chain,
                    depth=seen.depth,
                    common_height=seen.common_height,
                )

    return observe


def _count_request(meters: Meters, seen: RpcRequest) -> None:
    meters.observe(metrics.RPC_DURATION, seen.seconds, chain=seen.chain, node=seen.node)
    meters.add(
        metrics.RPC_REQUESTS,
        chain=seen.chain,
        node=seen.node,
        method=seen.method,
        outcome=seen.outcome,
    )


def _count_blocks(meters: Meters, seen: BlockTaken) -> None:
    meters.add(metrics.WATCH_BLOCKS, seen.height - seen.from_height + 1, chain=seen.chain)
    for reason, count in seen.ignored.items():
        meters.add(metrics.WATCH_IGNORED, count, chain=seen.chain, reason=reason)
