"""Ray Data over a real cluster: exact rows in, exactly once out, while tasks, drivers and nodes die."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import headrace
import pyarrow as pa
import pytest
import ray
from headrace import LocalCluster, NewTopic, TopicPartition, local, ray_data
from headrace.clients.pipeline import Planner, ReadOptions, Sink, read_options, write_arrow, write_options
from headrace.clients.pipeline.pool_io import close_idle
from headrace.clients.ray_data import reading_io
from headrace.clients.ray_data.writing_io import prepare
from headrace.protocol import errors
from headrace.runtime.tracing.control_io import ControlSpans, call_context, control_call
from headrace.runtime.waiting_io import until
from markers import until_markers_are_written
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ray.data.expressions import col
from recreating import recreate
from spans import application_tracer

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray and what it imports
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SIZE = 300
PAGE = Path(__file__).parents[2] / "docs" / "PIPELINE.md"


@pytest.fixture(scope="module")
def cluster(ray_address: str) -> Iterator[LocalCluster]:
    """Three nodes for all tests, each with topics of its own; this process is a driver of the Ray."""
    ray.init(address=ray_address, log_to_driver=False, logging_level="error")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.DataContext.get_current().print_on_execution_start = False
    try:
        with local(nodes=3, broker_session_timeout_ms=3_000) as started:
            started.producer(transactional_id="first").init_transactions()  # its topic has three replicas
            yield started
            close_idle()
    finally:
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
        ray.shutdown()


def create(cluster: LocalCluster, name: str, partitions: int = 3, rows: int = SIZE) -> None:
    cluster.admin().create_topics(NewTopic(name, partitions, 3)).raise_for_errors()
    append(cluster, name, range(rows), partitions)


def append(cluster: LocalCluster, name: str, numbers: range, partitions: int = 3) -> None:
    if numbers:
        where = pa.array([number % partitions for number in numbers], pa.int32())
        table = pa.table({"value": [f"{number:04}" for number in numbers], "partition": where})
        write_arrow([table], write_options({"bootstrap": cluster.bootstrap, "topic": name}))


def read(cluster: LocalCluster, topic: Any, **more: Any) -> Any:
    until_markers_are_written(cluster)
    return ray_data.read(topic, bootstrap_servers=cluster.bootstrap, **more)


def numbers(dataset: Any) -> list[int]:
    return sorted(int(row["value"]) for row in dataset.select_columns(["value"]).take_all())


def seen(cluster: LocalCluster, topic: str) -> list[int]:
    """What readers of committed records see, without Ray."""
    until_markers_are_written(cluster)
    shards = ray_data.sharded(topic, bootstrap_servers=cluster.bootstrap)
    iterator = ray_data.ShardIterator(shards, rank=0, world_size=1, columns=["value"])
    return sorted(int(value) for batch in iterator for value in batch["value"])


class Traced:
    """A control handle as those of headrace's servers; keeps the spans of its process for the test."""

    def __init__(self) -> None:
        traced_process()
        self.control_spans = ControlSpans("node-1")

    @control_call
    def status(self, number: int) -> int:
        return number

    def spans(self) -> list[tuple[str, str, int]]:
        """Name, trace id and number of links of the ended spans."""
        return ended_spans()


def traced_process() -> None:
    """Keep the spans of this process, as a worker_process_setup_hook would export them."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    trace.headrace_test_exporter = exporter


def plan_of(options: dict[str, Any]) -> tuple[Any, ReadOptions]:
    """The ranges of a read, and its options."""
    checked = read_options(options)
    return Planner(checked).batch().ranges, checked


def ended_spans() -> list[tuple[str, str, int]]:
    return [
        (span.name, f"{span.context.trace_id:032x}", len(span.links))
        for span in trace.headrace_test_exporter.get_finished_spans()
    ]


# --- reading ------------------------------------------------------------------------------------------------


def test_topic_is_a_dataset(cluster: LocalCluster) -> None:
    """All rows once, in the given number of tasks; the same rows again when more were appended."""
    create(cluster, "whole")
    dataset = read(cluster, "whole", override_num_blocks=7)
    append(cluster, "whole", range(SIZE, SIZE + 30))
    assert dataset.schema().names == [name for name in headrace.ARROW_SCHEMA.names if name != "headers"]
    assert numbers(dataset) == list(range(SIZE))
    assert dataset.count() == SIZE
    assert numbers(read(cluster, "whole")) == list(range(SIZE + 30))
    assert len(dataset.limit(5).take_all()) == 5


def test_offsets_columns_and_filters_select_rows(cluster: LocalCluster) -> None:
    """Offsets as in `read_kafka`; filtered columns are not fetched."""
    create(cluster, "parts")
    some = read(cluster, ["parts"], start_offset={"parts": {0: 90}}, end_offset={"parts": {1: 5, 2: 0}})
    assert numbers(some) == sorted([*range(270, SIZE, 3), *range(1, 16, 3)])
    assert read(cluster, "parts", start_offset=98, end_offset=10_000, columns=["offset"]).take_all() == (
        [{"offset": 98}, {"offset": 99}] * 3
    )
    few = read(cluster, "parts").filter(expr=(col("offset") >= 10) & (col("offset") < 12))
    assert numbers(few) == list(range(30, 36))
    assert few.count() == 6
    with pytest.raises(errors.ConfigError, match="start_offset"):
        read(cluster, "parts", start_offset="latest")
    with pytest.raises(errors.UnknownTopicOrPartitionError, match="nowhere"):
        read(cluster, "nowhere")
    with pytest.raises(errors.ConfigError, match="parts-3"):
        read(cluster, "parts", end_offset={"parts": {3: 1}})
    with pytest.raises(errors.DataLossError, match="parts-0"):
        read(cluster, "parts", end_offset={"parts": {0: 101}})
    rest = read(cluster, "parts", end_offset={"parts": {0: 101}}, failOnDataLoss=False)
    assert numbers(rest) == list(range(SIZE))


def test_traces_go_through_actors_and_read_tasks(cluster: LocalCluster) -> None:
    """A control call of an actor has a span below that of the driver; so has each table of a read task of Ray
    Data, with links to the spans of the producers. Both are made in the processes of the workers."""
    create(cluster, "traced", 1, 0)
    tracer = application_tracer()
    with cluster.producer(enable_tracing=True) as producer, tracer.start_as_current_span("sent"):
        for future in [producer.send("traced", b"%04d" % number) for number in range(3)]:
            future.result(60)
    actor = ray.remote(Traced).options(num_cpus=0).remote()
    with tracer.start_as_current_span("driver") as driver:
        assert ray.get(actor.status.remote(7, **call_context()), timeout=60) == 7
        options = {
            "bootstrap.servers": cluster.bootstrap,
            "subscribe": "traced",
            "kafka.enable.tracing": True,
        }
        source = reading_io.TopicDatasource(*plan_of(options))
        (task,) = source.get_read_tasks(1)
    assert ray.get(actor.status.remote(8, **call_context()), timeout=60) == 8
    trace_id = f"{driver.get_span_context().trace_id:032x}"
    assert ray.get(actor.spans.remote(), timeout=60) == [("status node-1", trace_id, 0)]

    @ray.remote(num_cpus=0)
    def run(task: Any) -> tuple[int, list[tuple[str, str, int]]]:
        traced_process()
        return sum(table.num_rows for table in task()), ended_spans()

    assert ray.get(run.remote(task), timeout=60) == (3, [("poll traced", trace_id, 3)])


def test_tasks_export_their_metrics(cluster: LocalCluster) -> None:
    """A worker passes rows and bytes to Ray's pipeline, and serves them to Prometheus."""
    create(cluster, "counted", 1, 30)
    options = {"bootstrap.servers": cluster.bootstrap, "subscribe": "counted"}
    (task,) = reading_io.TopicDatasource(*plan_of(options)).get_read_tasks(1)

    @ray.remote(num_cpus=0)
    def run(task: Any) -> tuple[list[str], bool]:
        exporters = {"metrics_ray_enable": True, "metrics_ray_interval_ms": 100}
        with headrace.start_telemetry(
            headrace.pipelines, metrics_listener="127.0.0.1:0", **exporters
        ) as telemetry:
            assert sum(table.num_rows for table in task()) == 30
            until(lambda: telemetry.status()["ray"]["pushes"] > 0, 30, 0.05)
            assert telemetry.status()["ray"]["failures"] == 0
            text = urllib.request.urlopen(telemetry.url).read().decode()
        own = [line for line in text.splitlines() if line.startswith("headrace_pipeline_records_read")]
        return own, "headrace_pipeline_bytes_read_total" in text

    lines, has_bytes = ray.get(run.remote(task), timeout=60)
    assert 'headrace_pipeline_records_read_total{topic="counted"} 30' in lines
    assert has_bytes


def test_ranges_end_at_markers_and_headers_may_repeat(cluster: LocalCluster) -> None:
    """Markers, aborted rows and open transactions at the end, and a repeated key of headers."""
    create(cluster, "markers", 1, 0)
    headers = [("k", b"1"), ("k", b"2"), ("n", None)]
    with cluster.producer(transactional_id="markers") as producer:
        with producer.transaction() as transaction:
            transaction.send("markers", b"0001", headers=headers)
        producer.begin_transaction()
        producer.send("markers", b"0002").result(60)
        producer.abort_transaction()
        rows = read(cluster, "markers", includeHeaders=True).take_all()
        assert [row["value"] for row in rows] == [b"0001"]
        assert [(each["key"], each["value"]) for each in rows[0]["headers"]] == headers
        assert read(cluster, "markers", start_offset=1).take_all() == []
        uncommitted = {"isolation.level": "read_uncommitted"}
        assert numbers(read(cluster, "markers", consumer_config=uncommitted)) == [1, 2]


def test_recreated_topic(cluster: LocalCluster) -> None:
    """Between plan and read: an error, or the remaining rows."""
    create(cluster, "again", 1)
    first = read(cluster, "again")
    lax = read(cluster, "again", failOnDataLoss=False)
    recreate(cluster, NewTopic("again", 1, 3))
    append(cluster, "again", range(SIZE), 1)
    with pytest.raises(errors.DataLossError, match="created again"):
        first.take_all()
    assert lax.take_all() == []


def test_tasks_run_beside_the_leaders(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read task prefers the Ray node of its leader; a dead node delays nothing."""
    create(cluster, "beside")
    nodes = {"127.0.0.1": [ray.get_runtime_context().get_node_id(), "f" * 56]}
    monkeypatch.setattr(reading_io, "ray_nodes", lambda _: nodes)
    assert numbers(read(cluster, "beside", columns=["value"])) == list(range(SIZE))


@pytest.mark.usefixtures("cluster")
def test_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The Ray Data program of docs/PIPELINE.md, on this Ray."""
    (program,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    exec(compile(program, PAGE.name, "exec"), {})
    printed = [each for each in capsys.readouterr().out.splitlines() if each.startswith("1000")]
    assert printed == ["1000", "1000 True", "1000"]


# --- writing ------------------------------------------------------------------------------------------------


class OnceKilled(ray_data.TopicDatasink):
    """Its process dies when the first attempt of a task has written all."""

    def __init__(self, mark: Path, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.mark = mark

    def write(self, blocks: Any, ctx: Any) -> Any:
        found = super().write(blocks, ctx)
        die_once(self.mark)
        return found


def die_once(mark: Path) -> None:
    with contextlib.suppress(FileExistsError):
        mark.touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)


def dies_within(mark: Path, number: int) -> Callable[[Any], Any]:
    def give(table: Any) -> Any:
        if str(number).zfill(4).encode() in table.column("value").to_pylist():
            die_once(mark)
        return table

    return give


def test_rows_are_written(cluster: LocalCluster) -> None:
    """At least once, and exactly once by batch number, which is not repeated then; invalid rows are an error,
    and no row of the batch is visible."""
    create(cluster, "source")
    create(cluster, "sink", rows=0)
    at = {"bootstrap_servers": cluster.bootstrap}
    values = read(cluster, "source", columns=["value"])
    report = ray_data.write(values, "sink", **at, rows_per_task=SIZE)
    assert report is not None
    assert report.rows == SIZE
    assert ray_data.write(values, "sink", **at, sink="rows", batch=4) is not None
    assert ray_data.write(values.map(lambda _: 1 / 0), "sink", **at, sink="rows", batch=4) is None
    assert ray_data.write(values.limit(0), "sink", **at, sink="rows", batch=5) == headrace_report()
    with pytest.raises(ValueError, match="unknown column 'offset'"):
        ray_data.write(read(cluster, "source"), "sink", **at, sink="rows")
    with pytest.raises(TypeError, match=r"'value' has type int64: .* must be binary or text"):
        ray_data.write(ray.data.range(3).rename_columns({"id": "value"}), "sink", **at)
    with pytest.raises(errors.ConfigError, match="needs a sink"):
        ray_data.write(values, "sink", **at, batch=1)
    assert seen(cluster, "sink") == sorted([*range(SIZE)] * 2)
    with Sink(write_options({"bootstrap": cluster.bootstrap}), "rows") as sink:
        assert (sink.last_batch, sink.abort_leftovers()) == (5, 0)


def headrace_report() -> Any:
    from headrace.clients.pipeline import WriteReport

    return WriteReport()


def test_task_is_killed_during_and_after_its_write(cluster: LocalCluster, tmp_path: Path) -> None:
    """Ray repeats it, and the rows of the first attempt are not visible."""
    create(cluster, "kill-in")
    create(cluster, "kill-out", rows=0)
    values = read(cluster, "kill-in", columns=["value"], override_num_blocks=3)
    options = write_options({"bootstrap": cluster.bootstrap, "topic": "kill-out"})
    within = values.map_batches(dies_within(tmp_path / "within", 150), batch_size=20, batch_format="pyarrow")
    datasink = OnceKilled(tmp_path / "after", options, sink="killed")
    with Sink(options, "killed") as sink:
        prepare(within, datasink, sink, {})
        assert seen(cluster, "kill-out") == []
        assert sink.commit(0, datasink.prepared)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["after", "within"]
    assert seen(cluster, "kill-out") == list(range(SIZE))


DYING_DRIVER = """
import os, signal, sys
import ray
from headrace import ray_data
from headrace.clients.pipeline import Sink

ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
Sink.commit = lambda *given, **more: os.kill(os.getpid(), signal.SIGKILL)
at = {"bootstrap_servers": sys.argv[2]}
ray_data.write(ray_data.read("die-in", columns=["value"], **at), "die-out", sink="die", batch=7, **at)
"""


def test_driver_is_killed_before_its_decision(cluster: LocalCluster, ray_address: str) -> None:
    """No row is visible; the next driver writes the batch once, and no transaction stays open."""
    create(cluster, "die-in")
    create(cluster, "die-out", rows=0)
    arguments = [sys.executable, "-W", "ignore", "-c", DYING_DRIVER, ray_address, cluster.bootstrap]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=500)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert seen(cluster, "die-out") == []
    at = {"bootstrap_servers": cluster.bootstrap, "sink": "die", "batch": 7}
    values = read(cluster, "die-in", columns=["value"])
    assert ray_data.write(values.limit(100), "die-out", **at) is not None
    assert ray_data.write(values, "die-out", **at) is None
    assert len(seen(cluster, "die-out")) == 100


def test_node_is_killed_during_read_and_write(cluster: LocalCluster, tmp_path: Path) -> None:
    """Tasks continue at the next leaders: every row once."""
    rows = 3000
    create(cluster, "node-in", rows=rows)
    create(cluster, "node-out", rows=0)
    begun, killed = tmp_path / "begun", tmp_path / "killed"

    def wait(table: Any) -> Any:
        begun.touch()
        assert until(killed.exists, 300)
        return table

    def kill() -> None:
        assert until(begun.exists, 300)
        cluster.kill_node(1)
        killed.touch()

    killer = threading.Thread(target=kill)
    killer.start()
    small = {"kafka.max.partition.fetch.bytes": 4000, "kafka.fetch.max.bytes": 4000}
    values = read(cluster, "node-in", columns=["value"], override_num_blocks=3, **small)
    waiting = values.map_batches(wait, batch_size=100, batch_format="pyarrow")
    try:
        at = {"bootstrap_servers": cluster.bootstrap}
        assert ray_data.write(waiting, "node-out", sink="node", **at) is not None
    finally:
        killer.join(300)
        cluster.restart_node(1)
    assert seen(cluster, "node-out") == list(range(rows))


# --- streams ------------------------------------------------------------------------------------------------


def new_stream(cluster: LocalCluster, group: str, **more: Any) -> ray_data.Stream:
    more = {"columns": ["value"], "every": 0.05, "bootstrap_servers": cluster.bootstrap, **more}
    return ray_data.stream("stream", group, **more)


@pytest.fixture(scope="module")
def streamed(cluster: LocalCluster) -> LocalCluster:
    create(cluster, "stream")
    create(cluster, "stream-out", rows=0)
    return cluster


def test_steps_of_a_stream_are_exactly_once(streamed: LocalCluster) -> None:
    """Rows and group offsets of a step are committed together: a failed step leaves neither, and the next
    driver repeats it. A replaced driver decides nothing."""

    def run(steps: ray_data.Stream) -> None:
        with steps:
            for number, dataset in enumerate(steps):
                steps.write(dataset, "stream-out")
                assert number == 0 or 1 / 0

    with pytest.raises(ZeroDivisionError):
        run(new_stream(streamed, "g", sink="g", maxOffsetsPerTrigger=90))
    assert seen(streamed, "stream-out") == list(range(90))
    committed = streamed.admin().list_group_offsets("g")
    assert {at and at.offset for at in committed.values()} == {30}

    old = new_stream(streamed, "g", sink="g", available_now=True)
    rows = next(old)
    old.write(rows, "stream-out")
    idle = new_stream(streamed, "g", sink="g", available_now=True)
    next(idle)
    with pytest.raises(errors.ProducerFencedError, match="is too late"):
        old.write(rows, "stream-out")
    with new_stream(streamed, "g", sink="g", available_now=True) as steps:
        append(streamed, "stream", range(SIZE, SIZE + 30))  # is not there now
        for dataset in steps:
            half = dataset.repartition(2)
            steps.write(half, "stream-out")
            steps.write(dataset.limit(0), "stream-out")
    for replaced in (old, idle):
        with pytest.raises((errors.ProducerFencedError, errors.InvalidTxnStateError)), replaced:
            next(replaced)
    assert {at and at.offset for at in streamed.admin().list_group_offsets("g").values()} == {100}
    assert seen(streamed, "stream-out") == list(range(SIZE))


def test_stream_without_a_sink(streamed: LocalCluster) -> None:
    """The group is committed after each step; a failed step is repeated; `stop` ends it."""
    before = streamed.admin()
    with new_stream(streamed, "h", maxOffsetsPerTrigger=90) as steps:
        assert numbers(next(steps)) == list(range(90))
        assert {at and at.offset for at in before.list_group_offsets("h").values()} == {0}
        assert numbers(next(steps)) == list(range(90, 180))
        assert {at and at.offset for at in before.list_group_offsets("h").values()} == {30}
        steps.stop()
        with pytest.raises(StopIteration):
            next(steps)
    with new_stream(streamed, "h") as steps:
        assert min(numbers(next(steps))) == 180
        with pytest.raises(errors.ConfigError, match="sink"):
            steps.write(read(streamed, "stream"))
        steps.close()
    with new_stream(streamed, "h") as steps:
        assert set(steps.start) == set()
        assert min(numbers(next(steps))) == 180


def test_committed_offsets_override_the_start(cluster: LocalCluster) -> None:
    """Start offsets that name partitions of then are no error."""
    create(cluster, "grown", 1, 10)
    at = {"bootstrap_servers": cluster.bootstrap, "available_now": True, "startingOffsets": {"grown": {0: 4}}}
    with ray_data.stream("grown", "grown", **at) as steps:
        assert [dataset.count() for dataset in steps] == [6]
    cluster.admin().create_partitions({"grown": 2}).raise_for_errors()
    append(cluster, "grown", range(4), 2)
    with ray_data.stream("grown", "grown", **at) as steps:
        assert [dataset.count() for dataset in steps] == [4]


def test_log_shorter_than_the_committed_offset(cluster: LocalCluster) -> None:
    """After an unclean election: an error at once, or the stream continues at the end."""
    create(cluster, "cut", 1, 10)
    at = {"bootstrap_servers": cluster.bootstrap, "available_now": True}
    cluster.admin().alter_group_offsets(
        "cut", {TopicPartition("cut", 0): 100}, create=True
    ).raise_for_errors()
    with (
        ray_data.stream("cut", "cut", **at) as steps,
        pytest.raises(errors.DataLossError, match="ends at 10 now"),
    ):
        next(steps)
    with ray_data.stream("cut", "cut", failOnDataLoss=False, **at) as steps:
        assert [dataset.count() for dataset in steps] == [0]
    append(cluster, "cut", range(3), 1)
    with ray_data.stream("cut", "cut", **at) as steps:
        assert [dataset.count() for dataset in steps] == [3]


def test_stream_continues_without_a_deleted_topic(cluster: LocalCluster) -> None:
    """Of a pattern, and if losses are no error; its offset is not committed any more, which would fail."""
    create(cluster, "some-1", 1, 10)
    create(cluster, "some-2", 1, 10)
    at = {"bootstrap_servers": cluster.bootstrap, "subscribePattern": "some-.*", "failOnDataLoss": False}
    with ray_data.stream(None, "some", every=0.05, **at) as steps:
        assert next(steps).count() == 20
        cluster.admin().delete_topics("some-2").raise_for_errors()
        append(cluster, "some-1", range(5), 1)

        def has_the_rest_alone() -> bool:
            with contextlib.suppress(errors.UnknownTopicOrPartitionError):  # not all nodes know yet
                next(steps)
            return steps.end == {TopicPartition("some-1", 0): 15}

        assert until(has_the_rest_alone, 300)
    assert set(cluster.admin().list_group_offsets("some")) == {TopicPartition("some-1", 0)}


def test_topic_of_a_stream_is_recreated(cluster: LocalCluster) -> None:
    """An error, or all of the new one."""
    create(cluster, "renewed", 1, 10)
    at = {"every": 0.05, "bootstrap_servers": cluster.bootstrap, "available_now": True}
    steps = ray_data.stream("renewed", "r", **{**at, "available_now": False})
    assert next(steps).count() == 10
    recreate(cluster, NewTopic("renewed", 1, 3))
    append(cluster, "renewed", range(20), 1)
    with pytest.raises(errors.DataLossError), steps:
        next(steps).take_all()
    with ray_data.stream("renewed", "r", failOnDataLoss=False, **at) as rest:
        assert [dataset.count() for dataset in rest] == [20]
    assert cluster.admin().list_group_offsets("r")[TopicPartition("renewed", 0)].offset == 20
