"""What tests of replicas share."""

import pytest
from core_rig import CoreRig


@pytest.fixture
def rig() -> CoreRig:
    return CoreRig()
