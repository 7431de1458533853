"""Global tables: every instance has all partitions, and follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import headrace
import pytest
from headrace import NewTopic, stream, utf8
from headrace.stream.errors import StreamsError
from headrace.stream.worker.states import InstanceState
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.services.local_io import LocalCluster

PATIENCE_S = 60.0
USERS = [f"u{number}" for number in range(12)]


def send(cluster: LocalCluster, topic: str, rows: dict[str, str | None]) -> None:
    with headrace.Producer(cluster.bootstrap, key=utf8, value=utf8) as producer:
        for key, value in rows.items():
            producer.send(topic, value, key=key)


def application(name: str, folder: Path) -> stream.App:
    return stream.App(name, key=utf8, value=utf8, state_dir=str(folder), commit_interval_ms=50)


def test_records_are_joined_with_rows_of_all_partitions(cluster: LocalCluster, tmp_path: Path) -> None:
    """Two instances; rows that are sent before and while they run; a restart reads the rest."""
    with headrace.Admin(cluster.bootstrap) as admin:
        topics = [NewTopic("places", 3), NewTopic("visits", 2), NewTopic("joined", 1)]
        admin.create_topics(*topics).raise_for_errors()
    send(cluster, "places", dict.fromkeys(USERS, "before"))

    def app(number: int) -> stream.App:
        app = application("global-joins", tmp_path / str(number))
        places = app.global_table("places", store="places")
        visits = app.stream("visits")
        visits.join(places, lambda visit, place: f"{visit} {place}", key=lambda user, _: user).to("joined")
        return app

    def wait_for_rows(value: str, *instances: stream.AppInstance) -> None:
        stores = [instance.store("places", values_only=True) for instance in instances]
        wait_for(
            lambda: {store.get(user) for store in stores for user in USERS} == {value}, value, PATIENCE_S
        )

    first, second = app(1).instance(cluster.bootstrap), app(2).instance(cluster.bootstrap)
    with first, second:
        for instance in (first, second):
            assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        wait_for_rows("before", first, second)
        send(cluster, "places", dict.fromkeys(USERS, "while"))
        wait_for_rows("while", first, second)
        send(cluster, "visits", dict.fromkeys(USERS, "a"))
        with headrace.Consumer(
            "joined", bootstrap=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            found: list[bytes | None] = []
            wait_for(
                lambda: found.extend(each.value for each in consumer.poll(0.5)) or len(found) == len(USERS),
                "all visits are joined",
                PATIENCE_S,
            )
    assert set(found) == {b"a while"}
    send(cluster, "places", dict.fromkeys(USERS, "after"))
    with app(1).instance(cluster.bootstrap) as third:
        wait_for_rows("after", third)


def test_an_application_may_have_global_tables_alone(cluster: LocalCluster, tmp_path: Path) -> None:
    """It has no tasks: the instance runs without threads, and its table can be read."""
    with headrace.Admin(cluster.bootstrap) as admin:
        admin.create_topics(NewTopic("only-global", 2)).raise_for_errors()
    app = application("global-alone", tmp_path)
    app.global_table("only-global", store="rows")
    with app.instance(cluster.bootstrap) as instance:
        assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        send(cluster, "only-global", {"a": "1", "b": "2"})
        rows = instance.store("rows", values_only=True)
        wait_for(lambda: (rows.get("a"), rows.get("b")) == ("1", "2"), "the rows are there", PATIENCE_S)
        send(cluster, "only-global", {"a": None})
        wait_for(lambda: rows.get("a") is None, "the row is deleted", PATIENCE_S)
        with pytest.raises(StreamsError, match="has global stores only"):
            instance.add_thread()
        assert (instance.state, instance.threads) == (InstanceState.RUNNING, ())
    assert (instance.state, instance.error) == (InstanceState.NOT_RUNNING, None)
