"""Records before they are buffered."""

from collections.abc import Iterable
from typing import Any

import pytest
from headrace.clients import serdes
from headrace.clients.config import ProducerConfig
from headrace.clients.producer.delivery_io import Delivery, RecordFuture
from headrace.clients.producer.partitioner import murmur2_sticky
from headrace.clients.producer.per_record_io import plain_sizes, python_plain_sizes
from headrace.clients.producer.record_preparer_io import MAX_ITERATED_RUN, MAX_RUN, RecordPreparer
from headrace.clients.records import ProducerRecord, RecordMetadata
from headrace.protocol.errors import MessageTooLargeError, SerializationError


def preparer(
    *, key: Any = serdes.bytes_, value: Any = serdes.bytes_, interceptors: Any = (), **config: Any
) -> RecordPreparer:
    return RecordPreparer(ProducerConfig.of(config), key, value, murmur2_sticky, interceptors, lambda: 1234)


def test_plain_bytes_are_not_copied() -> None:
    """The same objects, and the time of the clock."""
    key, value = b"k", b"v"
    prepared = preparer().prepare("t", key, value, (), None)
    assert prepared == (b"k", b"v", (), 1234)
    assert prepared[0] is key
    assert prepared[1] is value


def test_values_are_serialised_and_null_stays_null() -> None:
    """JSON value, text key, headers as a mapping, a timestamp of the user."""
    made = preparer(key=serdes.utf8, value=serdes.json)
    assert made.prepare("t", "k", {"a": 1}, {"h": "x"}, 5) == (b"k", b'{"a":1}', (("h", b"x"),), 5)
    assert made.prepare("t", None, None, (), 5)[:2] == (None, None)


def test_bytearrays_are_copied() -> None:
    """The user may modify a bytearray after `send`."""
    buffer = bytearray(b"v")
    prepared = preparer().prepare("t", None, buffer, (), None)
    assert type(prepared[1]) is bytes


def test_too_large_records_are_errors() -> None:
    """Value, key and headers count together."""
    made = preparer(max_request_size=1000)
    made.prepare("t", None, b"x" * 900, (), None)
    for key, value, headers in [
        (None, b"x" * 1000, ()),
        (b"x" * 500, b"x" * 500, ()),
        (None, b"x" * 500, {"h": b"x" * 500}),
    ]:
        with pytest.raises(MessageTooLargeError, match=r"max\.request\.size"):
            made.prepare("t", key, value, headers, None)


def test_text_without_a_serde_is_an_error_with_advice() -> None:
    """The most common first mistake."""
    with pytest.raises(SerializationError, match="utf8"):
        preparer().prepare("t", None, "text", (), None)


def shape(groups: Iterable[tuple[Any, list[Any]]]) -> list[tuple[list[int] | None, int]]:
    return [(None if sizes is None else list(sizes), len(items)) for sizes, items in groups]


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_groups_collect_plain_values(kind: Any) -> None:
    """Runs of plain bytes with their sizes, up to MAX_RUN, every other item alone, in order."""
    record = ProducerRecord(b"r", key=b"k")
    items: list[Any] = [b"a", b"b", record, b"c", None, *[b"x"] * (MAX_RUN + 1)]
    groups = list(preparer().groups(kind(items)))
    assert [item for _, group in groups for item in group] == items
    sizes = [size for sizes, _ in groups for size in (sizes or [None])]
    assert sizes == [1, 1, None, 1, None, *[1] * (MAX_RUN + 1)]
    assert all(len(group) == len(sizes or [None]) for sizes, group in groups)
    most = MAX_ITERATED_RUN if kind is iter else MAX_RUN
    assert max(len(group) for _, group in groups) <= most


def test_only_plain_values_are_grouped() -> None:
    """Items that need serialisation or interceptors, or are invalid, are single."""
    assert shape(preparer(value=serdes.utf8).groups(["a", "b"])) == [(None, 1), (None, 1)]
    assert shape(preparer(interceptors=[Spy()]).groups([b"a"])) == [(None, 1)]
    assert shape(preparer(max_request_size=1000).groups([b"x" * 1000, b"x"])) == [(None, 1), ([1], 1)]


def test_groups_are_copies_of_the_list() -> None:
    """The user modifies the list meanwhile."""
    values = [b"a", b"bb", b"ccc"]
    for _, group in preparer().groups(values):
        values.clear()
        assert group == [b"a", b"bb", b"ccc"]


@pytest.mark.parametrize("sizes_of", [plain_sizes, python_plain_sizes])
def test_sizes_end_at_the_first_other_value(sizes_of: Any) -> None:
    """Other types, subclasses of bytes, and values that are too long."""

    class Sub(bytes):
        pass

    values = [b"", b"ab", b"abcd", None, b"x", Sub(b"y")]
    assert list(sizes_of(values, 0, 10)) == [0, 2, 4]
    assert list(sizes_of(values, 0, 3)) == [0, 2]
    assert list(sizes_of(values, 3, 10)) == []
    assert list(sizes_of(values, 4, 10)) == [1]
    assert list(sizes_of(values, 6, 10)) == []
    assert list(sizes_of(values, 60, 10)) == []


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


def test_interceptors_change_records_and_get_outcomes() -> None:
    """Two in a row; one between them that raises is logged and skipped."""
    spy = Spy()
    made = preparer(interceptors=[spy, Broken(), spy])
    record = made.intercept(ProducerRecord(b"v"))
    assert record.headers == [("spy", b"1"), ("spy", b"1")]
    delivery = Delivery("t", 0, None)
    made.watch(RecordFuture(delivery, 1, 0, -1, 1))
    delivery.resolve(5, -1, None)
    assert spy.outcomes == [(6, None), (6, None)]


def test_interceptor_with_one_method() -> None:
    """Missing methods are not called; an object without any is an error of the constructor."""

    class Watching:
        def on_send(self, record: Any) -> None:
            assert record.value == b"v"

    made = preparer(interceptors=[Watching()])
    record = ProducerRecord(b"v")
    assert made.intercept(record) is record
    made.acknowledge(RecordMetadata("t", 0, 1, 1, 1, 1), None)
    with pytest.raises(TypeError, match="on_send or on_acknowledgement"):
        preparer(interceptors=[object()])


def test_a_partitioner_must_be_callable() -> None:
    """The constructor raises."""
    with pytest.raises(TypeError, match="partitioner="):
        RecordPreparer(ProducerConfig(), serdes.bytes_, serdes.bytes_, "murmur2", (), lambda: 0)  # type: ignore[arg-type]
