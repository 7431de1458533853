"""Queries of a running application: from its instances, from outside, over HTTP, and during moves."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from headrace import NewTopic, int64, stream, utf8
from headrace.services.local_io import LocalCluster
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from command_line import CommandLine

PATIENCE_S = 60.0
WORDS = [f"w{number:02}" for number in range(40)]


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Counting:
    """An application that counts words through a repartition topic, and its instances."""

    def __init__(self, cluster: LocalCluster, name: str, folder: Path, **options: Any) -> None:
        self.cluster, self.name, self.folder, self.options = cluster, name, folder, options
        self.source = f"{name}-lines"
        self.sent: dict[str, int] = {}
        cluster.admin().create_topics(NewTopic(self.source, 4)).raise_for_errors()

    def app(self) -> stream.App:
        """A new program."""
        app = stream.App(
            self.name,
            key=utf8,
            value=utf8,
            **{"commit_interval_ms": 100, "replication_factor": 1, **self.options},
        )
        words = app.stream(self.source).flat_map_values(str.split).group_by(lambda key, word: word)
        words.count(store="counts")
        words.windowed_by(stream.tumbling(1000)).count(store="windows")
        return app

    def instance(self, number: int) -> stream.AppInstance:
        """One that is not started."""
        config = {
            "state.dir": str(self.folder / str(number)),
            "application.server": f"127.0.0.1:{free_port()}",
        }
        return self.app().instance(self.cluster.bootstrap, config=config)

    def send(self, *words: str) -> None:
        """Each word once more."""
        with self.cluster.producer(value=utf8) as producer:
            for word in words:
                producer.send(self.source, word, timestamp=5)
                self.sent[word] = self.sent.get(word, 0) + 1


class Running(NamedTuple):
    """Two running instances, and a handle outside."""

    counting: Counting
    instances: tuple[stream.AppInstance, stream.AppInstance]
    queries: stream.Queries


@pytest.fixture(scope="module")
def running(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Each word was sent twice, and is counted."""
    counting = Counting(cluster, "asked", tmp_path_factory.mktemp("asked"))
    counting.send(*WORDS, *WORDS)
    with (
        counting.instance(1) as one,
        counting.instance(2) as other,
        counting.app().queries(cluster.bootstrap, timeout_s=PATIENCE_S) as queries,
    ):
        wait_for(lambda: all(each.threads[0].tasks for each in (one, other)), "both have tasks", PATIENCE_S)
        for word in WORDS:
            wait_for(lambda word=word: queries.get("counts", word) == 2, f"{word} is counted", PATIENCE_S)
        yield Running(counting, (one, other), queries)


def test_any_key_from_outside_and_from_any_instance(running: Running) -> None:
    """The owner answers, wherever the query begins; the owners are both instances."""
    queries = running.queries
    assert {queries.owner("counts", word).active for word in WORDS} == set(queries.hosts())
    for instance in running.instances:
        assert [instance.queries.get("counts", word) for word in WORDS] == [2] * len(WORDS)
    here = [instance.store("counts", values_only=True) for instance in running.instances]
    for word in WORDS:
        assert sorted(store.get(word) or 0 for store in here) == [0, 2]
    rows = queries.query("counts", stream.RangeQuery()).partitions.values()
    assert sorted(row for each in rows for row in each.value) == [(word, 2) for word in WORDS]
    window = queries.query("windows", stream.WindowKeyQuery("w00"))
    assert [found.value for each in window.partitions.values() for _, found in each.value] == [2]
    with stream.connect_queries("asked", running.counting.cluster.bootstrap, key=utf8, value=int64) as other:
        assert other.get("counts", "w07", timeout_s=PATIENCE_S) == 2


def test_http(running: Running) -> None:
    """JSON of keys, ranges and windows; errors by status."""
    import uvicorn

    config = uvicorn.Config(stream.http_app(running.queries), port=0, log_level="warning", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started, "the server listens", PATIENCE_S)
        port = server.servers[0].sockets[0].getsockname()[1]

        def ask(path: str) -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as reply:
                    return reply.status, json.load(reply)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.load(error)

        status, found = ask("/stores/counts/keys/w01")
        assert (status, found["key"], found["value"]) == (200, "w01", 2)
        assert ask("/stores/counts/keys/w01?timestamped=true")[1]["value"] == {"value": 2, "timestamp": 5}
        status, rows = ask("/stores/counts/range?from=w01&to=w03")
        assert sorted((row["key"], row["value"]) for row in rows) == [("w01", 2), ("w02", 2), ("w03", 2)]
        assert len(ask("/stores/counts/range?prefix=w1")[1]) == 10
        (window,) = ask("/stores/windows/windows/w01?from_time=0&to_time=10")[1]
        assert (window["start"], window["value"]["value"]) == (0, 2)
        assert len(ask("/stores/windows/windows?to_time=0")[1]) == len(WORDS)
        assert {store["name"] for store in ask("/stores")[1]} == {"counts", "windows"}
        assert ask("/stores/counts/owner/w01")[1]["active"] in {host["host"] for host in ask("/hosts")[1]}
        assert ask("/stores/counts/keys/nothing")[0] == 404
        assert ask("/stores/count/keys/a")[1]["error"] == "UnknownStoreError"
        assert ask("/stores/counts/versions/w01")[0] == 400
        assert ask("/stores/counts/windows/w01?from_time=x")[0] == 400
        assert ask("/stores/counts/keys/w01?key_format=xml")[0] == 400
        assert ask("/stores/counts/keys/w01?isolation=none")[0] == 400
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


def test_command_line(running: Running, command_line: CommandLine) -> None:
    """Values, rows and windows as JSON lines."""
    ask = command_line.at(running.counting.cluster.bootstrap)
    at = ("stream", "query", "--value-serde", "int64", "asked")
    assert ask(*at, "counts", "w01") == (0, "2\n", "")
    assert ask(*at, "counts", "nothing") == (0, "null\n", "")
    _, rows, _ = ask(*at, "counts", "--from", "w01", "--to", "w02")
    assert sorted(rows.splitlines()) == ['["w01", 2]', '["w02", 2]']
    assert ask(*at, "windows", "w01") == (0, '[0, {"value": 2, "timestamp": 5}]\n', "")
    code, _, error = ask(*at, "count", "a")
    assert code != 0
    assert "did you mean 'counts'" in error


def test_queries_while_an_instance_leaves(running: Running, tmp_path: Path) -> None:
    """Each answer is right at any moment: from the old owner, or from the new one once it has restored."""
    counting = running.counting
    answers: list[Any] = []
    failures: list[BaseException] = []
    ends = threading.Event()

    def ask() -> None:
        try:
            while not ends.is_set():
                answers.extend(running.queries.get("counts", word, timeout_s=PATIENCE_S) for word in WORDS)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            failures.append(error)

    asker = threading.Thread(target=ask)
    with counting.instance(3) as third:
        asker.start()
        wait_for(lambda: len(third.threads[0].tasks) > 0, "the third instance has tasks", PATIENCE_S)
        assert third.wait_for(stream.InstanceState.RUNNING, timeout_s=PATIENCE_S)
        before = len(answers)
        wait_for(lambda: len(answers) > before or bool(failures), "answers with three", PATIENCE_S)
    before = len(answers)
    wait_for(lambda: len(answers) > before + 2 * len(WORDS) or bool(failures), "answers with two", PATIENCE_S)
    ends.set()
    asker.join(PATIENCE_S)
    assert failures == []
    assert set(answers) == {2}
