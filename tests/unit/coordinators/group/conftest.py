"""What tests of groups share."""

from __future__ import annotations

import pytest
from group_rig import GroupRig


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()
