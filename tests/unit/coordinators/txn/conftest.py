"""What tests of transactions share."""

from __future__ import annotations

import pytest
from txn_rig import TxnRig


@pytest.fixture
def rig() -> TxnRig:
    return TxnRig()
