"""`headrace bench` against a cluster in this process: counts, and no topic or worker left."""

import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_line import CommandLine
from headrace import TopicPartition
from headrace.clients.admin.admin_types import NewTopic
from headrace.services.bench.topics import DEFAULT_PARTITIONS, TEMPORARY_PREFIX
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local(nodes=2) as running:
        yield running


@pytest.fixture
def bench(cluster: LocalCluster, shell: CommandLine) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """Runs a benchmark: (exit code, the one JSON object, standard error). Leaves no temporary topic."""

    def bench(command: str, *more: str) -> tuple[int, dict[str, Any], str]:
        code, out, err = shell("bench", *command.split(), *more, "-o", "json")
        assert not temporary_topics(cluster)
        return code, json.loads(out) if out else {}, without_progress(err)

    return bench


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions with the test's own name."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with cluster.admin() as admin:
        admin.create_topics(NewTopic(name, 3)).raise_for_errors()
    return name


@pytest.fixture(scope="module")
def full(cluster: LocalCluster) -> str:
    """A topic of three partitions with 4,000 records of 30 bytes."""
    with cluster.admin() as admin, cluster.producer() as producer:
        admin.create_topics(NewTopic("full", 3)).raise_for_errors()
        producer.send_many("full", [b"v" * 30] * 4000).raise_for_errors()
    return "full"


def without_progress(text: str) -> str:
    """Standard error without progress lines, whose number depends on the speed of the machine."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not re.match(r"(preparing|\d+ s: .* records/s.*)$", line))


def temporary_topics(cluster: LocalCluster) -> list[str]:
    with cluster.admin() as admin:
        return [item.name for item in admin.list_topics() if item.name.startswith(TEMPORARY_PREFIX)]


def log_of(cluster: LocalCluster, topic: str) -> list[Any]:
    with cluster.consumer(topic, auto_offset_reset="earliest", iter_timeout=1.0) as consumer:
        total = sum(consumer.end_offsets().values())
        records: list[Any] = []
        while len(records) < total:
            records += consumer.poll(5.0)
        return records


def check_shape(report: dict[str, Any]) -> None:
    """Figures that every report has, and their relations."""
    assert report["records_per_s"] == pytest.approx(report["records"] / report["elapsed_s"], rel=0.01)
    assert report["mb_per_s"] == pytest.approx(
        report["bytes"] / report["elapsed_s"] / 1e6, rel=0.01, abs=0.001
    )
    assert report["client_cpu_s"] >= 0


def check_latency(latency: dict[str, Any], count: int) -> None:
    assert list(latency) == ["p50", "p90", "p99", "p99_9", "max", "mean", "count"]
    figures = [latency[name] for name in ("p50", "p90", "p99", "p99_9", "max")]
    assert figures == sorted(figures)
    assert all(math.isfinite(figure) and figure > 0 for figure in figures)
    assert latency["count"] == count


@pytest.mark.parametrize("api", ["send", "send-many", "arrow"])
@pytest.mark.parametrize("rate", ["", "--throughput 20000 "])
def test_produce(bench: Any, cluster: LocalCluster, topic: str, api: str, rate: str) -> None:
    """Two processes; the log has every acknowledged record and the warm-up once, with keys."""
    code, report, err = bench(
        f"produce --topic {topic} --records 3001 --producers 2 --warmup-records 100 --record-size 20"
        f" --keys 50 --key-size 4 --api {api} {rate}"
    )
    assert (code, err) == (0, "")
    check_shape(report)
    samples = report["latency_ms"]["count"]
    assert samples == 3001 if rate else 0 < samples <= 10
    check_latency(report["latency_ms"], samples)
    assert (report["records"], report["failed"], report["unsent"], report["bytes"]) == (3001, 0, 0, 60_020)
    assert (report["log_growth"], report["partitions"], report["temporary_topic"]) == (3101, 3, False)
    records = log_of(cluster, topic)
    assert len(records) == 3101
    assert {len(record.value) for record in records} == {20}
    assert {record.key for record in records} == {number.to_bytes(4, "big") for number in range(50)}


def test_payload_file(bench: Any, cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    """Its lines are sent in turn, with their own sizes."""
    (tmp_path / "lines").write_bytes(b"a\nbb\nccc\n")
    code, report, _ = bench(f"produce --topic {topic} --records 7 --payload-file", str(tmp_path / "lines"))
    assert (code, report["records"], report["bytes"], report["record_size"]) == (0, 7, 13, None)
    assert (
        sorted(record.value for record in log_of(cluster, topic)) == [b"a"] * 3 + [b"bb"] * 2 + [b"ccc"] * 2
    )


def test_duration_ends_the_run(bench: Any) -> None:
    code, report, _ = bench("produce --duration 1 --compression lz4 --payload text --acks 1")
    assert (code, report["temporary_topic"], report["partitions"]) == (0, True, 6)
    assert report["log_growth"] == report["records"] > 0


def test_created_topic_is_kept(bench: Any, cluster: LocalCluster) -> None:
    """With --create the topic may exist; another number of partitions is reported."""
    assert bench("produce --topic made --create --partitions 2 --records 10")[1]["partitions"] == 2
    code, report, err = bench("produce --topic made --create --partitions 4 --records 10")
    assert (code, report["partitions"], err) == (0, 2, "topic 'made' exists, with 2 partitions\n")
    assert len(log_of(cluster, "made")) == 20


@pytest.mark.parametrize("command", ["produce", "consume", "latency", "mixed"])
def test_missing_topic(bench: Any, command: str) -> None:
    """Exit code 3, one line and a hint; the topic is not created."""
    code, report, err = bench(f"{command} --topic nowhere")
    assert (code, report, err.count("\n")) == (3, {}, 2)
    assert "UnknownTopicOrPartitionError" in err


def test_too_large_records(bench: Any, topic: str, tmp_path: Path) -> None:
    """Some records fail; the others are sent, the result is printed, and the exit code is 1."""
    (tmp_path / "lines").write_bytes(b"fits\n" + b"x" * 3000 + b"\nfits too\n")
    for api in ("send", "send-many"):
        code, report, err = bench(
            f"produce --topic {topic} --records 9 --api {api} -X max.request.size=2000 -X batch.size=1000"
            " --payload-file", str(tmp_path / "lines")
        )  # fmt: skip
        assert (code, report["records"], report["failed"]) == (1, 6, 3)
        assert "MessageTooLargeError" in report["first_error"]
        assert "3 of 9 records failed" in err


@pytest.mark.parametrize("api", ["poll", "iterate", "batches", "arrow"])
@pytest.mark.parametrize("consumers", [1, 3])
def test_consume(bench: Any, full: str, api: str, consumers: int) -> None:
    """The whole topic by every API, with one process or one per partition."""
    code, report, err = bench(f"consume --topic {full} --api {api} --consumers {consumers} --max-records 700")
    assert (code, err) == (0, "")
    check_shape(report)
    assert (report["records"], report["expected"], report["bytes"]) == (4000, 4000, 120_000)
    assert (report["latency_ms"], report["consumers"], report["api"]) == (None, consumers, api)
    code, report, _ = bench(f"consume --topic {full} --api {api} --records 1000")
    assert code == 0
    assert report["records"] == 1000


def test_fewer_records_than_expected(bench: Any, topic: str) -> None:
    """An error after the timeout, with the records read so far."""
    assert bench(f"produce --topic {topic} --records 100")[0] == 0
    code, report, err = bench(f"consume --topic {topic} --records 101 --timeout 3 --consumers 2")
    assert (code, report["records"]) == (1, 100)
    assert "only 100 of 101 records arrived, then none for 3 s" in err
    code, report, err = bench(f"consume --topic {topic} --records 1 --from end --timeout 0.3")
    assert (code, report["records"]) == (1, 0)


def test_consume_fills_a_temporary_topic(bench: Any) -> None:
    code, report, _ = bench("consume --records 2000 --partitions 2")
    assert (code, report["records"], report["partitions"]) == (0, 2000, 2)


def test_empty_topic_and_too_many_consumers(bench: Any, topic: str) -> None:
    """One line each, without a result."""
    code, report, err = bench(f"consume --topic {topic}")
    assert (code, report, err.count("\n")) == (1, {}, 1)
    assert "is empty" in err
    code, report, err = bench(f"consume --topic {topic} --records 5 --consumers 4")
    assert (code, report, err.count("\n")) == (1, {}, 1)
    assert "4 consumers are more than the partitions" in err


def test_latency(bench: Any, topic: str) -> None:
    """Every record once; other records do not count; the warm-up is received but not measured."""
    assert bench(f"produce --topic {topic} --records 50")[0] == 0
    code, report, err = bench(
        f"latency --topic {topic} --records 1501 --warmup-records 100 --throughput 5000 --producers 2"
        " --linger-ms 0 --record-size 16"
    )
    assert (code, err) == (0, "")
    assert (report["records"], report["received"], report["repeated"]) == (1601, 1601, 0)
    check_latency(report["latency_ms"], 1501)
    check_latency(report["ack_latency_ms"], 1501)
    assert "intended" in report["latency_of"]
    assert report["records_per_s"] > 0
    assert report["mb_per_s"] > 0


@pytest.mark.parametrize("start", ["beginning", "end"])
def test_mixed(bench: Any, topic: str, start: str) -> None:
    """The readers get the preloaded records and new ones, or new ones only."""
    code, report, err = bench(
        f"mixed --topic {topic} --records 3000 --preload-records 1000 --read-from {start} --consumers 2"
        " --producers 2 --warmup-records 10"
    )
    assert (code, err) == (0, "")
    check_shape(report["produce"])
    check_shape(report["consume"])
    assert report["produce"]["records"] == 3000
    assert (
        report["consume"]["records"]
        == report["consume"]["expected"]
        == (4010 if start == "beginning" else 3000)
    )
    assert report["latency_ms"] == report["produce"]["latency_ms"]
    assert report["records_per_s"] == report["produce"]["records_per_s"]


def test_text_report_goes_to_standard_output(shell: CommandLine) -> None:
    code, out, err = shell("bench", "produce", "--records", "1000")
    assert code == 0
    assert out.startswith("produce: topic headrace-bench-")
    assert "records/s" in out
    assert without_progress(err) == ""


def start(cluster: LocalCluster, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "headrace", "-b", cluster.bootstrap, "bench", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_progress(process: subprocess.Popen[str], wanted: str = r"[\d,]+") -> None:
    """Until a progress line has records, or the count `wanted`."""
    assert process.stderr is not None
    while not re.search(rf" {wanted} records, [^;]* records/s[^;]*$", line := process.stderr.readline()):
        assert line == "preparing\n" or "records/s" in line


def wait_for_acknowledged(cluster: LocalCluster, process: subprocess.Popen[str], in_flight: int) -> None:
    """Until the log has more new records than can be in flight: one is acknowledged."""
    wait_for_progress(process)
    (topic,) = temporary_topics(cluster)
    with cluster.consumer() as consumer:
        partitions = [TopicPartition(topic, number) for number in range(DEFAULT_PARTITIONS)]
        before = sum(consumer.end_offsets(*partitions).values())

        def has_grown() -> bool:
            assert process.poll() is None, process.communicate()
            return sum(consumer.end_offsets(*partitions).values()) > before + in_flight

        wait_for(has_grown, "records in the log")


@pytest.mark.parametrize("command", ["produce", "mixed"])
def test_ctrl_c_cleans_up(cluster: LocalCluster, command: str) -> None:
    """No result, no worker and no temporary topic is left."""
    process = start(cluster, command, "--duration", "100", "--throughput", "2000", "--producers", "2")
    wait_for_progress(process)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    assert len(temporary_topics(cluster)) == 1
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=500)
    assert (process.returncode, out, err.splitlines()[-1]) == (130, "", "interrupted")
    assert not temporary_topics(cluster)
    _, alive = psutil.wait_procs(workers, timeout=500)
    assert not alive


@pytest.mark.parametrize("command", ["produce", "latency", "mixed"])
def test_node_killed_during_the_run(command: str) -> None:
    """Unacknowledged records count as failed; the result is printed, and the exit code is 1.

    Keys bind records to the partitions of the killed node; without keys the producer would avoid them. They
    fill the buffer, which ends the load long before its duration.
    """
    bounds = {
        "buffer.memory": 1 << 15,
        "max.block.ms": 4000,
        "delivery.timeout.ms": 8000,
        "request.timeout.ms": 4000,
        "linger.ms": 0,
        "default.api.timeout.ms": 6000,
    }
    options = [part for name, bound in bounds.items() for part in ("-X", f"{name}={bound}")]
    more = [] if command == "produce" else ["--timeout", "1"]
    load = ["--duration", "60", "--throughput", "1000", "--keys", "50", "--record-size", "100"]
    with local(nodes=2) as cluster:
        process = start(cluster, command, *load, "-o", "json", *options, *more)
        wait_for_acknowledged(cluster, process, in_flight=(1 << 15) // 100)
        cluster.kill_node(1)
        out, err = process.communicate(timeout=500)
        cluster.restart_node(1)
        assert not temporary_topics(cluster)
    report = json.loads(out)
    assert process.returncode == 1, err
    report = report.get("produce", report)
    assert report["records"] > 0
    assert report["failed"] > 0
    assert report["records"] + report["failed"] + report["unsent"] == 60_000 + report["warmup_records"]
    assert report["first_error"]
    assert "records failed" in err


@pytest.mark.parametrize("command", ["produce", "latency", "mixed", "consume"])
def test_only_node_killed_for_good(command: str) -> None:
    """The run ends long before the clients' timeouts of an hour, with its result and the reason."""
    bounds = {"default.api.timeout.ms": 3_600_000}
    if command != "consume":
        bounds |= {"delivery.timeout.ms": 3_600_000, "max.block.ms": 3_600_000}
        bounds |= {"batch.size": 1000, "max.in.flight.requests.per.connection": 1}
    options = [part for name, bound in bounds.items() for part in ("-X", f"{name}={bound}")]
    with local(nodes=1) as cluster:
        load = ["--duration", "3600", "--throughput", "1000", "--record-size", "100"]
        if command == "consume":
            with cluster.admin() as admin, cluster.producer() as producer:
                admin.create_topics(NewTopic("t")).raise_for_errors()
                producer.send_many("t", [b"x"] * 10).raise_for_errors()
            load = ["--topic", "t", "--records", "1000"]
        wait = [] if command == "produce" else ["--timeout", "3600"]
        process = start(cluster, command, "-o", "json", *load, *wait, *options)
        if command == "consume":
            wait_for_progress(process, "10")
        else:
            wait_for_acknowledged(cluster, process, in_flight=DEFAULT_PARTITIONS * 1000 // 100)
        cluster.kill_node(0)
        out, err = process.communicate(timeout=500)
        cluster.restart_node(0)
    report = json.loads(out)
    assert process.returncode == 1, err
    assert "no node answers any more" in err.splitlines()[-1]
    report = report.get("produce", report)
    assert report["records"] > 0
    if command != "consume":
        assert report["unsent"] > 0
        assert "the temporary topic" in err
