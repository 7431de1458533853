"""Another version of a running application: instances are replaced one by one, or it is refused."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from headrace import NewTopic, int64, stream, utf8
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import CommandLine
    from headrace.services.local_io import LocalCluster

PATIENCE_S = 60.0
NAME, SOURCE, SINK = "rolled", "rolled-words", "rolled-counts"

MODULE = """
from headrace import stream, utf8

app = stream.App("rolled", key=utf8, value=utf8)
app.stream("rolled-other").group_by_key().count(store="counts")
"""


def instance(cluster: LocalCluster, folder: Path, version: int) -> stream.AppInstance:
    """Version 2 has one more operator and one more store; version 3 another input."""
    app = stream.App(
        NAME,
        key=utf8,
        value=utf8,
        guarantee="exactly_once_v2",
        commit_interval_ms=100,
        replication_factor=1,
        state_dir=str(folder),
    )
    words = app.stream(SOURCE if version < 3 else f"{SOURCE}-3")
    if version >= 2:
        words = words.filter(lambda key, value: True)
        words.group_by_key().reduce(lambda one, other: other, store="last")
    words.group_by_key().count(store="counts").to_stream().to(SINK, value=int64)
    return app.instance(cluster.bootstrap)


def test_instances_are_replaced_one_by_one(
    cluster: LocalCluster, tmp_path: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load, nothing is lost or counted twice; a version with other inputs does not start."""
    cluster.admin().create_topics(
        NewTopic(SOURCE, 4), NewTopic(SINK, 4), NewTopic(f"{SOURCE}-3", 4), NewTopic("rolled-other", 4)
    ).raise_for_errors()
    ends, sent = threading.Event(), [0]

    def load() -> None:
        with cluster.producer(key=utf8, value=utf8) as producer:
            while not ends.is_set() or sent[0] < 200:
                producer.send(SOURCE, "x", key=f"k{sent[0] % 20}")
                sent[0] += 1
                ends.wait(0.01)

    running: dict[str, Any] = {}
    loading = threading.Thread(target=load)
    loading.start()
    try:
        for place in ("a", "b"):
            running[place] = instance(cluster, tmp_path / place, 1)
            running[place].start()
        for each in running.values():
            assert each.wait_for(stream.InstanceState.RUNNING, timeout_s=PATIENCE_S)
        refused = instance(cluster, tmp_path / "c", 3)
        with pytest.raises(stream.IncompatibleTopologyError, match=f"also reads {SOURCE}-3"):
            refused.start()
        (tmp_path / "rolled_module.py").write_text(MODULE)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        code, out, err = command_line.at(cluster.bootstrap)("stream", "diff", "rolled_module:app")
        assert code == 1, err
        assert "stop: sub-topology 0 also reads rolled-other" in out
        for place in ("a", "b"):
            assert running[place].close(PATIENCE_S)
            running[place] = instance(cluster, tmp_path / place, 2)
            running[place].start()
            assert running[place].wait_for(stream.InstanceState.RUNNING, timeout_s=PATIENCE_S)
        with stream.connect_queries(NAME, cluster.bootstrap) as queries:
            wait_for(lambda: queries.status().topology_epoch == 1, "the group has version 2", PATIENCE_S)
        ends.set()
        loading.join(PATIENCE_S)
        counts: dict[str, int] = {}
        config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        with cluster.consumer(group=None, key=utf8, value=int64, config=config) as consumer:
            consumer.assign([(SINK, number) for number in range(4)])

            def is_complete() -> bool:
                for record in consumer.poll(0.2):
                    counts[record.key] = max(record.value, counts.get(record.key, 0))
                return sum(counts.values()) >= sent[0]

            wait_for(
                is_complete,
                "all words are counted",
                PATIENCE_S,
                lambda: f"{sum(counts.values())} of {sent[0]}",
            )
        assert sum(counts.values()) == sent[0], "each word is counted once"
    finally:
        ends.set()
        loading.join(PATIENCE_S)
        for each in running.values():
            each.close(PATIENCE_S)
