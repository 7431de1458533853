"""What contract tests share: each codec in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.protocol.records.codec import pick_codec

if TYPE_CHECKING:
    from headrace.protocol.records.codec import RecordCodec


@pytest.fixture(params=[pick_codec("python"), pick_codec("compiled")], ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> RecordCodec:
    """Each twin in turn."""
    chosen: RecordCodec = request.param
    return chosen
