"""What tests of transactions share."""

import pytest
from txn_rig import TxnRig


@pytest.fixture
def rig() -> TxnRig:
    return TxnRig()


@pytest.fixture
def producer(rig: TxnRig) -> tuple[int, int]:
    """Id and epoch of an initialized producer."""
    return rig.begun()
