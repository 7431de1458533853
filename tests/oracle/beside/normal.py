"""Replaces values that differ in each run by names: ids, times, ports, paths.

Ids are numbered by their first occurrence, so that equal and different ids can be compared. Lists whose items
have names are sorted by them.
"""

import re
from typing import Any

# fields of raw responses with random or measured numbers
_DRAWN = {
    "producer_id": "producer",
    "session_id": "session",
    "broker_epoch": "broker epoch",
    "finalized_features_epoch": "metadata offset",
    "total_bytes": "disk",
    "usable_bytes": "disk",
    "throttle_time": "throttle",
}
# of these, equal values do not matter
_MEASURED = {"disk", "throttle", "broker epoch", "metadata offset"}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# 22 characters of Base64, but not words-joined-by-dashes or CamelCase
_ID = re.compile(
    r"(?<![\w-])(?=[a-z0-9_-]*[A-Z])(?![A-Za-z][a-z]+(?:[A-Z][a-z]+)*(?![\w-]))[\w-]{22}(?![\w-])"
)
# the keys of list items whose order in a response has no meaning
_NAMES = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "partition_index",
    "partition",
    "index",
    "api_key",
    "node_id",
    "broker_id",
)
_DAY_MS = 86_400_000


def _by_name(item: Any) -> tuple[str, ...]:
    """The sort key of a dict with names; equal for all other items, which keep their order."""
    return tuple(str(item[name]) for name in _NAMES if name in item) if isinstance(item, dict) else ()


class Normal:
    """Names the random values of one system in one scenario."""

    def __init__(self, *, ports: dict[int, str], paths: dict[str, str], now_ms: int) -> None:
        self._ports, self._paths, self._now_ms = ports, paths, now_ms
        self._ids: dict[str, str] = {}
        many = "|".join(map(str, ports)) or "-"
        self._port = re.compile(rf"(?:localhost|127\.0\.0\.1)?(:?)\b({many})\b")

    def of(self, value: Any, field: str = "") -> Any:
        """A value of dicts, lists, numbers, strings, booleans and None, normalized."""
        if isinstance(value, dict):
            return {self._text(str(key)): self.of(each, str(key)) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.of(each, field) for each in sorted(value, key=_by_name)]
        if field.endswith("error_message"):  # human-readable
            return "<text>"
        if isinstance(value, (int, float)):
            return value if isinstance(value, bool) else self._number(value, field)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        return None if value is None else self._text(str(value))  # ids among them

    def _number(self, value: float, field: str) -> Any:
        if field in _DRAWN and value > 0:
            return self._named(_DRAWN[field], str(value))
        if value in self._ports:
            return f"<{self._ports[int(value)]}>"
        if abs(value - self._now_ms) < _DAY_MS:
            return "<now>"
        return value

    def _named(self, kind: str, text: str) -> str:
        if kind in _MEASURED:
            return f"<{kind}>"
        return self._ids.setdefault(f"{kind} {text}", f"<{kind} {len(self._ids) + 1}>")

    def _text(self, text: str) -> str:
        for path, name in self._paths.items():
            text = text.replace(path, f"<{name}>")
        text = self._port.sub(lambda found: f"<{self._ports[int(found[2])]}>", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "<another port>", text)
        text = _UUID.sub(lambda found: self._id(found[0]), text)
        text = _ID.sub(lambda found: self._id(found[0]), text)
        return re.sub(r"\b\d{13}\b", lambda found: str(self._number(int(found[0]), "")), text)

    def _id(self, text: str) -> str:
        return "0" if text in ("00000000-0000-0000-0000-000000000000", "A" * 22) else self._named("id", text)
