"""The bytes of stores of count windows."""

from __future__ import annotations

from headrace.clients.serdes import utf8
from headrace.stream.state.formats.count_windows import OpenWindows, open_windows


def test_bytes_are_the_documented_ones() -> None:
    """A window may have no aggregate: its aggregator returned None."""
    serde = open_windows(utf8)
    value = OpenWindows(5, [("ab", 7), (None, 8), ("", 9)])
    assert serde.dumps(value).hex() == (
        "0000000000000005"
        "0000000000000007" "00000002" "6162"
        "0000000000000008" "ffffffff"
        "0000000000000009" "00000000"
    )  # fmt: skip
    assert serde.loads(serde.dumps(value)) == value
    assert serde.loads(serde.dumps(OpenWindows(2, []))) == (2, [])
