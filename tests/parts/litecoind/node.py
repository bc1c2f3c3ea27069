"""A real litecoind in regtest (Debian's package; it is built without ZMQ)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from chains.utxo.networks import LITECOIN_REGTEST
from tests.parts.need import missing
from tests.parts.ports import HOST
from tests.parts.utxo_node import PASSWORD, USER, UtxoNode


def find_binary() -> Path | None:
    found = shutil.which("litecoind")
    return Path(found) if found else None


class Litecoind(UtxoNode):
    """One node. `more` are further options, `-txindex` for one; the wallet is off unless `wallet`.

    Replacement is off in this node unless it is told otherwise, and takes only what signals it
    (BIP 125). It is told to relay dust, as btcd does in regtest.
    """

    network = LITECOIN_REGTEST

    def __init__(self, *more: str, wallet: bool = False) -> None:
        binary = find_binary()
        if binary is None:
            missing("litecoind", "install the package litecoind (`make system`)")
        super().__init__(binary)
        self._more: Sequence[str] = more if wallet else ("-disablewallet", *more)

    def options(self) -> list[str]:
        return [
            "-regtest",
            "-server",
            f"-datadir={self.folder}",
            f"-rpcuser={USER}",
            f"-rpcpassword={PASSWORD}",
            f"-rpcbind={HOST}",
            f"-rpcallowip={HOST}",
            f"-rpcport={self.port}",
            "-listen=0",
            "-printtoconsole=0",
            "-persistmempool=0",
            "-mempoolreplacement=1",
            "-acceptnonstdtxn=1",
            *self._more,
        ]
