"""Searches of records: where they begin, what a record must have, and the rows that a page shows. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from .decoding import FORMATS, PREVIEW_CHARACTERS, Decoded, Shown, decode, shown, visible
from .expressions import compile_expression
from .masking import MASK, Masks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.records import Record
    from ...protocol.model import TopicPartition

STARTS = ("newest", "oldest", "offset", "time")
LIMITS = (25, 50, 100, 250)
MOST_PATTERN = 500


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record for a page."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Shown
    value: Shown
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Search:
    """What a page of records shows. `cursor` has the next offsets of a page that continues another one;
    before `newest` it has the offsets at which the page ends."""

    topic: str
    start: str = "newest"
    partition: int | None = None
    offset: int = 0
    time_ms: int = 0
    until_ms: int | None = None
    key: str = ""
    header: str = ""
    text: str = ""
    expression: str = ""
    key_format: str = "auto"
    value_format: str = "auto"
    limit: int = 50
    is_committed: bool = False
    cursor: Mapping[int, int] = field(default_factory=dict)
    masks: Masks = field(default_factory=lambda: Masks((), ""))

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("start", self.start, STARTS),
            ("key format", self.key_format, FORMATS),
            ("value format", self.value_format, FORMATS),
        ):
            if value not in allowed:
                raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        if not 1 <= self.limit <= LIMITS[-1]:
            raise ConfigError(f"a page has 1 to {LIMITS[-1]} records, not {self.limit}")
        if max(len(self.key), len(self.header), len(self.text)) > MOST_PATTERN:
            raise ConfigError(f"a filter has at most {MOST_PATTERN} characters")
        if self.start == "offset" and self.partition is None and not self.cursor:
            raise ConfigError("an offset needs a partition")
        _ = self.predicate  # a bad expression is reported before anything is read

    @property
    def tail_key(self) -> tuple[object, ...]:
        """Equal for searches whose tails have the same rows."""
        return (
            *(self.topic, self.partition, self.until_ms, self.key, self.header, self.text, self.expression),
            *(self.key_format, self.value_format, self.is_committed),
        )

    @property
    def predicate(self) -> Callable[[Mapping[str, Any]], bool] | None:
        """The compiled expression."""
        return compile_expression(self.expression) if self.expression.strip() else None


class Matcher:
    """Decodes, masks and filters records of one search."""

    def __init__(self, search: Search) -> None:
        self._search, self._predicate = search, search.predicate
        name, separator, value = search.header.partition("=")
        self._header = (name.strip(), value.strip() if separator else None)

    def row(self, record: Record[bytes, bytes]) -> RecordRow | None:
        """The row of a record, None if it does not match."""
        search = self._search
        if search.until_ms is not None and record.timestamp > search.until_ms:
            return None
        if search.header and not self._has_header(record):
            return None
        key = search.masks.applied("key", decode(record.key, search.key_format))
        if search.key and search.key not in self._text(key, record.key):
            return None
        value = search.masks.applied("value", decode(record.value, search.value_format))
        if search.text and not self._has_text(search.text, (key, record.key), (value, record.value)):
            return None
        if self._predicate is not None and not self._predicate(operands(record, key, value, search.masks)):
            return None
        return row_of(record, key, value, search.masks)

    def _has_header(self, record: Record[bytes, bytes]) -> bool:
        name, wanted = self._header
        for each, value in record.headers:
            if each == name and (
                wanted is None
                or (
                    not self._search.masks.hides_header(each)
                    and wanted == (value or b"").decode("utf-8", "replace")
                )
            ):
                return True
        return False

    def _has_text(self, wanted: str, *fields: tuple[Decoded, bytes | None]) -> bool:
        return any(wanted in self._text(decoded, data) for decoded, data in fields)

    @staticmethod
    def _text(decoded: Decoded, data: bytes | None) -> str:
        """The text of a key or value for a search; for formats that are text, their bytes as they are."""
        if decoded.format == "null":
            return ""
        if decoded.format == "hex":
            return bytes(decoded.value).hex()
        if decoded.format == "utf-8":
            return str(decoded.value)
        return shown(decoded, len(data or b""), 1 << 20).text


def operands(record: Record[bytes, bytes], key: Decoded, value: Decoded, masks: Masks) -> dict[str, Any]:
    """The names that an expression can use."""
    return {
        "key": _operand(key),
        "value": _operand(value),
        "headers": {name: header_text(name, data, masks) for name, data in record.headers},
        "offset": record.offset,
        "partition": record.partition,
        "timestamp": record.timestamp,
        "size": -1 if record.value is None else len(record.value),
    }


def _operand(decoded: Decoded) -> Any:
    return decoded.value.hex() if isinstance(decoded.value, bytes) else decoded.value


def row_of(
    record: Record[bytes, bytes], key: Decoded, value: Decoded, masks: Masks, limit: int = PREVIEW_CHARACTERS
) -> RecordRow:
    """A record as a row, its values decoded and masked."""
    is_whole = limit > PREVIEW_CHARACTERS
    return RecordRow(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        shown(key, size_of(record.key), limit, indent=is_whole),
        shown(value, size_of(record.value), limit, indent=is_whole),
        tuple((visible(name), header_text(name, data, masks)) for name, data in record.headers),
    )


def header_text(name: str, data: bytes | None, masks: Masks) -> str:
    """The value of a header as text."""
    if masks.hides_header(name):
        return MASK
    if data is None:
        return "null"
    return shown(decode(data), len(data)).text


def size_of(data: bytes | None) -> int:
    """The bytes of a key or value, -1 for null."""
    return -1 if data is None else len(data)


def cursor_text(cursor: Mapping[int, int]) -> str:
    """A cursor for a link: partition:offset pairs."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(cursor.items()))


def cursor_of(text: str) -> dict[int, int]:
    """Parse the cursor of a link. Errors: ConfigError."""
    found: dict[int, int] = {}
    for pair in text.split(",") if text else ():
        partition, _, offset = pair.partition(":")
        if not (partition.isascii() and partition.isdecimal() and offset.isascii() and offset.isdecimal()):
            raise ConfigError(f"{pair[:40]!r} is not partition:offset")
        found[int(partition)] = int(offset)
    return found


def newest_starts(
    bounds: Mapping[TopicPartition, tuple[int, int]], ends: Mapping[int, int], limit: int
) -> dict[TopicPartition, tuple[int, int]]:
    """(first, end) offset per partition for a page of the newest records before `ends` (default: the log
    ends).

    With few partitions each one is read for a whole page, so that the newest of all are found; with many each
    one gives its share.
    """
    share = limit if len(bounds) <= MOST_WHOLE else max(1, MOST_WHOLE * limit // len(bounds))
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for tp, (start, log_end) in bounds.items():
        end = min(ends.get(tp.partition, log_end), log_end)
        ranges[tp] = (max(start, end - share), end)
    return ranges


MOST_WHOLE = 20
