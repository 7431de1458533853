"""What the processors of users do, by the name that a case gives; java/Behaviour.java has the same."""

from __future__ import annotations

from typing import Any

from headrace.stream.records import (
    AggregationWithHeaders,
    Record,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Window,
    Windowed,
)

from .cases import Node
from .functions import VALUES, AskedToFailError, headers_text, number, text

SHOWN = 40


class Behaviour:
    """A processor of `process`, and of `process_values`, which must not change keys."""

    def __init__(self, node: Node, effects: list[str]) -> None:
        self.node = node
        self.effects = effects
        self.name = node["processor"]
        self.store: Any = None

    def init(self, context: Any) -> None:
        """Find the store, and schedule the punctuator."""
        self.context = context
        if "uses" in self.node:
            self.store = context.state_store(self.node["uses"]["name"])
        if "looks_up" in self.node:
            self.store = context.state_store(self.node["looks_up"])
        if punctuate := self.node.get("punctuate"):
            kind = "wall" if punctuate["wall"] else "stream"
            self.calls = punctuate.get("times", -1)
            self.schedule = context.schedule(
                punctuate["interval"], kind, self.punctuate, punctuate.get("start")
            )

    def punctuate(self, now: int) -> None:
        """Tell the time; a buffer is forwarded and emptied."""
        self.effects.append(f"{self.node['id']}: punctuate {now} {self.context.current_stream_time_ms()}")
        if self.node["punctuate"].get("fails") and now % 2:
            raise AskedToFailError
        self.calls -= 1
        if self.calls == 0:
            self.schedule.cancel()
        if self.name != "buffer":
            return
        with self.store.all() as entries:
            found = list(entries)
        for key, value in found:
            self.context.forward(Record(key, value, now))
            self.store.delete(key)

    def process(self, record: Record[Any, Any]) -> None:
        """One record."""
        getattr(self, f"_{self.name}")(record)

    def _forward(self, record: Record[Any, Any], value: Any) -> None:
        self.context.forward(record._replace(value=value))

    def _fail_on_x(self, record: Record[Any, Any]) -> None:
        self._forward(record, VALUES["fail_on_x"](record.key, record.value))

    def _lookup(self, record: Record[Any, Any]) -> None:
        found = None if record.key is None else self.store.get(record.key)
        shown = _version(found) if hasattr(found, "timestamp") else text(found)
        self._forward(record, f"{shown}/{text(record.value)}")

    def _child(self, record: Record[Any, Any]) -> None:
        children = self.node["children"]
        self.context.forward(record, children[number(record.value) % len(children)])

    def _buffer(self, record: Record[Any, Any]) -> None:
        self.store.put(record.key, record.value)

    def _headers(self, record: Record[Any, Any]) -> None:
        seen = (*record.headers, ("seen", text(record.value).encode()))
        self.context.forward(record._replace(timestamp=record.timestamp + 7, headers=seen))
        self.context.forward(record._replace(timestamp=record.timestamp + 3, headers=()))

    def _where(self, record: Record[Any, Any]) -> None:
        at = self.context.record_metadata
        place = "nowhere" if at is None else f"{at.topic}-{at.partition}@{at.offset}"
        times = f"{self.context.current_stream_time_ms()} {self.context.current_system_time_ms()}"
        self._forward(record, f"{place} {times} {self.context.task_id}")

    def _commit(self, record: Record[Any, Any]) -> None:
        self.context.commit()
        self.context.forward(record)

    def _count(self, record: Record[Any, Any]) -> None:
        if record.key is None:
            self._forward(record, -1)
            return
        now = number(self.store.get(record.key)) + 1
        self.store.put(record.key, now)
        self._forward(record, now)

    def _previous(self, record: Record[Any, Any]) -> None:
        key, value, timestamp, _ = record
        if key is None:
            return
        before = self.store.get(key)
        self.store.put(key, None if value is None else ValueAndTimestamp(value, timestamp))
        shown = "-" if before is None else f"{text(before.value)}@{before.timestamp}"
        self._forward(record, f"{shown}>{text(value)}")

    def _range(self, record: Record[Any, Any]) -> None:
        key, value, _, _ = record
        if key is None:
            return
        parts = [text(self.store.put_if_absent(key, value))]
        with self.store.range(key, None) as found:
            parts += [text(each) for each, _ in found]
        parts.append("/")
        with self.store.reverse_range(None, key) as found:
            parts += [text(each) for each, _ in found]
        parts.append("/")
        with self.store.reverse_all() as found:
            parts += [text(each) for _, each in found]
        if value is None:
            self.store.delete(key)
        self._forward(record, " ".join(parts))

    def _windows(self, record: Record[Any, Any]) -> None:
        key, value, timestamp, _ = record
        if key is None:
            return
        start = timestamp - timestamp % 50
        self.store.put(key, value, start)
        parts = [text(self.store.fetch(key, start))]
        with self.store.fetch_range(key, max(0, timestamp - 200), timestamp) as found:
            parts += [f"{at}={text(each)}" for at, each in found]
        parts.append("/")
        with self.store.backward_fetch_all(max(0, timestamp - 100), timestamp + 100) as found:
            parts += [text(each) for each, _ in found]
        self._forward(record, " ".join(parts))

    def _sessions(self, record: Record[Any, Any]) -> None:
        key, value, timestamp, _ = record
        if key is None:
            return
        with self.store.find_sessions(key, max(0, timestamp - 60), timestamp + 60) as found:
            merged = list(found)
        start = min([timestamp, *(each.window.start for each, _ in merged)])
        end = max([timestamp, *(each.window.end for each, _ in merged)])
        whole = "|".join(text(each) for each in [value, *(each for _, each in merged)])[:SHOWN]
        for session, _ in merged:
            self.store.remove(session)
        self.store.put(Windowed(key, Window(start, end)), whole)
        self._forward(record, f"{start}-{end} {whole}")

    def _remember(self, record: Record[Any, Any]) -> None:
        key, value, timestamp, headers = record
        if key is None:
            return
        before = _version(self.store.get(key))
        self.store.put(key, None if value is None else ValueTimestampHeaders(value, timestamp, headers))
        self._forward(record, f"{before}>{_version(self.store.get(key))}")

    def _remember_windows(self, record: Record[Any, Any]) -> None:
        key, value, timestamp, headers = record
        if key is None:
            return
        start = timestamp - timestamp % 50
        self.store.put(
            key, None if value is None else ValueTimestampHeaders(value, timestamp, headers), start
        )
        parts = [_version(self.store.fetch(key, start))]
        with self.store.fetch_range(key, max(0, timestamp - 200), timestamp) as found:
            parts += [f"{at}={_version(each)}" for at, each in found]
        self._forward(record, " ".join(parts))

    def _remember_sessions(self, record: Record[Any, Any]) -> None:
        key, value, timestamp, headers = record
        if key is None:
            return
        with self.store.find_sessions(key, max(0, timestamp - 60), timestamp + 60) as found:
            merged = list(found)
        parts = [f"{text(at)}={text(each.aggregation)}{headers_text(each.headers)}" for at, each in merged]
        kept = None if value is None else AggregationWithHeaders(value, headers)
        self.store.put(Windowed(key, Window(timestamp, timestamp)), kept)
        self._forward(record, "".join(parts))

    def _versions(self, record: Record[Any, Any]) -> None:
        key, value, timestamp, _ = record
        if key is None:
            return
        valid_to = self.store.put(key, value, timestamp)
        before, latest = self.store.get_as_of(key, timestamp - 50), self.store.get(key)
        until = -1 if valid_to is None else valid_to
        self._forward(record, f"{until} {_version(before)} {_version(latest)}")


def _version(found: Any) -> str:
    if found is None:
        return "-"
    headers = headers_text(found.headers) if hasattr(found, "headers") else ""
    return f"{text(found.value)}@{found.timestamp}{headers}"


class Transformer:
    """A table's transform_values: the value with how often its key was seen, or a function of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.seen: Any = None

    def init(self, context: Any) -> None:
        """Find the store, if the case names one."""
        if "uses" in self.node:
            self.seen = context.state_store(self.node["uses"]["name"])

    def transform(self, key: Any, value: Any) -> Any:
        """The new value."""
        if self.seen is None:
            return VALUES[self.node["value_f"]](key, value)
        times = number(self.seen.get(key)) + 1
        self.seen.put(key, times)
        return f"{text(value)}#{times}"

    def close(self) -> None:
        """Nothing to close."""


class Keeper:
    """The processor of a global store: it puts what comes."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def init(self, context: Any) -> None:
        """Find the store."""
        self.kept = context.state_store(self.node["uses"]["name"])

    def process(self, record: Record[Any, Any]) -> None:
        """One record."""
        if record.key is not None:
            self.kept.put(record.key, VALUES[self.node["value_f"]](record.key, record.value))
