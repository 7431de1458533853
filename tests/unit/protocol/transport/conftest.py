"""Everything here runs over both twins of the multipart messages."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

import pytest
from multipart_twins import TWINS, sockets_use
from transport_kit import Served, serving


@pytest.fixture(params=TWINS, autouse=True)
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    """The twin that sockets made in this test use."""
    with sockets_use(request.param):
        yield request.param


@pytest.fixture
def served() -> AbstractAsyncContextManager[Served]:
    """A started server with the usual limits."""
    return serving()
