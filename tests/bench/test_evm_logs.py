"""The row of the budgets for EVM logs."""

from tests.bench.evm_logs import main


def test_evm_logs():
    main()
