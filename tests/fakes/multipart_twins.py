"""Selects the implementation of multipart messages, for tests of both."""

import contextlib
from collections.abc import Iterator

import pytest
from headrace.protocol.transport.multipart_io import PythonMultipart, active_multipart

TWINS = ("compiled", "python")


@contextlib.contextmanager
def sockets_use(name: str) -> Iterator[None]:
    """Make new sockets of this process and its children use this implementation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_CODEC", name)
        active_multipart.cache_clear()
        is_python = active_multipart() is PythonMultipart
        assert is_python == (name == "python"), "the compiled module must be there"
        yield
    active_multipart.cache_clear()
