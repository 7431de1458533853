"""What tests of the coordinators' runtime share."""

from __future__ import annotations

import pytest
from coordinator_rig import CoordinatorRig


@pytest.fixture
def rig() -> CoordinatorRig:
    return CoordinatorRig()
