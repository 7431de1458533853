"""What contract tests share: each codec in turn."""

import pytest
from headrace.protocol.records.codec import RecordCodec, pick_codec


@pytest.fixture(params=[pick_codec("python"), pick_codec("compiled")], ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> RecordCodec:
    """Each twin in turn."""
    chosen: RecordCodec = request.param
    return chosen
