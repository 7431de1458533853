"""The future of a record: small, and freed with its last reference."""

import gc
import sys
import weakref

import pytest
from headrace.clients.producer.delivery_io import Delivery, FailedFuture, RecordFuture
from headrace.clients.producer.per_record_io import plain_sizes
from headrace.protocol.records.codec import active_codec

is_compiled = pytest.mark.skipif(active_codec().name == "python", reason="the readable twin")


def test_future_has_its_fields() -> None:
    """By name, with the methods of the Python class."""
    delivery = Delivery("t", 0, None)
    future = RecordFuture(delivery, 3, 1 << 40, -1, 5)
    assert future.delivery is delivery
    assert (future._index, future._timestamp, future._key_size, future._value_size) == (3, 1 << 40, -1, 5)
    assert repr(future) == "<RecordFuture t-0 pending>"
    delivery.resolve(10, -1, None)
    assert repr(future) == "<RecordFuture t-0 at 13>"
    assert future.result() == ("t", 0, 13, 1 << 40, -1, 5)
    assert isinstance(FailedFuture("t", 0, ValueError("x")).exception(), ValueError)


@is_compiled
def test_future_is_one_small_object() -> None:
    """At most 56 bytes, not tracked by the garbage collector, and never a cause of a collection."""
    delivery = Delivery("t", 0, None)
    future = RecordFuture(delivery, 0, 0, -1, 5)
    assert sys.getsizeof(future) <= 56
    assert not gc.is_tracked(future)
    gc.collect()
    before, blocks = gc.get_count()[0], sys.getallocatedblocks()
    kept = [RecordFuture(delivery, 0, 0, -1, 5) for _ in range(500)]
    assert gc.get_count()[0] - before < 20
    assert sys.getallocatedblocks() - blocks < 520
    assert len(kept) == 500


class _Watched:
    pass


def test_callback_that_refers_to_its_future_is_freed_when_done() -> None:
    """The only possible cycle ends with the outcome, without the garbage collector."""
    gc.disable()
    try:
        delivery, watched = Delivery("t", 0, None), _Watched()
        future = RecordFuture(delivery, 0, 0, -1, 5)
        future.add_done_callback(lambda done, mine=future, held=watched: None)  # type: ignore[misc]
        gone = weakref.ref(watched)
        del watched, future
        assert gone() is not None
        delivery.resolve(1, -1, None)
        assert gone() is None
    finally:
        gc.enable()


def test_sizes_of_a_whole_list() -> None:
    """The active twin; both are compared in test_record_preparer_io.py."""
    assert list(plain_sizes([b"a", b"bc"], 0, 5)) == [1, 2]
