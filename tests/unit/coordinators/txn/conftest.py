"""What tests of transactions share."""

import pytest
from txn_rig import TxnRig


@pytest.fixture
def rig() -> TxnRig:
    return TxnRig()
