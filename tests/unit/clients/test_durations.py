"""ISO 8601 durations of auto.offset.reset=by_duration."""

import pytest
from headrace.clients.durations import duration_ms
from headrace.protocol.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("PT1S", 1000), ("PT0.5S", 500), ("PT1H30M", 5_400_000), ("P7D", 604_800_000), ("P1DT1S", 86_401_000),
     ("PT0S", 0)],
)  # fmt: skip
def test_durations(text: str, expected: int) -> None:
    """The forms that java.time.Duration takes."""
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "PT1", "P1Y", "-PT1S", "PT1S ", "P1DT", "PT1M1H"])
def test_invalid_durations_are_errors(text: str) -> None:
    """No unit, wrong order, calendar units, negatives, empty text."""
    with pytest.raises(ConfigError, match="ISO 8601"):
        duration_ms(text)
