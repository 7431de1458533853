"""Arrow batches into topics, at least once and exactly once: retried tasks, drivers that start again."""

import pickle
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from headrace import LocalCluster, NewTopic, TopicPartition
from headrace.clients.pipeline import (
    Planner,
    PreparedWrite,
    Sink,
    WriteReport,
    Written,
    abort_writes,
    commit_writes,
    fetch_arrow,
    prepare_arrow,
    read_options,
    write_arrow,
    write_options,
    writing_io,
)
from headrace.clients.pipeline.commits import Decision, Gate, driver_id, task_id
from headrace.clients.pipeline.visible_io import is_visible
from headrace.clients.sync.producer_io import Producer
from headrace.protocol.errors import ApiTimeoutError, DataLossError, InvalidTxnStateError, ProducerFencedError
from markers import until_markers_are_written
from pipeline_rig import Killed, pipeline_cluster
from reading import to_the_end


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node for all tests of the file, each with topics and queries of its own."""
    with pipeline_cluster(transaction_abort_timed_out_transaction_cleanup_interval_ms=50) as started:
        yield started


def create(cluster: LocalCluster, name: str, partitions: int = 1) -> Any:
    cluster.admin().create_topics(NewTopic(name, partitions)).raise_for_errors()
    return write_options({"kafka.bootstrap.servers": cluster.bootstrap, "topic": name})


def rows(*values: str) -> list[Any]:
    return [pa.record_batch({"value": pa.array(values, pa.string())})]


def read(cluster: LocalCluster, topic: str, column: str = "value") -> list[Any]:
    """What readers of committed data see, once all that is decided is carried out."""
    until_markers_are_written(cluster)
    wanted = read_options(
        {"bootstrap": cluster.bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    )
    found = []
    for each in Planner(wanted).batch().ranges:
        for batch in fetch_arrow(each, wanted, columns=[column]):
            found += batch.column(column).to_pylist()
    return sorted(found)


def test_rows_are_written_to_their_topic_and_partition(cluster: LocalCluster) -> None:
    """The report has counts and offsets; null is a tombstone."""
    create(cluster, "one", 2)
    create(cluster, "two")
    wanted = write_options({"bootstrap": cluster.bootstrap})
    table = pa.table(
        {
            "topic": ["one", "two", "one", "two", "one"],
            "partition": pa.array([1, 0, 1, None, 0], pa.int32()),
            "key": [b"a", b"b", b"c", b"d", b"e"],
            "value": [b"1", b"2", None, b"4", b"5"],
            "timestamp": pa.array([1, 2, 3, 4, 5], pa.timestamp("ms", "UTC")),
            "headers": [[("h", b"x")], [], None, [], []],
        },
        schema=pa.schema(
            [
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("timestamp", pa.timestamp("ms", "UTC")),
                ("headers", pa.map_(pa.string(), pa.binary())),
            ]
        ),
    )
    report = write_arrow([table, table.slice(0, 1)], wanted)
    assert report.rows == 6
    assert dict(report.partitions) == {
        TopicPartition("one", 0): Written(1, 0, 0),
        TopicPartition("one", 1): Written(3, 0, 2),
        TopicPartition("two", 0): Written(2, 0, 1),
    }
    with cluster.consumer("one", auto_offset_reset="earliest") as consumer:
        found = [(r.partition, r.key, r.value, r.timestamp, list(r.headers)) for r in to_the_end(consumer)]
    assert sorted(found) == [
        (0, b"e", b"5", 5, []),
        (1, b"a", b"1", 1, [("h", b"x")]),
        (1, b"a", b"1", 1, [("h", b"x")]),
        (1, b"c", None, 3, []),
    ]


def test_every_kind_of_record_is_read_as_written(cluster: LocalCluster) -> None:
    """Null, empty, all bytes, more than a MB; headers without a value, and repeated keys."""
    mb = 1 << 20
    configs = {"max.message.bytes": str(8 * mb)}
    cluster.admin().create_topics(NewTopic("all", 1, configs=configs)).raise_for_errors()
    at = {"bootstrap": cluster.bootstrap}
    wanted = write_options({**at, "topic": "all", "kafka.max.request.size": 8 * mb})
    each_byte, large = bytes(range(256)), Random(1).randbytes(3 * mb)
    columns = {
        "key": [None, b"", each_byte, large, b"k"],
        "value": [b"", None, each_byte, large, None],
        "headers": [
            None,
            [],
            [{"key": "a", "value": None}, {"key": "a", "value": b""}, {"key": "a", "value": each_byte}],
            [{"key": "", "value": b"x"}, {"key": "ü", "value": None}],
            [{"key": "large", "value": large[:mb]}],
        ],
    }
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    kinds = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(header))])
    nulls = pa.table({"key": pa.nulls(2, pa.binary()), "value": pa.nulls(2, pa.binary())})
    assert write_arrow([pa.table(columns, schema=kinds), nulls], wanted).rows == 7
    for fetch in ({}, {"kafka.max.partition.fetch.bytes": 1024, "kafka.fetch.max.bytes": 1024}):
        reading = read_options({**at, "subscribe": "all", "includeHeaders": "true", **fetch})
        (whole,) = Planner(reading).batch().ranges
        found = pa.Table.from_batches(fetch_arrow(whole, reading)).select(["key", "value", "headers"])
        expected = {name: [*values, None, None] for name, values in columns.items()}
        expected["headers"] = [each or [] for each in expected["headers"]]
        got = found.to_pydict()
        got["headers"] = [each or [] for each in got["headers"]]
        assert got == expected


def test_batch_is_committed_once(cluster: LocalCluster) -> None:
    """No row is visible before the driver commits; a repeated batch adds nothing."""
    wanted = create(cluster, "once", 2)
    for batch in range(2):
        for attempt in range(2):
            writes = [
                prepare_arrow(rows(f"{batch}{task}"), wanted, query="once", task=task) for task in range(3)
            ]
            writes = pickle.loads(pickle.dumps(writes))
            with Sink(wanted, "once") as sink:
                assert sink.is_committed(batch) == bool(attempt)
                if not attempt:
                    assert read(cluster, "once") == [b"%d%d" % (b, t) for b in range(batch) for t in range(3)]
                assert sink.commit(batch, writes) == (not attempt)
                assert sink.last_batch == batch
    assert read(cluster, "once") == [b"%d%d" % (b, t) for b in range(2) for t in range(3)]


def test_decision_with_many_tasks(cluster: LocalCluster) -> None:
    """Its record is larger than the default maximum of a request."""
    wanted = create(cluster, "many")
    place = (TopicPartition("t" * 200, 0), Written(1, 0, 0))
    writes = tuple(
        PreparedWrite(str(task), task_id("many", task), 10**9 + task, 7, WriteReport(1, (place,)))
        for task in range(20_000)
    )
    with Sink(wanted, "many") as sink:
        sink._record(Decision(3, True, writes))
    with Sink(wanted, "many") as sink:
        assert sink._last == Decision(3, True, writes)


def test_retried_task_fences_the_previous_attempt(cluster: LocalCluster) -> None:
    """Its records are aborted; with its message the driver commits nothing."""
    wanted = create(cluster, "retried")
    other = prepare_arrow(rows("other"), wanted, query="retried", task=1)
    first = prepare_arrow(rows("first"), wanted, query="retried", task=0)
    second = prepare_arrow(rows("second"), wanted, query="retried", task=0)
    with Sink(wanted, "retried") as sink:
        with pytest.raises(InvalidTxnStateError, match="task 0: a later attempt"):
            sink.commit(0, [first, other])
        assert sink.last_batch is None
        assert read(cluster, "retried") == []
        other = prepare_arrow(rows("other"), wanted, query="retried", task=1)
        assert sink.commit(0, [second, other])
    assert read(cluster, "retried") == [b"other", b"second"]


def test_late_first_attempt_does_not_fence_the_second(cluster: LocalCluster) -> None:
    """An engine may start it again before its process has begun to write."""
    wanted = create(cluster, "overtaken")
    other = prepare_arrow(rows("other"), wanted, query="overtaken", task=1)
    second = prepare_arrow(rows("second"), wanted, query="overtaken", task=0, attempt=1)
    prepare_arrow(rows("late"), wanted, query="overtaken", task=0)
    with Sink(wanted, "overtaken") as sink:
        assert sink.commit(0, [second, other])
        assert sink.abort_leftovers() == 0  # the commit has ended the late one
    assert read(cluster, "overtaken") == [b"other", b"second"]


def test_attempts_of_a_committed_batch_leave_nothing_open(cluster: LocalCluster) -> None:
    """The engine runs the batch again, and repeats a task."""
    wanted = create(cluster, "replayed")
    with Sink(wanted, "replayed") as sink:
        assert sink.commit(0, [prepare_arrow(rows("v"), wanted, query="replayed", task=0)])
        prepare_arrow(rows("late"), wanted, query="replayed", task=0)
        again = prepare_arrow(rows("again"), wanted, query="replayed", task=0, attempt=1)
        assert not sink.commit(0, [again])
        assert sink.abort_leftovers() == 0
    assert read(cluster, "replayed") == [b"v"]


def test_fenced_attempt_fails_while_it_writes(cluster: LocalCluster) -> None:
    """None of its rows count."""
    wanted = create(cluster, "zombie")

    def slow() -> Iterator[Any]:
        yield from rows("first")
        nonlocal second
        second = prepare_arrow(rows("second"), wanted, query="zombie", task=0)
        yield from rows("late")

    second: PreparedWrite | None = None
    with pytest.raises(ProducerFencedError, match="task 0 of 'zombie'"):
        prepare_arrow(slow(), wanted, query="zombie", task=0)
    assert second is not None
    commit_writes([second], wanted)
    assert read(cluster, "zombie") == [b"second"]


def test_restarted_driver_completes_the_decision(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the decision and the commits of its tasks, after some of them, or after all."""
    wanted = create(cluster, "driver", 2)
    for batch, done in enumerate((0, 1, 2)):
        writes = [prepare_arrow(rows(f"{batch}{t}"), wanted, query="driver", task=t) for t in range(2)]

        def die(self: Sink, decision: Decision, done: int = done) -> None:
            commit_writes(decision.writes[:done], wanted)
            raise Killed

        with monkeypatch.context() as patched, Sink(wanted, "driver") as sink:
            patched.setattr(Sink, "_finish", die)
            with pytest.raises(Killed):
                sink.commit(batch, writes)
        with Sink(wanted, "driver") as sink:
            assert sink.last_batch == batch
            assert not sink.commit(batch, writes) if batch == 2 else True
    assert read(cluster, "driver") == [b"%d%d" % (b, t) for b in range(3) for t in range(2)]


def test_replaced_driver_decides_nothing(cluster: LocalCluster) -> None:
    """Its commit fails before any transaction is committed, and the new driver's stands."""
    wanted = create(cluster, "replaced")
    old = Sink(wanted, "replaced")
    write = prepare_arrow(rows("a"), wanted, query="replaced", task=0)
    new = Sink(wanted, "replaced")
    with pytest.raises(ProducerFencedError):
        old.commit(0, [write])
    assert read(cluster, "replaced") == []
    assert new.commit(0, [write])
    new.close()
    old.close()
    assert read(cluster, "replaced") == [b"a"]


def test_lost_rows_of_a_decision_are_an_error(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that returns too late reports the loss each time, until it is acknowledged."""
    wanted = create(cluster, "late")
    writes = [prepare_arrow(rows(f"{t}"), wanted, query="late", task=t) for t in range(2)]

    def die(self: Sink, decision: Decision) -> None:
        raise Killed

    with monkeypatch.context() as patched, Sink(wanted, "late") as sink:
        patched.setattr(Sink, "_finish", die)
        with pytest.raises(Killed):
            sink.commit(0, writes)
    abort_writes(writes[:1], wanted)
    for _ in range(2):
        with pytest.raises(DataLossError, match="task 0 with 1 rows"):
            Sink(wanted, "late")
    assert read(cluster, "late") == [b"1"]
    known = write_options({"bootstrap": cluster.bootstrap, "topic": "late", "failOnDataLoss": "false"})
    with Sink(known, "late") as sink:
        assert sink.last_batch == 0
    with Sink(wanted, "late") as sink:
        assert sink.commit(1, [prepare_arrow(rows("2"), wanted, query="late", task=0)])
    assert read(cluster, "late") == [b"1", b"2"]


def test_late_attempt_does_not_report_committed_rows_as_lost(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fences the id between the commits and the end of the decision."""
    wanted = create(cluster, "taken")
    writes = [prepare_arrow(rows(f"{t}"), wanted, query="taken", task=t) for t in range(2)]

    def die(self: Sink, decision: Decision) -> None:
        raise Killed

    with monkeypatch.context() as patched, Sink(wanted, "taken") as sink:
        patched.setattr(Sink, "_finish", die)
        with pytest.raises(Killed):
            sink.commit(0, writes)
    commit_writes(writes[1:], wanted)
    late = prepare_arrow(rows("late"), wanted, query="taken", task=1)
    with pytest.raises(ApiTimeoutError, match="whether task 1"):
        is_visible(writes[1], wanted)  # the first task's rows lie before
    # as long as the marker of the first task's commit is not written
    ends, real = iter([{TopicPartition("taken", 0): 0}]), Planner.latest_offsets
    monkeypatch.setattr(Planner, "latest_offsets", lambda planner: next(ends, None) or real(planner))
    with Sink(wanted, "taken") as sink:
        assert sink.last_batch == 0
        sink.abort([late])
    assert read(cluster, "taken") == [b"0", b"1"]


def test_timed_out_transaction_aborts_the_whole_batch(cluster: LocalCluster) -> None:
    create(cluster, "slow")
    given = {"bootstrap": cluster.bootstrap, "topic": "slow"}
    hasty = write_options({**given, "kafka.transaction.timeout.ms": "1"})
    wanted = write_options(given)
    good = prepare_arrow(rows("good"), wanted, query="slow", task=0)
    bad = prepare_arrow(rows("bad"), hasty, query="slow", task=1)
    admin = cluster.admin()
    while admin.describe_transactions(bad.transactional_id)[bad.transactional_id].state.value == "Ongoing":
        pass
    with Sink(wanted, "slow") as sink:
        with pytest.raises(InvalidTxnStateError, match=r"task 1: .* or transaction.timeout.ms has passed"):
            sink.commit(0, [good, bad])
        assert sink.last_batch is None
    assert read(cluster, "slow") == []
    with pytest.raises(ProducerFencedError):
        commit_writes([bad], wanted)


def test_open_transactions_of_lost_attempts_are_aborted(cluster: LocalCluster) -> None:
    """Of this query alone, except those of a commit in progress."""
    wanted = create(cluster, "left")
    others = prepare_arrow(rows("other"), wanted, query="left/x", task=0)
    prepare_arrow(rows("lost"), wanted, query="left", task=0)
    kept = prepare_arrow(rows("kept"), wanted, query="left", task="x/0")
    with Sink(wanted, "left") as sink:
        assert sink.abort_leftovers(keep=[kept]) == 1
        assert sink.abort_leftovers(keep=[kept]) == 0
        assert sink.commit(0, [kept])
    commit_writes([others], wanted)
    assert read(cluster, "left") == [b"kept", b"other"]


@pytest.mark.parametrize(
    "step", ["before it begins", "before it takes its id", "before it asks", "in its rows"]
)
def test_slow_attempt_of_a_failed_job_leaves_nothing_open(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At whichever step it was when the driver aborted the job."""
    query = f"failing {step}"
    topic = query.replace(" ", "-")
    wanted = create(cluster, topic)
    steps = iter(["before it takes its id", "before it asks"])

    def give_up(now: str) -> None:
        if now == step:
            sink.abort_leftovers()

    class Slow(Producer[bytes, bytes]):
        def __init__(self, *given: Any, **more: Any) -> None:
            if more.get("transactional_id") == f"headrace-sink/{quote(query)}/0":
                give_up(next(steps))
            super().__init__(*given, **more)

        def init_transactions(self) -> None:
            super().init_transactions()
            give_up(next(steps))

    def late() -> Iterator[Any]:
        give_up("in its rows")
        yield from rows("late")

    with Sink(wanted, query) as sink:
        gate = pickle.loads(pickle.dumps(sink.open_gate()))
        give_up("before it begins")
        with monkeypatch.context() as patched:
            patched.setattr(writing_io, "Producer", Slow)
            with pytest.raises(ProducerFencedError, match=r"is too late|its job has ended"):
                prepare_arrow(late(), wanted, query=query, task=0, gate=gate)
        assert sink.abort_leftovers() == 0
        again = prepare_arrow(rows("again"), wanted, query=query, task=0, gate=sink.open_gate())
        assert sink.commit(0, [again])
    assert read(cluster, topic) == [b"again"]


def test_late_attempt_fences_no_newer_attempt(cluster: LocalCluster) -> None:
    """Of a failed job, of a committed one, or of a replaced driver."""
    wanted = create(cluster, "gates")
    with Sink(wanted, "gates") as first:
        gates = [first.open_gate()]
        first.abort_leftovers()
        gates.append(first.open_gate())
        kept = prepare_arrow(rows("0"), wanted, query="gates", task=0, gate=gates[1])
        assert first.commit(0, [kept])
        gates.append(first.open_gate())
        with Sink(wanted, "gates") as second:
            write = prepare_arrow(rows("1"), wanted, query="gates", task=0, gate=second.open_gate())
            for gate in gates:
                with pytest.raises(ProducerFencedError, match="is too late"):
                    prepare_arrow(rows("late"), wanted, query="gates", task=0, gate=gate)
            with pytest.raises(ProducerFencedError):
                first.abort_leftovers()
            assert second.commit(1, [write])
    assert read(cluster, "gates") == [b"0", b"1"]


@pytest.mark.parametrize("attempt", [0, 1])
def test_failed_commit_closes_the_gate(cluster: LocalCluster, attempt: int) -> None:
    """Another attempt of the same number has fenced the attempt of the message: both are aborted."""
    query = f"shut-{attempt}"
    wanted = create(cluster, query)
    with Sink(wanted, query) as sink:
        names: dict[str, Any] = {"query": query, "task": 0, "attempt": attempt, "gate": sink.open_gate()}
        first, _ = (prepare_arrow(rows("v"), wanted, **names) for _ in range(2))
        with pytest.raises(InvalidTxnStateError, match=r"task 0.*: a later attempt"):
            sink.commit(0, [first])
        with pytest.raises(ProducerFencedError, match="is too late"):
            prepare_arrow(rows("late"), wanted, **names)
        pattern = f"headrace-sink/{query}/.*"
        assert cluster.admin().list_transactions(states=["Ongoing"], pattern=pattern) == []
        write = prepare_arrow(rows("again"), wanted, **{**names, "gate": sink.open_gate()})
        assert sink.commit(0, [write])
    assert read(cluster, query) == [b"again"]


def test_gate_of_a_driver_without_a_start(cluster: LocalCluster) -> None:
    """A job whose driver starts after its tasks: the gate is closed from then on."""
    wanted = create(cluster, "unused")
    gate = Gate(driver_id("unused"))
    write = prepare_arrow(rows("in"), wanted, query="unused", task=0, gate=gate)
    with Sink(wanted, "unused") as sink:
        with pytest.raises(ProducerFencedError, match="is too late"):
            prepare_arrow(rows("late"), wanted, query="unused", task=1, gate=gate)
        assert sink.commit(0, [write])
    assert read(cluster, "unused") == [b"in"]


def test_tasks_without_rows_are_committed(cluster: LocalCluster) -> None:
    """Also a batch of such tasks alone."""
    wanted = create(cluster, "empty")
    nothing = prepare_arrow([], wanted, query="empty", task=0)
    assert nothing.is_empty
    with Sink(wanted, "empty") as sink:
        assert sink.commit(0, [nothing])
        assert sink.commit(1, [])
        assert sink.last_batch == 1
        assert not sink.commit(1, [])


@pytest.mark.parametrize(
    ("columns", "kind", "says"),
    [
        ({"key": ["a"]}, ValueError, "no column 'value'"),
        ({"value": ["a"], "valeu": ["b"]}, ValueError, "unknown column 'valeu'.*key, topic, partition"),
        ({"value": [1]}, TypeError, "'value' has type int64: .* must be binary or text. Cast it"),
        (
            {"value": ["a"], "key": [1.5]},
            TypeError,
            "'key' has type double: .* must be binary or text. Cast it",
        ),
        ({"value": ["a"], "partition": ["0"]}, TypeError, "'partition' has type string"),
        ({"value": ["a"], "partition": [-7]}, Exception, "are 0 to 0"),
        ({"value": ["a"], "timestamp": ["now"]}, TypeError, "'timestamp' has type string"),
        ({"value": ["a"], "headers": ["x"]}, TypeError, "'headers' has type string"),
    ],
)
def test_invalid_columns_are_refused(
    cluster: LocalCluster, columns: dict[str, Any], kind: type[Exception], says: str
) -> None:
    """By name and type, with the allowed ones; nothing of the task counts."""
    if "refused" not in {topic.name for topic in cluster.admin().list_topics()}:
        create(cluster, "refused")
    wanted = write_options({"bootstrap": cluster.bootstrap, "topic": "refused"})
    with pytest.raises(kind, match=says):
        prepare_arrow([pa.table(columns)], wanted, query="refused", task=0)
    assert read(cluster, "refused") == []


def test_topic_is_an_option_or_a_column(cluster: LocalCluster) -> None:
    """One of them must exist; a null is an error."""
    wanted = write_options({"bootstrap": cluster.bootstrap})
    for columns, kind in (
        ({"value": ["a"]}, ValueError),
        ({"value": ["a"], "topic": pa.array([None], pa.string())}, ValueError),
        ({"value": ["a"], "topic": [1]}, TypeError),
    ):
        with pytest.raises(kind, match="topic"):
            write_arrow([pa.table(columns)], wanted)
    with pytest.raises(TypeError, match="record batches or tables, not dict"):
        write_arrow([{"value": ["a"]}], wanted)


@pytest.mark.parametrize(
    ("topics", "values"),
    [
        (pa.array(["kinds", "kinds-2"]).dictionary_encode(), pa.array(["a", "b"])),
        (pa.array(["kinds", "kinds-2"], pa.string_view()), pa.array(["a", "b"], pa.string_view())),
        (pa.array(["kinds", "kinds-2"], pa.large_string()), pa.array([b"a", b"b"], pa.binary_view())),
    ],
)
def test_topic_column_of_any_layout(cluster: LocalCluster, topics: Any, values: Any) -> None:
    """Each row goes to its topic; a null in the dictionary is an error."""
    admin, options = cluster.admin(), write_options({"kafka.bootstrap.servers": cluster.bootstrap})
    admin.create_topics(NewTopic("kinds"), NewTopic("kinds-2"))
    report = write_arrow([pa.table({"value": values, "topic": topics})], options)
    assert [(tp.topic, written.rows) for tp, written in report.partitions] == [("kinds", 1), ("kinds-2", 1)]
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["kinds", None]))
    with pytest.raises(ValueError, match="has a null"):
        write_arrow([pa.table({"value": values, "topic": hidden})], options)
