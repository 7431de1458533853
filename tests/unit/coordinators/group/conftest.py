"""What tests of groups share."""

import pytest
from group_rig import GroupRig


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()
