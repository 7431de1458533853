"""Hand-written encoders of Produce and Fetch responses, which every batch of every client passes. Pure.

kio encodes field by field, in Python, from objects that have to be made first: four fifths of the cost of
such a response. Here a partition is one struct. A test compares each version with kio's bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from .codes import FETCH, PRODUCE, substitutes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .entities import Sink

    Answer = Mapping[str, Any]
    Write = Callable[[Sink, Answer], None]

_FOUR = struct.Struct(">ihqq")
_INT, _SHORT_INT, _TWO_LONGS = struct.Struct(">i"), struct.Struct(">hi"), struct.Struct(">qq")
_LEADER, _DIVERGING = struct.Struct(">iiB"), struct.Struct(">iqB")
_END = b"\x00"  # of an entity without tagged fields
_SMALL = [bytes((number,)) for number in range(0x80)]  # numbers that are one byte as a varint
_MOST_SMALL = 0x7F


class _Encoding:
    """How lengths, strings and ends are encoded: flexible or not."""

    def __init__(self, *, is_flexible: bool) -> None:
        self.is_flexible = is_flexible
        self.end = _END if is_flexible else b""

    def count(self, count: int) -> bytes:
        """The length of an array, -1 for null."""
        if not self.is_flexible:
            return _INT.pack(count)
        return _SMALL[count + 1] if count < _MOST_SMALL else _varint(count + 1)

    size = count  # of bytes

    def text(self, text: str | None) -> bytes:
        """A string with its length."""
        if text is None:
            return b"\x00" if self.is_flexible else b"\xff\xff"
        data = text.encode()
        length = len(data)
        return (self.count(length) if self.is_flexible else length.to_bytes(2, "big")) + data

    def named(self, topic: Answer, name: str, *, by_id: bool) -> bytes:
        """A topic by its id or its name."""
        return bytes(topic["topic_id"]) if by_id else self.text(topic[name])


def fetch_layout(version: int) -> Write:
    """The encoder of this version of Fetch."""
    form = _Encoding(is_flexible=version >= 12)
    end, by_id, has_session, has_replica = form.end, version >= 13, version >= 7, version >= 11
    has_start = version >= 5
    fixed = struct.Struct(">ihqqq" if has_start else ">ihqq").pack
    instead = substitutes(FETCH, version)

    def partition(sink: Sink, entry: Answer) -> None:
        code = entry["error_code"]
        numbers = [
            entry["partition_index"],
            instead.get(code, code),
            entry["high_watermark"],
            entry.get("last_stable_offset", -1),
        ]
        if has_start:
            numbers.append(entry.get("log_start_offset", -1))
        aborted = entry["aborted_transactions"]
        head = fixed(*numbers) + form.count(-1 if aborted is None else len(aborted))
        for each in aborted or ():
            head += _TWO_LONGS.pack(each["producer_id"], each["first_offset"]) + end
        if has_replica:
            head += _INT.pack(entry.get("preferred_read_replica", -1))
        records = entry["records"]
        sink.write(head + form.size(len(records)))
        sink.write(records)
        if end:
            sink.write(_fetch_tags(entry))

    def write(sink: Sink, answer: Answer) -> None:
        head = _INT.pack(answer.get("throttle_time", 0))
        if has_session:
            head += _SHORT_INT.pack(answer["error_code"], answer.get("session_id", 0))
        topics = answer["responses"]
        sink.write(head + form.count(len(topics)))
        for topic in topics:
            partitions = topic["partitions"]
            sink.write(form.named(topic, "topic", by_id=by_id) + form.count(len(partitions)))
            for entry in partitions:
                partition(sink, entry)
            if end:
                sink.write(end)
        if end:
            sink.write(_endpoints(answer.get("node_endpoints", ()), form) if version >= 16 else end)

    return write


def produce_layout(version: int) -> Write:
    """The encoder of this version of Produce."""
    form = _Encoding(is_flexible=version >= 9)
    end, by_id, has_errors, has_leader = form.end, version >= 13, version >= 8, version >= 10
    has_start = version >= 5
    # the last of these is the log start offset
    fixed = struct.Struct(">ihqqq").pack if has_start else lambda *numbers: _FOUR.pack(*numbers[:4])
    instead = substitutes(PRODUCE, version)
    no_errors, no_text = (form.count(0), form.text(None)) if has_errors else (b"", b"")
    usual_end = no_errors + no_text + end
    no_wait = _INT.pack(0) + end  # without node endpoints

    def partition(entry: Answer) -> bytes:
        code, start = entry["error_code"], entry.get("log_start_offset", -1)
        if code in instead:
            code = instead[code]
        head = fixed(entry["index"], code, entry["base_offset"], entry["log_append_time"], start)
        text, leader, errors = entry.get("error_message"), entry.get("current_leader"), entry["record_errors"]
        if text is None and leader is None and not errors:
            return head + usual_end
        if has_errors:
            head += (_record_errors(errors, form) if errors else no_errors) + form.text(text)
        return head + (_tags(_leader_tag(0, leader if has_leader else None)) if end else b"")

    def write(sink: Sink, answer: Answer) -> None:
        topics = answer["responses"]
        parts = [form.count(len(topics))]
        for topic in topics:
            partitions = topic["partition_responses"]
            parts += (form.named(topic, "name", by_id=by_id), form.count(len(partitions)))
            parts += [partition(entry) for entry in partitions]
            parts.append(end)
        wait_ms, endpoints = answer.get("throttle_time"), answer.get("node_endpoints")
        if wait_ms or endpoints:
            parts.append(_INT.pack(wait_ms or 0))
            if end:
                parts.append(_endpoints(endpoints or (), form) if has_leader else end)
        else:
            parts.append(no_wait)
        sink.write(b"".join(parts))

    return write


def _record_errors(errors: Sequence[Answer], form: _Encoding) -> bytes:
    parts = [form.count(len(errors))]
    for each in errors:
        parts += (_INT.pack(each["batch_index"]), form.text(each["batch_index_error_message"]), form.end)
    return b"".join(parts)


# --- tagged fields: left out where they have defaults -----------------------------------------------


def _fetch_tags(entry: Answer) -> bytes:
    found: tuple[bytes, ...] = ()
    diverging = entry.get("diverging_epoch")
    if diverging is not None:
        packed = _DIVERGING.pack(diverging["epoch"], diverging["end_offset"], 0)
        found = (bytes((0, len(packed))) + packed,)
    return _tags(found + _leader_tag(1, entry.get("current_leader")))


def _leader_tag(tag: int, leader: Answer | None) -> tuple[bytes, ...]:
    if leader is None:
        return ()
    packed = _LEADER.pack(leader["leader_id"], leader["leader_epoch"], 0)
    return (bytes((tag, len(packed))) + packed,)


def _tags(found: tuple[bytes, ...]) -> bytes:
    return bytes((len(found),)) + b"".join(found) if found else _END


def _endpoints(nodes: Sequence[Answer], form: _Encoding) -> bytes:
    """The nodes of the current leaders, as the only tagged field of a response."""
    if not nodes:
        return _END
    packed = form.count(len(nodes))
    for node in nodes:
        packed += _INT.pack(node["node_id"]) + form.text(node["host"]) + _INT.pack(node["port"])
        packed += form.text(node["rack"]) + _END
    return b"\x01\x00" + _varint(len(packed)) + packed


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


HOT_LAYOUTS: dict[int, Callable[[int], Write]] = {PRODUCE: produce_layout, FETCH: fetch_layout}
