"""What tests of the coordinators' runtime share."""

import pytest
from coordinator_rig import CoordinatorRig


@pytest.fixture
def rig() -> CoordinatorRig:
    return CoordinatorRig()
