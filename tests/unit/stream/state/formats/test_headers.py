"""Values with headers; tests/golden has Java's bytes."""

from __future__ import annotations

import pytest
from headrace.stream.state.formats.headers import headers_bytes, headers_from


def test_long_headers_and_damaged_ones() -> None:
    """Lengths of several bytes; headers that are cut off are refused."""
    headers = (("n" * 100, b"v" * 1000), ("empty", b""), ("null", None))
    data = headers_bytes(headers)
    assert headers_from(data + b"rest") == (headers, len(data))
    with pytest.raises(ValueError, match="do not fit"):
        headers_from(data[:50])
    with pytest.raises(ValueError, match="varint"):
        headers_from(b"\xff" * 9)
