"""Applications on Ray workers: scaling, deaths, queries, automatic scaling, and the commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
import pytest
import ray.cloudpickle
from headrace import Admin, Consumer, NewTopic, Producer, TopicPartition, int64, stream, utf8
from headrace.protocol.errors import ConfigError
from headrace.services.local_io import LocalCluster, local
from headrace.stream.ray.session_io import connected_ray
from headrace_command import Headrace
from waiting import wait_for

pytestmark = pytest.mark.ray

PATIENCE_S = 300.0
PARTITIONS = 4
WORDS = [f"w{number}" for number in range(12)]
PROGRAM = """
from headrace import stream, utf8, int64
app = stream.App("commanded", key=utf8, value=utf8, commit_interval_ms=100)
app.stream("commanded-in").group_by_key().count(store="counts")
"""


@pytest.fixture(scope="module")
def cluster(ray_address: str) -> Iterator[LocalCluster]:
    """A cluster of one node in this process, which is a driver of the Ray, too."""
    connected_ray(ray_address)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        with local(
            group_streams_heartbeat_interval_ms=500,
            group_streams_session_timeout_ms=6000,
            group_streams_assignment_interval_ms=0,
            offsets_topic_num_partitions=3,
            transaction_state_log_num_partitions=3,
        ) as running:
            yield running
    finally:
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
        ray.shutdown()


@pytest.fixture
def bootstrap(cluster: LocalCluster) -> str:
    """The addresses of the cluster."""
    return ",".join(cluster.bootstrap) if not isinstance(cluster.bootstrap, str) else cluster.bootstrap


@pytest.fixture
def command(tmp_path: Path, ray_address: str) -> Headrace:
    """Runs commands in processes of their own."""
    return Headrace(tmp_path, ray_address)


class Words(threading.Thread):
    """Sends words until it is stopped, and knows how often each one was sent."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._producer, self._topic = Producer(bootstrap, linger_ms=5), topic
        self.sent: Counter[str] = Counter()
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(0.02):
            for word in WORDS:
                self._producer.send(self._topic, b"", key=word.encode())
                self.sent[word] += 1

    def stop(self) -> None:
        """All are sent, and acknowledged."""
        self.is_over.set()
        self.join()
        self._producer.close()


def counting(name: str, **options: Any) -> stream.App:
    """Counts keys, without a cache: each input gives one output, the counts of a key are 1, 2, 3, ..."""
    app = stream.App(
        name,
        key=utf8,
        value=utf8,
        cache_bytes=0,
        commit_interval_ms=100,
        config={"producer.transaction.timeout.ms": 10_000, "consumer.max.poll.records": 200},
        **options,
    )
    counts = app.stream(f"{name}-in").group_by_key().count(store="counts")
    counts.to_stream().map_values(lambda count: count + 0).to(f"{name}-out", value=int64)
    return app


def create(bootstrap: str, name: str) -> None:
    """The topics of `counting`."""
    with Admin(bootstrap) as admin:
        topics = (NewTopic(f"{name}-{end}", PARTITIONS) for end in ("in", "out"))
        admin.create_topics(*topics).raise_for_errors()


def processes(workers: stream.Workers) -> dict[int, int]:
    """The process of each worker that runs."""
    found = workers.status()["workers"]
    return {each["worker"]: each["instance"]["pid"] for each in found if "pid" in each["instance"]}


def tasks(workers: stream.Workers) -> list[list[str]]:
    """The active tasks of each worker."""
    return [
        [task for thread in each["instance"].get("threads", ()) for task in thread["active"]]
        for each in workers.status()["workers"]
    ]


def check_counts(bootstrap: str, name: str, sent: Counter[str]) -> None:
    """The committed counts of each word are 1, 2, ... up to the number that was sent."""
    places = [TopicPartition(f"{name}-out", number) for number in range(PARTITIONS)]
    found: dict[str, list[int]] = {word: [] for word in WORDS}
    config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer(bootstrap=bootstrap, key=utf8, value=int64, config=config) as consumer:
        consumer.assign(places)

        def is_complete() -> bool:
            for record in consumer.poll(0.5):
                assert record.key is not None
                assert record.value is not None
                found[record.key].append(record.value)
            return all(found[word] and found[word][-1] >= sent[word] for word in WORDS)

        wait_for(is_complete, "all counts", PATIENCE_S)
    assert found == {word: list(range(1, sent[word] + 1)) for word in WORDS}


def test_each_record_counts_once_while_workers_start_and_fail(bootstrap: str) -> None:
    """Two workers, then three; one is killed, and its supervisor, under load and with queries. The state
    answers meanwhile, and the program that runs the application again finds it."""
    create(bootstrap, "words")
    app = counting("words", guarantee="exactly_once_v2", standby_replicas=1)
    words = Words(bootstrap, "words-in")
    words.start()
    with stream.run(app, bootstrap, workers=2) as workers, workers.queries(timeout_s=60) as queries:
        workers.wait_until_running(PATIENCE_S)
        wait_for(lambda: (queries.get("counts", "w1") or 0) > 0, "the state answers", PATIENCE_S)
        endpoints = {each["instance"]["endpoint"] for each in workers.status()["workers"]}
        assert len(endpoints) == 2
        workers.scale(3)
        wait_for(lambda: sorted(map(len, tasks(workers))) == [1, 1, 2], "three have tasks", PATIENCE_S)

        before = processes(workers)
        os.kill(before[1], signal.SIGKILL)
        killed_at = {word: queries.get("counts", word) or 0 for word in WORDS}
        wait_for(
            lambda: all((queries.get("counts", word) or 0) > killed_at[word] for word in WORDS),
            "all counts go on",
            PATIENCE_S,
        )
        wait_for(lambda: len(processes(workers)) == 3, "it is replaced", PATIENCE_S)
        after = processes(workers)
        assert after[1] != before[1]
        assert (after[2], after[3]) == (before[2], before[3])

        os.kill(workers.status()["supervisor"]["pid"], signal.SIGKILL)
        wait_for(lambda: processes(workers) == after, "the workers are found", PATIENCE_S)
        assert workers.status()["target"] == 3
        again = stream.run(app, bootstrap, workers=2)
        wait_for(lambda: len(processes(again)) == 2, "one has ended", PATIENCE_S)
        assert processes(again) == {1: after[1], 2: after[2]}
        words.stop()
        check_counts(bootstrap, "words", words.sent)
    assert not workers.is_known
    with pytest.raises(stream.WorkersError, match="no application 'words' runs on this Ray"):
        stream.connect_workers("words")


def test_workers_are_added_while_the_lag_is_large(bootstrap: str) -> None:
    """And removed when it is gone, within the bounds."""
    create(bootstrap, "lagging")
    app = stream.App("lagging", key=utf8, value=utf8, commit_interval_ms=200)
    never = threading.Event  # made in the worker
    app.stream("lagging-in").map_values(lambda value: never().wait(0.01) or value).group_by_key().count()
    with Producer(bootstrap) as producer:
        for number in range(4000):
            producer.send("lagging-in", b"", key=str(number).encode())
    times = {"autoscale_interval_ms": 200, "autoscale_up_ms": 400, "autoscale_down_ms": 2000}
    with stream.run(app, bootstrap, autoscale=(1, 2), autoscale_lag=200, **times) as workers:
        wait_for(lambda: workers.status()["target"] == 2, "two are wanted", PATIENCE_S)
        assert "1 to 2 workers: lag of " in workers.status()["last_change"]
        wait_for(lambda: sorted(map(len, tasks(workers))) == [2, 2], "both have tasks", PATIENCE_S)
        wait_for(lambda: workers.status()["target"] == 1, "one is wanted", PATIENCE_S)
        wait_for(lambda: list(map(len, tasks(workers))) == [4], "it has all tasks", PATIENCE_S)


def test_application_that_always_fails_ends_with_its_error(bootstrap: str) -> None:
    """It ends after some restarts; `wait` raises the error, and the application can be started again."""
    create(bootstrap, "failing")
    app = stream.App("failing", key=utf8, value=utf8)
    app.stream("failing-in").map_values(lambda value: int(value)).to("failing-out", value=int64)
    with Producer(bootstrap) as producer:
        producer.send("failing-in", b"no number", key=b"k")
    config = {"worker.max.failures": 2, "worker.restart.backoff.ms": 10}
    workers = stream.run(app, bootstrap, workers=1, config=config)
    wrong = r"each of 1 workers failed 2 times in a row; .*ProcessingError.*; because of ValueError: invalid"
    with pytest.raises(stream.WorkersError, match=wrong):
        workers.wait(PATIENCE_S)
    again = stream.run(app, bootstrap, workers=1, config={**config, "worker.max.failures": 0})
    assert again.status()["state"] == "RUNNING"
    again.stop()


def test_commands(command: Headrace, cluster: LocalCluster, bootstrap: str, tmp_path: Path) -> None:
    """`run --workers` of a module, which SIGTERM ends; with `--detach` it stays, is found by another call,
    scaled and stopped."""
    (tmp_path / "commanded.py").write_text(PROGRAM)
    cluster.admin().create_topics(NewTopic("commanded-in", 2)).raise_for_errors()
    command.environment["PYTHONPATH"] = str(tmp_path)
    ray_option = ("--ray-address", command.ray_address)
    run = ("stream", "run", "commanded:app", "-b", bootstrap, *ray_option)
    attached = command.start(*run, "--workers", "1")
    assert attached.stderr is not None
    said = ""
    while "1 of 1 workers run" not in said:
        said = attached.stderr.readline()
        assert said, "the command ended"
    attached.send_signal(signal.SIGTERM)
    assert attached.wait(PATIENCE_S) == 0
    assert "all that it processed is committed" in attached.stderr.read()
    attached.communicate()

    command.run(*run, "--workers", "1", "--detach")
    workers = stream.connect_workers("commanded")
    assert len(processes(workers)) == 1
    _, said = command.run("stream", "scale", "commanded", "2", *ray_option)
    assert "application commanded: 1 to 2 workers" in said
    assert workers.status()["target"] == 2
    with pytest.raises(ConfigError, match="runs on this Ray with another program: stop it first"):
        stream.run(stream.App("commanded"), bootstrap)
    command.run("stream", "stop", "commanded", *ray_option)
    assert workers.wait(PATIENCE_S)
    _, said = command.run("stream", "stop", "commanded", *ray_option, code=1)
    assert "no application 'commanded' runs on this Ray" in said


def test_program_of_the_page(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As printed, against the cluster of this module."""
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", bootstrap)
    with Admin(bootstrap) as admin:
        admin.create_topics(NewTopic("lines"), NewTopic("counts")).raise_for_errors()
    section = pages.text_of("docs/STREAMS.md").split("## Workers on Ray\n")[1].split("\n## ")[0]
    (program,) = (block.text for block in pages.blocks(section) if block.language == "py")
    exec(compile(program, "STREAMS.md", "exec"), {})
    assert capsys.readouterr().out.split() == ["None", "RUNNING"]


def test_example(bootstrap: str, ray_address: str) -> None:
    """The demo, with two workers and fewer words: one worker is killed while its state is queried."""
    example = Path(__file__).parents[2] / "examples" / "streams" / "workers_on_ray.py"
    done = subprocess.run(
        [sys.executable, example, "--workers", "2", "--words", "3000"],
        env={**os.environ, "HEADRACE_BOOTSTRAP": bootstrap, "RAY_ADDRESS": ray_address},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "one was killed and replaced: True, others: 0" in done.stdout
    assert "3,000 words are counted exactly once" in done.stdout
