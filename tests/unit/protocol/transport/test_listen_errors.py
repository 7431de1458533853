"""Errors of a server that cannot listen."""

import errno
import os

import pytest
from headrace.protocol.transport.listen_errors import address_error, listen_error


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EADDRINUSE, "ss -ltnp"),
        (errno.EADDRNOTAVAIL, "machine does not have the address"),
        (errno.EACCES, "above 1023"),
    ],
)
def test_error_names_server_address_and_remedy(number: int, advice: str) -> None:
    """The errno stays, for callers that distinguish errors."""
    error = listen_error("node 2", address_error("::1", 9092, OSError(number, os.strerror(number))))
    assert error.errno == number
    assert str(error).startswith(
        f"[Errno {number}] node 2: cannot listen on [::1]:9092: {os.strerror(number)} ("
    )
    assert advice in str(error)


def test_error_without_a_known_remedy() -> None:
    """A host that does not resolve."""
    error = address_error("nowhere", 1, OSError(-2, "Name or service not known"))
    assert error.strerror == "cannot listen on nowhere:1: Name or service not known"
