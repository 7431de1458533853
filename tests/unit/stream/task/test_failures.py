"""What the error of a failed record names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import App, Store, TestDriver
from headrace.stream.errors import ProcessingError, StreamsError
from headrace.stream.testing.topics import StoredRecord

if TYPE_CHECKING:
    from collections.abc import Callable


def fail(*_: Any) -> Any:
    raise KeyError("of the user")


def driver_of(build: Callable[[App], Any]) -> TestDriver:
    app = App("app", key=utf8, value=utf8)
    build(app)
    return TestDriver(app)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda app: app.stream("in").map_values(fail).to("out"), "KSTREAM-MAPVALUES-0000000001"),
        (lambda app: app.stream("in").to("out", value=int64), "KSTREAM-SINK-0000000001"),
        (lambda app: app.stream("in").to(fail), "KSTREAM-SINK-0000000001"),
        (lambda app: app.stream("in").to(lambda *_: None), "KSTREAM-SINK-0000000001"),
        (lambda app: app.stream("in").to("out", partitioner=fail), "KSTREAM-SINK-0000000001"),
        (
            lambda app: app.stream("in").filter(lambda *_: True).to("out", value=int64),
            "KSTREAM-SINK-0000000002",
        ),
        (lambda app: app.table("in").group_by(fail).count(), "KTABLE-SELECT-0000000003"),
        (
            lambda app: app.table("in", store="t").to_stream().to("out", value=int64),
            "KSTREAM-SINK-0000000003",
        ),
    ],
)
def test_the_operator_and_the_record(build: Callable[[App], Any], name: str) -> None:
    """Sinks as well, and operators behind the cache of a table, which forwards at a commit."""
    driver = driver_of(build)
    with pytest.raises(ProcessingError, match=f"processor {name} of task 0_0 failed on offset 0 of in-0"):
        driver.pipe_bytes("in", b"k", b"v", 7)


def test_a_record_that_left_the_cache_later_is_named() -> None:
    """Not the one that was processed when the cache had no room any more."""

    def checked(value: int) -> int:
        if value == 1:
            raise ValueError(value)
        return value

    app = App("app", key=utf8, value=int64)
    app.table("in", store="t").to_stream().map_values(checked).to("out")
    task = TestDriver(app, cache_bytes=500)._task
    assert task is not None
    values = [int64.dumps(number) for number in range(20)]
    task.add_records(
        TopicPartition("in", 0),
        [StoredRecord("in", 0, at, at, f"{at}".encode(), value) for at, value in enumerate(values)],
    )
    with pytest.raises(ProcessingError, match=r"KSTREAM-MAPVALUES-.* failed on offset 1 of in-0"):
        task.process_run(0, 20)


def test_a_record_that_cannot_be_read() -> None:
    """The source is the operator."""
    driver = driver_of(lambda app: app.stream("in", value=int64).to("out"))
    with pytest.raises(
        StreamsError,
        match="source KSTREAM-SOURCE-0000000000 of task 0_0 cannot read offset 0 of in-0: ValueError",
    ):
        driver.pipe_bytes("in", b"k", b"v", 7)


def test_a_record_of_a_global_store() -> None:
    """Its processor ends the instance."""
    driver = driver_of(
        lambda app: app.add_global_store(
            Store("s", key=utf8, value=utf8), "rows", lambda record: fail(record)
        ).stream("in")
    )
    with pytest.raises(
        ProcessingError, match=r"processor KTABLE-SOURCE-0000000001 .* failed on offset 0 of rows-0"
    ):
        driver.pipe_bytes("rows", b"k", b"v", 7)
