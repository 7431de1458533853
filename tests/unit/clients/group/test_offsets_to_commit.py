"""The arguments of `commit` and `subscribe`."""

import re
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from headrace.clients.cluster.metadata import ClusterView, TopicView
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.clients.group.listeners import Callbacks
from headrace.clients.group.offsets_to_commit import offsets_to_commit
from headrace.clients.group.subscription import Subscription, checked_subscription
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: int, offset: int) -> Any:
    return SimpleNamespace(topic="t", partition=partition, offset=offset, leader_epoch=4)


def test_records_become_next_offsets() -> None:
    """The last record of each partition, in any order; also from a generator."""
    assert offsets_to_commit(None) is None
    assert offsets_to_commit(record(0, 5)) == {T0: OffsetAndMetadata(6, "", 4)}
    many = (record(*place) for place in ((0, 7), (1, 1), (0, 6)))
    assert offsets_to_commit(many) == {T0: OffsetAndMetadata(8, "", 4), T1: OffsetAndMetadata(2, "", 4)}
    assert offsets_to_commit([]) == {}


def test_tables_of_records_are_committed_by_their_rows() -> None:
    """The last row of each partition, with any further columns and any number of chunks."""
    rows = {"topic": ["t", "t", "t"], "partition": [1, 0, 1], "offset": [7, 3, 6], "value": [b"", b"", b""]}
    table = pa.table(rows)
    expected = {T0: OffsetAndMetadata(4), T1: OffsetAndMetadata(8)}
    assert offsets_to_commit(pa.concat_tables([table, table])) == expected
    assert offsets_to_commit(pa.RecordBatch.from_pydict(rows)) == expected
    assert offsets_to_commit(table.slice(0, 0)) == {}
    with pytest.raises(TypeError, match="columns topic, partition, offset"):
        offsets_to_commit(table.drop_columns("offset"))
    with pytest.raises(TypeError):
        offsets_to_commit(pa.table({**rows, "topic": ["t", None, "t"]}))


def test_offsets_by_partition_are_accepted() -> None:
    """Plain integers, and pairs as partitions."""
    noted = OffsetAndMetadata(3, "note", 1)
    assert offsets_to_commit({("t", 0): 2, T1: noted}) == {T0: OffsetAndMetadata(2), T1: noted}


@pytest.mark.parametrize("bad", [5, "text", [5], {"t": 1}, {T0: "1"}, {T0: True}, {T0: -1}])
def test_other_arguments_are_errors(bad: Any) -> None:
    """Before a request is sent."""
    with pytest.raises((TypeError, ValueError)):
        offsets_to_commit(bad)


def view(**topics: bool) -> ClusterView:
    return ClusterView(topics={name: TopicView(name, b"", internal, ()) for name, internal in topics.items()})


def test_patterns_match_whole_names() -> None:
    """Internal topics match only with `internal`."""
    known = view(orders=False, orders2=False, __orders=True)
    assert Subscription((), re.compile("orders")).topics_in(known) == ("orders",)
    assert Subscription((), re.compile(".*orders.*")).topics_in(known) == ("orders", "orders2")
    assert len(Subscription((), re.compile(".*orders.*"), internal=True).topics_in(known)) == 3
    assert Subscription(("x",)).topics_in(known) == ("x",)


def test_subscribe_takes_topics_or_a_pattern() -> None:
    """One of them, not both."""
    assert checked_subscription("a", None, internal=False).topics == ("a",)
    assert checked_subscription(["a", "b", "a"], None, internal=False).topics == ("a", "b")
    compiled = re.compile("x", re.IGNORECASE)
    assert checked_subscription((), compiled, internal=True) == Subscription((), compiled, True)
    for pattern, internal, regex in (("t.*", False, "t.*"), (".*", True, ".*"), (".*", False, None)):
        assert checked_subscription((), pattern, internal=internal).regex == regex
    for topics, pattern in (((), None), (("a",), "b"), ((), "("), ([5], None)):
        with pytest.raises(ConfigError):
            checked_subscription(topics, pattern, internal=False)  # type: ignore[arg-type]


def test_callbacks_of_a_listener_or_single_ones() -> None:
    """Each name once; methods may be missing."""
    listener = SimpleNamespace(on_lost=print)
    callbacks = Callbacks(listener, on_assigned=repr)
    assert [callbacks.get(name) for name in ("on_assigned", "on_revoked", "on_lost")] == [repr, None, print]
    with pytest.raises(ConfigError, match="twice"):
        Callbacks(listener, on_lost=repr)
    with pytest.raises(ConfigError, match="callable"):
        Callbacks(on_lost=5)  # type: ignore[arg-type]
