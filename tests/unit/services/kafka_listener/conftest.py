"""A listener with its default configs."""

from contextlib import AbstractAsyncContextManager

import pytest
from kafka_listener_rig import ListenerRig, listening


@pytest.fixture
def rig() -> AbstractAsyncContextManager[ListenerRig]:
    """A started listener whose node is a fake."""
    return listening()
