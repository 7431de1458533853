"""Both twins of the multipart messages, for the tests that run over each of them."""

import contextlib
from collections.abc import Iterator

import pytest
from headrace.protocol.transport import multipart_io
from headrace.protocol.transport.multipart_io import PythonMultipart, pick_multipart

TWINS = ("compiled", "python")


@contextlib.contextmanager
def sockets_use(name: str) -> Iterator[None]:
    """Sockets made meanwhile in this process, and in processes that it starts, use this twin."""
    picked = pick_multipart(name)
    assert (picked is PythonMultipart) == (name == "python"), "the compiled twin must be there"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multipart_io, "active_multipart", lambda: picked)
        patch.setenv("HEADRACE_CODEC", name)
        yield
