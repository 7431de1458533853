"""Both implementations of multipart messages, for tests that run with each of them."""

import contextlib
from collections.abc import Iterator

import pytest
from headrace.protocol.transport.multipart_io import PythonMultipart, active_multipart

TWINS = ("compiled", "python")


@contextlib.contextmanager
def sockets_use(name: str) -> Iterator[None]:
    """New sockets of this process and of its children use this implementation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_CODEC", name)
        active_multipart.cache_clear()
        is_python = active_multipart() is PythonMultipart
        assert is_python == (name == "python"), "the compiled module must be there"
        yield
    active_multipart.cache_clear()
