"""How stores keep values: what is stored of a typed value, and what its changelog record has.

A changelog record has the plain value; timestamp and headers of a stored value are those of the record.
Source: ChangeLoggingTimestampedKeyValueBytesStoreWithHeaders and its kin, RecordConverters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .formats.headers import (
    aggregation_in_headers,
    aggregation_with_headers,
    headers_bytes,
    headers_from,
    timestamped_in_headers,
    value_timestamp_headers,
)
from .formats.timestamped import pack_long, timestamp_of, timestamped

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.records import Headers
    from ...clients.serdes import Serde

Logged = tuple[bytes, "int | None", "Headers"]
"""The value, timestamp (None: that of the input record) and headers of a changelog record."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """`typed`: the serde of what `get` returns, from that of plain values. `logged`: of a stored value;
    `restored`: the stored value of a changelog record. `for_operators`: the serde of values without headers.
    """

    typed: Callable[[Serde[Any]], Serde[Any]]
    logged: Callable[[bytes], Logged]
    restored: Callable[[bytes, int, Headers], bytes]
    for_operators: Callable[[Serde[Any]], Serde[Any]] | None = None

    @property
    def has_headers(self) -> bool:
        return self.for_operators is not None


def _logged_with_headers(stored: bytes) -> Logged:
    headers, position = headers_from(stored)
    return stored[position + 8 :], timestamp_of(stored[position:]), headers


def _logged_aggregation(stored: bytes) -> Logged:
    headers, position = headers_from(stored)
    return stored[position:], None, headers


PLAIN = ValueFormat(
    lambda serde: serde, lambda stored: (stored, None, ()), lambda value, _timestamp, _headers: value
)
TIMESTAMPED = ValueFormat(
    timestamped,
    lambda stored: (stored[8:], timestamp_of(stored), ()),
    lambda value, timestamp, _headers: pack_long(timestamp) + value,
)
WITH_HEADERS = ValueFormat(
    value_timestamp_headers,
    _logged_with_headers,
    lambda value, timestamp, headers: headers_bytes(headers) + pack_long(timestamp) + value,
    timestamped_in_headers,
)
AGGREGATION_WITH_HEADERS = ValueFormat(
    aggregation_with_headers,
    _logged_aggregation,
    lambda value, _timestamp, headers: headers_bytes(headers) + value,
    aggregation_in_headers,
)
