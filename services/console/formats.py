"""Numbers, sizes and times for pages. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from .decoding import visible

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_NONE = "–"  # noqa: RUF001 - a dash, for nothing


def size_text(size: float | None) -> str:
    """1536 as 1.5 KB."""
    if size is None or size < 0:
        return _NONE
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"


def number_text(number: float | None) -> str:
    """Digits in groups of three."""
    return _NONE if number is None else f"{number:,.0f}"


def rate_text(rate: float | None) -> str:
    """Records per second."""
    if rate is None:
        return _NONE
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def time_text(ms: int | None) -> str:
    """A time in UTC with milliseconds."""
    if ms is None or ms < 0 or ms > 253402300799999:
        return _NONE
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def iso_text(ms: int | None) -> str:
    """A time for the `datetime` attribute."""
    if ms is None or ms < 0 or ms > 253402300799999:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def duration_text(ms: float | None) -> str:
    """A duration in its largest unit."""
    if ms is None or ms < 0:
        return _NONE
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= length:
            value = ms / length
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{ms:.0f} ms"


def latency_text(ms: float) -> str:
    """A time of a request, with digits below a millisecond."""
    if ms == float("inf"):
        return "over a minute"
    return f"{ms:.2g} ms" if ms < 10 else duration_text(ms)


def ids_text(ids: Any) -> str:
    """Node ids in one text."""
    return ", ".join(map(str, ids)) if ids else _NONE


def with_query(query: dict[str, Any], **changes: Any) -> str:
    """A query string with other values of some parameters; without empty ones."""
    return urlencode({name: value for name, value in {**query, **changes}.items() if value not in (None, "")})


FILTERS = {
    "size": size_text,
    "number": number_text,
    "rate": rate_text,
    "time": time_text,
    "iso": iso_text,
    "duration": duration_text,
    "latency": latency_text,
    "ids": ids_text,
    "plain": lambda value: visible(str(value)),
    "with_query": with_query,
    "page_query": lambda query, page: with_query(query, page=page),
    "segment": lambda value: quote(str(value), safe=""),
}
