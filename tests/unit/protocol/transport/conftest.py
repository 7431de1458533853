"""Everything here runs over both twins of the multipart messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.protocol.transport import multipart_io
from headrace.protocol.transport.multipart_io import PythonMultipart, pick_multipart

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.protocol.transport.multipart_io import Multipart

TWINS = ("compiled", "python")


@pytest.fixture(params=TWINS, autouse=True)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Multipart]:
    """The twin that sockets made in this test use."""
    picked = pick_multipart(request.param)
    assert (picked is PythonMultipart) == (request.param == "python"), "the compiled twin must be there"
    monkeypatch.setattr(multipart_io, "active_multipart", lambda: picked)
    return picked
