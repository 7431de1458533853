"""Everything here runs over both twins of the multipart messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from multipart_twins import TWINS, sockets_use

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=TWINS, autouse=True)
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    """The twin that sockets made in this test use."""
    with sockets_use(request.param):
        yield request.param
