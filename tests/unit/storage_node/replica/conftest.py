"""What tests of replicas share."""

from __future__ import annotations

import pytest
from core_rig import CoreRig


@pytest.fixture
def rig() -> CoreRig:
    return CoreRig()
