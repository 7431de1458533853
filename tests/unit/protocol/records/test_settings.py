"""The settings of a new batch: ranges and contradictions."""

from typing import Any

import pytest
from headrace.protocol.records.codec import pick_codec


@pytest.mark.parametrize("choice", ["python", "compiled"])
@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": 2**31}, "max_bytes"),
        ({"producer_id": -2}, "producer_id"),
        ({"producer_id": 2**63}, "producer_id"),
        ({"producer_epoch": 2**15}, "producer_epoch"),
        ({"base_sequence": 2**31}, "base_sequence"),
        ({"compression": 5}, "5"),
        ({"timestamp_type": 2}, "2"),
        ({"compression": 1, "level": 10}, "gzip levels"),
        ({"level": 1}, "no levels"),
        ({"producer_id": 5}, "needs a producer epoch"),
        ({"producer_id": 5, "producer_epoch": 0}, "needs a base sequence"),
        ({"is_transactional": True}, "needs a producer id"),
        ({"delete_horizon_ms": -1}, "delete_horizon_ms"),
    ],
)
def test_settings_that_no_batch_can_have(choice: str, settings: dict[str, Any], fault: str) -> None:
    """A wrong setting is the caller's fault and is named before any record is taken."""
    with pytest.raises(ValueError, match=fault):
        pick_codec(choice).builder(**{"max_bytes": 1000, **settings})


@pytest.mark.parametrize("choice", ["python", "compiled"])
def test_markers_have_a_producer_but_no_sequence(choice: str) -> None:
    """Transaction markers belong to a producer and stand outside its sequence."""
    builder = pick_codec(choice).builder(
        max_bytes=1000, producer_id=5, producer_epoch=0, is_transactional=True, is_control=True
    )
    assert builder.append(1, b"", b"") == 0
