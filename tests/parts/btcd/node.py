"""A real btcd in regtest: Bitcoin's own rules, by another implementation."""

from __future__ import annotations

from pathlib import Path

from chains.utxo.networks import BITCOIN_REGTEST
from tests.parts.need import missing
from tests.parts.ports import HOST
from tests.parts.utxo_node import PASSWORD, USER, UtxoNode

BINARY = Path(__file__).parents[3] / ".parts" / "btcd" / "btcd"


class Btcd(UtxoNode):
    """One node. `more` are further options, `--txindex` for one.

    It replaces what signals replacement (BIP 125), and relays dust in regtest. Errors come with status
    200, numbers of their own for some of them, and there is no median time past in its answers. In
    regtest it deletes its chain whenever it starts.
    """

    network = BITCOIN_REGTEST

    def __init__(self, *more: str) -> None:
        if not BINARY.is_file():
            missing("btcd", "run `make parts` (it needs go: `make system`)")
        super().__init__(BINARY)
        self._more = more

    def options(self) -> list[str]:
        # The file with settings is one that is not there: the user's own says nothing here.
        return [
            "--regtest",
            f"--configfile={self.folder / 'none.conf'}",
            f"--datadir={self.folder / 'data'}",
            f"--logdir={self.folder / 'log'}",
            f"--rpcuser={USER}",
            f"--rpcpass={PASSWORD}",
            f"--rpclisten={HOST}:{self.port}",
            "--notls",
            "--nolisten",
            "--nodnsseed",
            *self._more,
        ]
