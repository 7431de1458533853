"""Replacement texts of Java."""

from __future__ import annotations

import re

import pytest
from headrace.protocol.security.java_patterns import expanded


@pytest.mark.parametrize(
    ("replacement", "text"),
    [("$2-$1", "b-a"), ("[$0]", "[ab]"), (r"\$1\\", "$1\\"), ("$9$3", "$9"), ("x", "x")],
)
def test_groups_and_escapes(replacement: str, text: str) -> None:
    """A group that did not match is empty, one that does not exist stays."""
    match = re.fullmatch("(a)(b)(c)?", "ab")
    assert match is not None
    assert expanded(match, replacement) == text
