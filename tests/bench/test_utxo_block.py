"""The row of the budgets for a Bitcoin block."""

from tests.bench.utxo_block import main


def test_utxo_block():
    main()
