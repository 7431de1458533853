"""Changes in repartition topics; tests/golden has Java's bytes."""

from __future__ import annotations

import pytest
from headrace.clients.serdes import utf8
from headrace.stream.records import Change
from headrace.stream.state.formats.changes import changed

SERDE = changed(utf8)


def test_encodings_with_is_latest_are_read() -> None:
    """Encodings 3 to 5 are those of versioned tables."""
    assert SERDE.loads(b"old\x00\x03") == Change(None, "old", False)
    assert SERDE.loads(b"new\x01\x04") == Change("new", None, True)
    assert SERDE.loads(b"\x06newold\x00\x05") == Change("new", "old", False)


@pytest.mark.parametrize("data", [b"x\x06", b"x\x02\x03", b"\xff\xff\xff\xff\xff\xff\x02"])
def test_damaged_changes_are_refused(data: bytes) -> None:
    """Unknown encoding, unknown flag, endless length."""
    with pytest.raises(ValueError, match=r"change|is_latest|varint"):
        SERDE.loads(data)


def test_changes_that_cannot_be_written() -> None:
    """Without a value; with both while the other side cannot read that."""
    with pytest.raises(ValueError, match="needs an old or a new value"):
        SERDE.dumps(Change(None, None))
    with pytest.raises(ValueError, match=r"upgrade\.from"):
        changed(utf8, splits_updates=True).dumps(Change("new", "old"))
