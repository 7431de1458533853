"""Queries of a running application: from its instances, from outside, over HTTP, and during moves."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
from certificates import Authority
from console_pages import Pages, plain
from headrace import NewTopic, int64, stream, utf8
from headrace.protocol.errors import ConfigError
from headrace.services.console.server import console_server
from headrace.services.local_io import LocalCluster
from headrace.services.web.settings import WebConfig
from headrace.stream.ray.observer_io import Observer
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from command_line import CommandLine
    from headrace.stream.ray.run import Run

PATIENCE_S = 60.0
WORDS = [f"w{number:02}" for number in range(40)]


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
            "application.server": "127.0.0.1:0",
            "metrics.recording.level": "TRACE",
        }
        return self.app().instance(self.cluster.bootstrap, config=config)

    def send(self, *words: str) -> None:
        """Each word once more."""
        with self.cluster.producer(value=utf8) as producer:
            for word in words:
                producer.send(self.source, word, timestamp=5)
                self.sent[word] = self.sent.get(word, 0) + 1


def private(path: Path) -> str:
    """A new file with a secret."""
    path.touch(mode=0o600)
    path.write_text("secret-of-the-queries\n")
    return str(path)


class Running(NamedTuple):
    """Two running instances, and a handle outside."""

    counting: Counting
    instances: tuple[stream.AppInstance, stream.AppInstance]
    queries: stream.Queries


@pytest.fixture(scope="module")
def running(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With a secret; each has half of the tasks. Then each word is sent twice, and is counted."""
    folder = tmp_path_factory.mktemp("asked")
    counting = Counting(cluster, "asked", folder, config={"query.secret.file": private(folder / "secret")})
    with (
        counting.instance(1) as one,
        counting.instance(2) as other,
        counting.app().queries(cluster.bootstrap, timeout_s=PATIENCE_S) as queries,
    ):
        tasks_of = [lambda each=each: len(each.threads[0].tasks) for each in (one, other)]
        wait_for(lambda: [count() for count in tasks_of] == [6, 6], "both have half of the tasks", PATIENCE_S)
        counting.send(*WORDS, *WORDS)
        for word in WORDS:
            wait_for(lambda word=word: queries.get("counts", word) == 2, f"{word} is counted", PATIENCE_S)
        yield Running(counting, (one, other), queries)


def local_stores(instance: stream.AppInstance, name: str) -> list[Any]:
    """The store of an instance; none if it has tasks of other stores only."""
    store = instance.store(name, values_only=True)
    try:
        store.get(WORDS[0])
    except stream.StoreMigratedError:
        return []
    return [store]


def test_any_key_from_outside_and_from_any_instance(running: Running) -> None:
    """The owner answers, wherever the query begins; the owners are both instances, of one store or of two."""
    queries, stores = running.queries, ("counts", "windows")
    assert {queries.owner(name, word).active for name in stores for word in WORDS} == set(queries.hosts())
    for instance in running.instances:
        assert [instance.queries.get("counts", word) for word in WORDS] == [2] * len(WORDS)
    here = [store for each in running.instances for store in local_stores(each, "counts")]
    for word in WORDS:
        assert [found for store in here if (found := store.get(word))] == [2], "one instance has it"
    rows = queries.query("counts", stream.RangeQuery()).partitions.values()
    assert sorted(row for each in rows for row in each.value) == [(word, 2) for word in WORDS]
    window = queries.query("windows", stream.WindowKeyQuery("w00"))
    assert [found.value for each in window.partitions.values() for _, found in each.value] == [2]
    config = running.counting.options["config"]
    at = running.counting.cluster.bootstrap
    with stream.connect_queries("asked", at, key=utf8, value=int64, config=config) as other:
        assert other.get("counts", "w07", timeout_s=PATIENCE_S) == 2


def test_console_shows_the_reports_of_instances(running: Running) -> None:
    """States, roles and rates of tasks, with the secret; without it the lag, and why there is no report."""
    bootstrap, config = running.counting.cluster.bootstrap, running.counting.options["config"]
    with (
        console_server(WebConfig(port=0), bootstrap=bootstrap, client_config=config) as server,
        Pages(server.url) as pages,
    ):
        assert "asked" in plain(pages.get("/streams"))
        found = plain(pages.get("/application", id="asked"))
        assert found.count("active RUNNING 0") == 12
        assert "Lag 0 records" in found
        assert "no report" not in found
    with console_server(WebConfig(port=0), bootstrap=bootstrap) as server, Pages(server.url) as pages:
        found = plain(pages.get("/application", id="asked"))
        assert found.count("no report it does not answer") == 2
        assert found.count("active \u2013 0") == 12
        assert "secret-of-the-queries" not in found


def test_supervisor_measures_exact_lag(running: Running) -> None:
    """All records up to the ends of one look are processed; transactions' markers are no lag."""
    bootstrap = running.counting.cluster.bootstrap
    observer = Observer(cast("Run", SimpleNamespace(application_id="asked", bootstrap=bootstrap)))
    before = observer.progress(None)
    assert before is not None
    assert sum(before.ends.values()) >= len(WORDS) * 2

    def lag() -> int | None:
        found = observer.progress(before.ends)
        return None if found is None else found.lag

    wait_for(lambda: lag() == 0, "all is committed", PATIENCE_S)
    observer.close()


def test_http(running: Running, tmp_path: Path) -> None:
    """JSON of keys, ranges and windows over HTTPS, for a token; errors by status."""
    authority, tokens = Authority(), private(tmp_path / "tokens")
    pem = tmp_path / "server.pem"
    issued = authority.issue("localhost")
    pem.write_text(issued.key_pem() + issued.chain_pem)
    context = ssl.create_default_context(cafile=authority.written(tmp_path))
    with stream.serve_http(running.queries, token_file=tokens, tls_file=str(pem)) as server:

        def ask(path: str, token: str = "secret-of-the-queries") -> tuple[int, Any]:
            request = urllib.request.Request(
                f"https://127.0.0.1:{server.port}{path}", headers={"authorization": f"Bearer {token}"}
            )
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as reply:
                    return reply.status, json.load(reply)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.load(error)

        assert ask("/stores/counts/keys/w01", "another")[0] == 401
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
    with pytest.raises(ConfigError, match="tokens would be readable"):
        stream.serve_http(running.queries, "0.0.0.0", token_file=tokens)


def test_command_line(running: Running, command_line: CommandLine) -> None:
    """Values, rows and windows as JSON lines."""
    ask = command_line.at(running.counting.cluster.bootstrap)
    secret = f"query.secret.file={running.counting.options['config']['query.secret.file']}"
    at = ("stream", "query", "-X", secret, "--value-serde", "int64", "asked")
    assert ask(*at, "counts", "w01") == (0, "2\n", "")
    assert ask(*at, "counts", "nothing") == (0, "null\n", "")
    _, rows, _ = ask(*at, "counts", "--from", "w01", "--to", "w02")
    assert sorted(rows.splitlines()) == ['["w01", 2]', '["w02", 2]']
    assert ask(*at, "windows", "w01") == (0, '[0, {"value": 2, "timestamp": 5}]\n', "")
    code, _, error = ask(*at, "count", "a")
    assert code != 0
    assert "did you mean 'counts'" in error
    code, _, error = ask("stream", "query", "-X", secret, "asked", "counts", "w01")
    assert code != 0
    assert "store counts has other formats than --key-serde utf8 and --value-serde json" in error


def test_status(running: Running, command_line: CommandLine, tmp_path: Path) -> None:
    """Both instances report their threads, tasks and stores; nothing lags; `top` samples the operators."""

    def entries(view: stream.ApplicationView) -> int:
        stores = (store for _, _, task in view.tasks() if task.role == "active" for store in task.stores)
        return sum(store.entries or 0 for store in stores if store.name == "counts")

    queries = running.queries
    wait_for(lambda: entries(queries.status()) >= len(WORDS), "the stores are flushed", PATIENCE_S)
    view = queries.status(timeout_s=PATIENCE_S)
    assert (view.application, view.state, view.unassigned) == ("asked", "Stable", ())
    assert [(each.state, each.problem) for each in view.instances] == [("RUNNING", None)] * 2
    active = [task for _, _, task in view.tasks() if task.role == "active"]
    assert len(active) == 12  # three sub-topologies, four partitions
    assert {task.state for task in active} == {"RUNNING"}
    assert (view.lag, view.lag_ms) == (0, 0)
    assert sum(task.records or 0 for task in active) == 6 * len(WORDS)  # lines, and each word in two topics
    sizes = {store.name: store.size_bytes for task in active for store in task.stores}
    assert sizes.keys() == {"counts", "windows"}
    assert all(size is not None and size > 0 for size in sizes.values())
    metrics = [metric for each in running.instances for metric in each.metrics().items()]
    values = {name.name: value for name, value in metrics}
    assert values["alive-stream-threads"] == 1
    assert str(values["topology-description"]).startswith("Topologies:")
    processed = [
        value for name, value in metrics if (name.name, name.group[7:13]) == ("process-total", "thread")
    ]
    assert sum(map(float, processed)) == 6 * len(WORDS)
    consumed = [float(value) for name, value in metrics if name.name == "records-consumed-total"]
    assert sum(consumed) == 6 * len(WORDS)
    assert {
        "record-e2e-latency-max",
        "put-latency-avg",
        "hit-ratio-avg",
        "num-live-versions",
    } <= values.keys()
    ask = command_line.at(running.counting.cluster.bootstrap)
    secret = ("-X", f"query.secret.file={running.counting.options['config']['query.secret.file']}")
    found = json.loads(ask("stream", "status", "asked", "--topology", *secret, "-o", "json")[1])
    assert [each["state"] for each in found["instances"]] == ["RUNNING", "RUNNING"]
    sent = running.counting.app().describe().strip()
    nodes = [node["name"] for node in found["topology"]]
    assert all(name in sent for name in nodes)
    drawing = tmp_path / "t.svg"
    code, out, _ = ask("stream", "describe", "asked", "--svg", str(drawing))
    assert (code, out.strip()) == (0, sent), "the members have sent it"
    assert all(name in drawing.read_text() for name in nodes)
    code, out, _ = ask("group", "describe", "asked")
    assert (code, sent in out) == (0, True)
    code, out, _ = ask("stream", "top", "asked", *secret, "--interval", "0.2", "--count", "2")
    assert (code, out.count("application asked: Stable, 2 instances")) == (0, 2)
    code, _, error = ask("stream", "status", "nothing")
    assert code != 0
    assert "no instance of application 'nothing' runs" in error


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
