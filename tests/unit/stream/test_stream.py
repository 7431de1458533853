"""What headrace.stream exports."""

from __future__ import annotations

import headrace.stream
import pytest


def test_everything_public_can_be_loaded() -> None:
    """Names are loaded when they are first used."""
    for name in headrace.stream.__all__:
        assert getattr(headrace.stream, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        headrace.stream.nothing  # noqa: B018
