"""The lag of an application as its supervisor sees it."""

from types import SimpleNamespace
from typing import Any

import pytest
from headrace.clients.admin.admin_types import Results
from headrace.clients.admin.lag_types import ConsumerLag
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.protocol.errors import NotLeaderOrFollowerError
from headrace.protocol.model import TopicPartition
from headrace.stream.ray.observer_io import Observer

FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)
END = 100


class StubAdmin:
    """A group at offset 40 of one partition and without an offset in the other; every second offset has a
    record."""

    def __init__(self) -> None:
        self.failing = False

    def describe_streams_groups(self, name: str, **_: Any) -> Any:
        part = SimpleNamespace(source_topics=("in",), repartition_source_topics=(), subtopology_id="0")
        return {name: SimpleNamespace(subtopologies=(part,))}

    def describe_topics(self, *names: str, **_: Any) -> Any:
        parts = [SimpleNamespace(partition=number) for number in range(2)]
        return {name: SimpleNamespace(partitions=parts) for name in names}

    def list_group_offsets(self, _name: str, _places: Any, **_: Any) -> Any:
        return {FIRST: OffsetAndMetadata(40), SECOND: None}

    def count_records(self, offsets: Any, **_: Any) -> Any:
        if self.failing:
            return Results({FIRST: NotLeaderOrFollowerError("moved")})
        return Results(
            {
                tp: {at: ConsumerLag(at, 0, END, max(END - at, 0) // 2) for at in some}
                for tp, some in offsets.items()
            }
        )


@pytest.fixture
def observer() -> Observer:
    run: Any = SimpleNamespace(application_id="app")
    made = Observer(run)
    made._admin = StubAdmin()  # type: ignore[assignment]
    return made


def test_lag_is_records_up_to_the_given_ends(observer: Observer) -> None:
    """A partition without a committed offset counts from its start, one that is not among the ends counts
    nothing, and ends that the group has passed are no negative lag."""
    found = observer.progress({FIRST: 60, SECOND: 20})
    assert found is not None
    assert (found.lag, found.tasks) == (10 + 10, 2)
    assert found.ends == {FIRST: END, SECOND: END}
    found = observer.progress({FIRST: 30})
    assert found is not None
    assert found.lag == 0


def test_first_look_has_no_lag(observer: Observer) -> None:
    """Only the ends, up to which a later one counts."""
    found = observer.progress(None)
    assert found is not None
    assert (found.lag, found.ends) == (None, {FIRST: END, SECOND: END})


def test_lag_is_unknown_while_a_leader_does_not_count(observer: Observer) -> None:
    stub: Any = observer._admin
    stub.failing = True
    assert observer.progress({FIRST: 60}) is None
