"""Queries between processes, over sockets: servers of stores in memory, and a handle that asks them."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
import zmq
from headrace.clients.producer.partitioner import positive_hash
from headrace.clients.serdes import int64, utf8
from headrace.protocol.errors import ClosedError
from headrace.protocol.model import TopicPartition
from headrace.stream import (
    KeyQuery,
    PrefixQuery,
    QueryError,
    QueryTimeoutError,
    RangeQuery,
    StoreMigratedError,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    UnknownStoreError,
    ValueAndTimestamp,
    WindowKeyQuery,
    WrongStoreKindError,
)
from headrace.stream.query import wire
from headrace.stream.query.client_io import Queries
from headrace.stream.query.hosts import HostInfo, HostMetadata
from headrace.stream.query.hosts_io import KnownHosts
from headrace.stream.query.server_io import QueryServer
from headrace.stream.records import TaskId
from query_rig import QueryRig
from worker_rig import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND = (TopicPartition(SOURCE, number) for number in (0, 1))
TASK = TaskId(0, 0)


class Host:
    """A worker with a query server."""

    def __init__(self, folder: Path) -> None:
        self.rig = QueryRig(folder)
        self.server = QueryServer(self.rig.stores, "app", "127.0.0.1", 0)
        self.server.start()
        self.info = HostInfo("127.0.0.1", self.server.port)


class Cluster:
    """Two hosts, the table of which a test changes, and a handle."""

    def __init__(self, folder: Path) -> None:
        self.table: dict[HostInfo, HostMetadata] = {}
        self.one, self.other = Host(folder / "one"), Host(folder / "other")
        self.queries = Queries("app", KnownHosts(lambda: self.table), lambda store: (utf8, int64))

    def place(self, host: Host, *active: TopicPartition, standby: tuple[TopicPartition, ...] = ()) -> None:
        """The table says that the host has these partitions."""
        self.table = {
            **self.table,
            host.info: HostMetadata(host.info, frozenset(map(tuple, active)), frozenset(map(tuple, standby))),
        }

    def close(self) -> None:
        self.queries.close()
        for host in (self.one, self.other):
            host.server.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """`one` has partition 0 with a: 2 and b: 1, `other` has partition 1 with c: 1."""
    made = Cluster(tmp_path)
    try:
        made.one.rig.assign(FIRST)
        made.one.rig.send("a", "a", "b")
        made.one.rig.work()
        made.other.rig.assign(SECOND)
        made.other.rig.send("c", partition=1)
        made.other.rig.work()
        made.place(made.one, FIRST)
        made.place(made.other, SECOND)
        yield made
    finally:
        made.close()


def key_in(partition: int) -> str:
    """A key that the default partitioner puts there."""
    return next(key for key in "abcdefgh" if partition_of(key) == partition)


def partition_of(key: str) -> int:
    """As the default partitioner."""
    return positive_hash(key.encode()) % 2


def test_queries_go_to_the_owners(cluster: Cluster) -> None:
    """Point queries to the partition of the key, ranges to all; typed results with positions."""
    host = cluster.one if partition_of("x") == 0 else cluster.other
    number = partition_of("x")
    host.rig.send("x", "x", "x", partition=number)
    host.rig.work()
    queries = cluster.queries
    assert queries.get("store", "x") == 3
    assert queries.get("store", "nothing") is None
    found = queries.query("store", TimestampedKeyQuery("x")).only_result()
    assert found is not None
    assert found.value == ValueAndTimestamp(3, host.rig.now_ms)
    assert found.position[TopicPartition(SOURCE, number)] >= 2
    rows = queries.query("store", RangeQuery()).partitions
    everything = {key: value for each in rows.values() for key, value in each.value}
    assert everything == {"a": 2, "b": 1, "c": 1, "x": 3}
    (timestamped,) = queries.query(
        "store", TimestampedRangeQuery("a", "a"), partitions=[0]
    ).partitions.values()
    assert timestamped.value == [("a", ValueAndTimestamp(2, cluster.one.rig.now_ms))]
    (prefixed,) = queries.query("store", PrefixQuery(b"b"), partitions=[0]).partitions.values()
    assert prefixed.value == [("b", 1)]
    assert queries.owner("store", "x") == (number, host.info, ())
    assert queries.stores()["store"].topics == ((SOURCE, 2),)


def test_many_keys(cluster: Cluster) -> None:
    """Several requests for each instance; None for a key without value."""
    words = [f"w{number}" for number in range(1300)]
    for number, host in enumerate((cluster.one, cluster.other)):
        host.rig.send(*(word for word in words if partition_of(word) == number), partition=number)
        host.rig.work()
    found = cluster.queries.get_many("store", [*words, "nothing"], timeout_s=60)
    assert found == {**dict.fromkeys(words, 1), "nothing": None}
    assert cluster.queries.get_many("store", []) == {}


def requests_of(host: Host) -> int:
    router = host.server._router
    assert router is not None
    return router.stats.requests


def test_keys_of_several_partitions_go_to_their_instance_in_one_request(cluster: Cluster) -> None:
    cluster.other.rig.lose(SECOND)
    cluster.one.rig.assign(FIRST, SECOND)
    cluster.place(cluster.other)
    cluster.place(cluster.one, FIRST, SECOND)
    keys = [key_in(0), key_in(1)]
    for number, key in enumerate(keys):
        cluster.one.rig.send(key, partition=number)
    cluster.one.rig.work()
    cluster.queries.stores()
    before = requests_of(cluster.one)
    found = cluster.queries.get_many("store", keys)
    assert requests_of(cluster.one) == before + 1
    assert found == {key: cluster.queries.get("store", key) for key in keys}


def test_a_moved_partition_does_not_hold_up_others(cluster: Cluster) -> None:
    """The table says that the first instance has both: keys of the other partition are asked again until it
    is right, and meanwhile those of the first one are answered."""
    cluster.place(cluster.one, FIRST, SECOND)
    cluster.place(cluster.other)
    keys = [key_in(0), key_in(1)]
    answers: list[Any] = []
    asker = threading.Thread(
        target=lambda: answers.append(cluster.queries.get_many("store", keys, timeout_s=60))
    )
    asker.start()
    cluster.queries.get("store", key_in(0), timeout_s=60)
    assert answers == []
    cluster.place(cluster.one, FIRST)
    cluster.place(cluster.other, SECOND)
    asker.join(60)
    (found,) = answers
    assert found == {key: cluster.queries.get("store", key) for key in keys}


def test_a_closed_handle_answers_no_gets(cluster: Cluster) -> None:
    cluster.queries.get("store", "a", timeout_s=60)
    cluster.queries.close()
    with pytest.raises(ClosedError):
        cluster.queries.get("store", "a")


def test_ranges_of_more_rows_than_an_answer_may_have(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle goes on where an answer ended, in both directions."""
    monkeypatch.setattr(wire, "MAX_ROWS", 7)
    words = [f"w{number:03}" for number in range(40)]
    cluster.one.rig.send(*words)
    cluster.one.rig.work()
    wanted = sorted([("a", 2), ("b", 1), *((word, 1) for word in words)])

    def rows(query: Any) -> Any:
        (found,) = cluster.queries.query("store", query, partitions=[0]).partitions.values()
        return found.value

    assert rows(RangeQuery()) == wanted
    assert rows(RangeQuery("b", "w020", descending=True)) == [
        row for row in reversed(wanted) if "b" <= row[0] <= "w020"
    ]
    assert rows(PrefixQuery(b"w0")) == [row for row in wanted if row[0].startswith("w0")]


def test_a_query_during_a_move_is_answered_by_the_new_owner(cluster: Cluster) -> None:
    """The old owner says that it has the task no longer; the query is sent again until the table is right."""
    key = key_in(0)
    cluster.one.rig.send(key)
    cluster.one.rig.work()
    before = cluster.queries.get("store", key)
    cluster.one.rig.revoke(FIRST)
    answers: list[Any] = []
    asker = threading.Thread(target=lambda: answers.append(cluster.queries.get("store", key, timeout_s=60)))
    asker.start()
    cluster.other.rig.assign(FIRST)
    cluster.other.rig.send(key, key, key, key, key, key, key)
    cluster.other.rig.work()
    assert answers == []
    cluster.place(cluster.other, FIRST, SECOND)
    cluster.place(cluster.one)
    asker.join(60)
    assert before != 7
    assert answers == [7]


def refusal(reason: str, queries: Queries, *place: str, **options: Any) -> QueryTimeoutError:
    """The error of a query that is refused until its deadline. A loaded machine may need more than the first
    deadline for one answer."""
    for timeout_s in (0.2, 2, 20):
        with pytest.raises(QueryTimeoutError) as error:
            queries.get(*place, timeout_s=timeout_s, **options)
        if reason in str(error.value):
            return error.value
    raise error.value


def test_an_owner_that_lost_the_task_never_answers(cluster: Cluster) -> None:
    """A table that is old gives an error that says so, not a value."""
    cluster.one.rig.lose(FIRST)
    error = refusal("NOT_PRESENT", cluster.queries, "store", key_in(0))
    assert error.retriable
    assert isinstance(error.__cause__, StoreMigratedError)


def test_owner_without_contact_to_its_group_rejects_queries(cluster: Cluster) -> None:
    """Others may have its tasks soon: it answers no query of other processes, also no stale one."""
    key = key_in(0)
    cluster.queries.get("store", key)
    cluster.one.rig.has_recent_response = False
    for options in ({}, {"allow_stale": 100}):
        refusal("has had no response from its group", cluster.queries, "store", key, **options)
    cluster.one.rig.has_recent_response = True
    cluster.queries.get("store", key, timeout_s=60)


def test_stale_reads_of_a_standby(cluster: Cluster) -> None:
    """If the active task does not answer, a standby does that is not too far behind."""
    key = key_in(0)
    rig = cluster.other.rig
    rig.manager.use_roles((), [TASK], ())
    rig.cluster.append(rig.changelog.topic, key.encode(), int64.dumps(5), timestamp=3)
    rig.manager.update_standbys(is_idle=True)
    cluster.place(cluster.other, SECOND, standby=(FIRST,))
    cluster.one.rig.lose(FIRST)
    with pytest.raises(QueryTimeoutError):
        cluster.queries.get("store", key, timeout_s=0.2)
    assert cluster.queries.get("store", key, allow_stale=0, timeout_s=60) == 5


def test_bounds_wait_for_the_store(cluster: Cluster) -> None:
    """A query with a bound is answered once the store has seen the records."""
    key = key_in(0)
    position = cluster.queries.query("store", KeyQuery(key)).position
    bound = {FIRST: position[FIRST] + 1}
    refusal("NOT_UP_TO_BOUND", cluster.queries, "store", key, bound=bound)
    cluster.one.rig.send("z")
    cluster.one.rig.work()
    cluster.queries.get("store", key, bound=bound, timeout_s=60)


def test_errors_that_no_retry_helps(cluster: Cluster) -> None:
    """They are raised at once, with the class that a local query raises."""
    queries = cluster.queries
    with pytest.raises(UnknownStoreError, match="did you mean 'store'"):
        queries.get("stor", "a")
    with pytest.raises(WrongStoreKindError, match="WindowKeyQuery"):
        queries.query("store", WindowKeyQuery("a"))
    with pytest.raises(ValueError, match="0 to 1, not 5"):
        queries.query("store", RangeQuery(), partitions=[5])
    with pytest.raises(WrongStoreKindError, match="is no query"):
        queries.query("store", "a")
    with pytest.raises(QueryError, match="serializable"):
        queries.get("store", "a", isolation="serializable")


def test_query_is_not_sent_to_a_host_of_another_application(cluster: Cluster) -> None:
    """Its port was taken by an instance of another application: the query fails with the reason."""
    with Queries("other", KnownHosts(lambda: cluster.table), lambda store: (utf8, int64)) as queries:
        refusal("UNKNOWN_APPLICATION", queries, "store", "a")


def test_an_owner_that_crashed(cluster: Cluster) -> None:
    """Its connection breaks; the query is answered once the table names the next owner."""
    key = key_in(0)
    cluster.queries.get("store", key, timeout_s=60)
    cluster.one.server.close()
    with pytest.raises(QueryTimeoutError):
        cluster.queries.get("store", key, timeout_s=0.3)
    cluster.other.rig.assign(FIRST)
    cluster.other.rig.send(key)
    cluster.other.rig.work()
    cluster.place(cluster.other, FIRST, SECOND)
    cluster.place(cluster.one)
    assert cluster.queries.get("store", key, timeout_s=60) == 1


def test_a_host_that_does_not_answer(cluster: Cluster) -> None:
    """The deadline holds; others are answered meanwhile."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = HostInfo("127.0.0.1", silent.getsockname()[1])
        cluster.table = {**cluster.table, cluster.one.info: HostMetadata(cluster.one.info)}
        cluster.table[host] = HostMetadata(host, frozenset([tuple(FIRST)]))
        cluster.queries.get("store", key_in(1))
        with pytest.raises(QueryTimeoutError):
            cluster.queries.get("store", key_in(0), timeout_s=0.3)


def test_garbage_at_the_query_port(cluster: Cluster) -> None:
    """It is dropped; the server answers others."""
    with socket.create_connection(("127.0.0.1", cluster.one.server.port)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 50)
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.connect(f"tcp://127.0.0.1:{cluster.one.server.port}")
    for parts in ([b"\xff"] * 3, [b"", b"", b""], [b"x" * 4000, b"y"], [b"one"] * 20):
        dealer.send_multipart(parts)
    dealer.close(0)
    context.term()
    assert cluster.queries.get("store", key_in(0), timeout_s=60) in (None, 1, 2)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("KeysQuery", (b"a", None)),
     ("KeyQuery", ()), ("KeyQuery", (5,)), ("KeyQuery", ("a",)), ("Nothing", ()), ("PrefixQuery", (None,)),
     ("WindowKeyQuery", (b"a", None, 1)), ("RangeQuery", (b"a", None, 1))],
)  # fmt: skip
def test_messages_that_are_no_query(name: str, arguments: tuple[Any, ...]) -> None:
    """They are refused before the store is read."""
    with pytest.raises(ValueError, match=r"query|argument|cannot be"):
        wire.query_from(name, arguments)


@pytest.mark.parametrize(
    ("arguments", "partitions"), [((b"a",), ()), ((b"a", b"b"), (0,)), ((None,), (0,)), (("a",), (0,))]
)
def test_gets_that_are_no_keys(arguments: tuple[Any, ...], partitions: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="keys are bytes"):
        wire.points_from(arguments, partitions)
