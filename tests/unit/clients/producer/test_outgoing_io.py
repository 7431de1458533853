"""What happens to a record before it is buffered."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients import serdes
from headrace.clients.config import ProducerConfig
from headrace.clients.producer.delivery_io import Delivery, RecordFuture
from headrace.clients.producer.outgoing_io import MAX_RUN, Outgoing
from headrace.clients.producer.partitioner import murmur2_sticky
from headrace.clients.records import ProducerRecord, RecordMetadata
from headrace.protocol.errors import MessageTooLargeError, SerializationError


def outgoing(
    *, key: Any = serdes.bytes_, value: Any = serdes.bytes_, interceptors: Any = (), **config: Any
) -> Outgoing:
    return Outgoing(ProducerConfig.of(config), key, value, murmur2_sticky, interceptors, lambda: 1234)


def test_plain_bytes_pass_untouched() -> None:
    """The same objects, and the clock's time."""
    key, value = b"k", b"v"
    prepared = outgoing().prepare("t", key, value, (), None)
    assert prepared == (b"k", b"v", (), 1234)
    assert prepared[0] is key
    assert prepared[1] is value


def test_values_are_serialised_and_null_stays_null() -> None:
    """json value, text key, headers as a mapping, a timestamp of the user's."""
    made = outgoing(key=serdes.utf8, value=serdes.json)
    assert made.prepare("t", "k", {"a": 1}, {"h": "x"}, 5) == (b"k", b'{"a":1}', (("h", b"x"),), 5)
    assert made.prepare("t", None, None, (), 5)[:2] == (None, None)


def test_bytearrays_are_copied() -> None:
    """The user may change a bytearray after send; the record must not."""
    buffer = bytearray(b"v")
    prepared = outgoing().prepare("t", None, buffer, (), None)
    assert type(prepared[1]) is bytes


def test_too_large_records_are_refused_at_once() -> None:
    """Value, key and headers count together."""
    made = outgoing(max_request_size=1000)
    made.prepare("t", None, b"x" * 900, (), None)
    for key, value, headers in [
        (None, b"x" * 1000, ()),
        (b"x" * 500, b"x" * 500, ()),
        (None, b"x" * 500, {"h": b"x" * 500}),
    ]:
        with pytest.raises(MessageTooLargeError, match=r"max\.request\.size"):
            made.prepare("t", key, value, headers, None)


def test_text_without_a_serde_is_refused_with_advice() -> None:
    """The most common first mistake."""
    with pytest.raises(SerializationError, match="utf8"):
        outgoing().prepare("t", None, "text", (), None)


def test_groups_collect_plain_values() -> None:
    """Runs of plain bytes up to MAX_RUN, everything else alone, order kept."""
    record = ProducerRecord(b"r", key=b"k")
    items: list[Any] = [b"a", b"b", record, b"c", None, *[b"x"] * (MAX_RUN + 1)]
    groups = list(outgoing().groups(items))
    assert [item for _, group in groups for item in group] == items
    assert [(plain, len(group)) for plain, group in groups] == [
        (True, 2), (False, 1), (True, 1), (False, 1), (True, MAX_RUN), (True, 1),
    ]  # fmt: skip
    assert all(not plain for plain, _ in outgoing(value=serdes.utf8).groups(["a", "b"]))
    assert all(not plain for plain, _ in outgoing(interceptors=[object()]).groups([b"a"]))
    assert [plain for plain, _ in outgoing(max_request_size=1000).groups([b"x" * 1000])] == [False]


class Spy:
    """Adds a header, remembers outcomes."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, BaseException | None]] = []

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        return ProducerRecord(record.value, record.key, [*record.headers, ("spy", b"1")])  # type: ignore[misc]

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.outcomes.append((metadata.offset, error))


class Broken:
    """Raises in both, and returns nonsense."""

    def on_send(self, record: Any) -> Any:
        raise RuntimeError("on_send")

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        raise RuntimeError("on_acknowledgement")


def test_interceptors_change_records_and_hear_outcomes() -> None:
    """Two in a row; a broken one between them is logged and passed over."""
    spy = Spy()
    made = outgoing(interceptors=[spy, Broken(), spy])
    record = made.intercept(ProducerRecord(b"v"))
    assert record.headers == [("spy", b"1"), ("spy", b"1")]
    delivery = Delivery("t", 0, None)
    made.watch(RecordFuture(delivery, 1, 0, -1, 1))
    delivery.resolve(5, -1, None)
    assert spy.outcomes == [(6, None), (6, None)]


def test_a_partitioner_must_be_callable() -> None:
    """Found at construction."""
    with pytest.raises(TypeError, match="partitioner="):
        Outgoing(ProducerConfig(), serdes.bytes_, serdes.bytes_, "murmur2", (), lambda: 0)  # type: ignore[arg-type]
