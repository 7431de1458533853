"""ISO 8601 durations, as auto.offset.reset=by_duration:<ISO 8601> takes them. Source: KIP-1106."""

from __future__ import annotations

import re

from ..protocol.errors import ConfigError

_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}
_FORM = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?\Z"
)


def duration_ms(text: str) -> int:
    """Milliseconds of a duration such as `PT1H30M`, `P7D` or `PT0.5S`, rounded down.

    Errors: ConfigError for another form. Like java.time.Duration: no years, months, weeks, and no negatives.
    """
    match = _FORM.match(text)
    parts = {unit: part for unit, part in match.groupdict().items() if part} if match else {}
    if not parts:
        raise ConfigError(f"not an ISO 8601 duration such as PT1H30M or P7D: {text!r}")
    return int(sum(float(part) * _MS[unit] for unit, part in parts.items()))
