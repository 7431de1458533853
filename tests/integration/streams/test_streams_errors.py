"""Errors of streams applications over a running cluster: topics, records that cannot be sent, handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import headrace
import pytest
from headrace import NewTopic, stream, utf8
from headrace.services.local_io import LocalCluster
from headrace.stream.errors import MissingSourceTopicError, StreamsError
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.worker.states import InstanceState
from headrace.stream.worker.uncaught import SHUTDOWN_APPLICATION
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 30.0


class Copies:
    """An application that copies one topic to another, with the topics of both."""

    def __init__(self, cluster: LocalCluster, folder: Path, name: str) -> None:
        self.cluster, self.folder, self.name = cluster, folder, name
        self.source, self.sink, self.letters = f"{name}-in", f"{name}-out", f"{name}-letters"
        with headrace.Admin(cluster.bootstrap) as admin:
            admin.create_topics(
                NewTopic(self.source, 2),
                NewTopic(self.sink, 1, configs={"max.message.bytes": "2000"}),
                NewTopic(self.letters, 1),
            ).raise_for_errors()

    def app(
        self, *, process: int = 1, sink: str | None = None, fails: bool = False, **options: Any
    ) -> stream.App:
        app = stream.App(
            self.name,
            key=utf8,
            value=utf8,
            commit_interval_ms=50,
            state_dir=str(self.folder / str(process)),
            config={
                "consumer.metadata.max.age.ms": 200,
                "producer.max.block.ms": 1000,
            },
            **options,
        )

        def check(value: str) -> str:
            if fails and value == "bad":
                raise ValueError(value)
            return value

        app.stream(self.source).map_values(check).to(sink or self.sink)
        return app

    def send(self, *values: str) -> None:
        with headrace.Producer(self.cluster.bootstrap, value=utf8) as producer:
            for value in values:
                producer.send(self.source, value)

    def wait_for_values(self, topic: str, *values: str | None) -> list[Any]:
        """The records of a topic, once there are as many; aborted ones are left out."""
        found: list[Any] = []
        with headrace.Consumer(
            topic,
            bootstrap=self.cluster.bootstrap,
            value=utf8,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:

            def is_complete() -> bool:
                found.extend(consumer.poll(0.1))
                return len(found) >= len(values)

            wait_for(is_complete, f"{len(values)} records of {topic}", PATIENCE_S)
        assert sorted(map(str, (record.value for record in found))) == sorted(map(str, values))
        return found

    def wait_for_error(self, instance: Any) -> BaseException:
        assert instance.wait_for(InstanceState.ERROR, timeout_s=PATIENCE_S)
        assert instance.error is not None
        return instance.error  # type: ignore[no-any-return]


@pytest.fixture
def copies(cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Copies:
    """Named after the test."""
    return Copies(cluster, tmp_path, request.node.name.replace("[", "-").replace("]", "").replace("_", "-"))


@pytest.mark.parametrize("limit", [10**6, 2000])
def test_a_record_that_is_too_large_is_dropped_with_a_dead_letter(copies: Copies, limit: int) -> None:
    """LogAndContinue, for max.request.size of the producer or a limit that only the broker knows. The other
    records of the batch arrive."""
    app = copies.app(on_production_error=LogAndContinue(copies.letters))
    copies.send("a", "x" * 5000, "b")
    with app.instance(copies.cluster.bootstrap, config={"producer.max.request.size": limit}) as instance:
        copies.wait_for_values(copies.sink, "a", "b")
        (letter,) = copies.wait_for_values(copies.letters, None)
        copies.send("c")
        copies.wait_for_values(copies.sink, "a", "b", "c")
        assert instance.error is None
    assert b"TooLarge" in dict(letter.headers)["__streams.errors.exception"]


@pytest.mark.parametrize("limit", [10**6, 2000])
def test_rejected_record_fails_the_transaction(copies: Copies, limit: int) -> None:
    """Also if the handler wants to: as in Kafka Streams, the application ends, instead of trying it again and
    again."""
    copies.send("a", "x" * 5000)
    app = copies.app(guarantee="exactly_once_v2", on_production_error=LogAndContinue(copies.letters))
    instance = app.instance(copies.cluster.bootstrap, config={"producer.max.request.size": limit})
    instance.start()
    error = copies.wait_for_error(instance)
    assert "cannot be committed without a record that was refused" in f"{error} {error.__cause__}"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_record_that_is_too_large_ends_the_application_by_default(copies: Copies, guarantee: str) -> None:
    """Its offset is not committed: the next start meets it again."""
    copies.send("x" * 5000)
    for _ in range(2):
        instance = copies.app(guarantee=guarantee).instance(copies.cluster.bootstrap)
        instance.start()
        error = copies.wait_for_error(instance)
        assert isinstance(error, StreamsError)
        assert f"cannot send a record to topic {copies.sink}" in str(error)


def test_an_unknown_output_topic_is_tried_until_the_timeout_of_the_task(copies: Copies) -> None:
    """It may be created late; without task.timeout.ms left the error names it."""
    copies.send("a")
    late = f"{copies.name}-late"
    with copies.app(sink=late).instance(copies.cluster.bootstrap) as instance:
        wait_for(lambda: instance.state is InstanceState.RUNNING, "the application runs", PATIENCE_S)
        with headrace.Admin(copies.cluster.bootstrap) as admin:
            admin.create_topics(NewTopic(late, 1)).raise_for_errors()
        copies.wait_for_values(late, "a")
        assert instance.error is None
    copies.send("b")
    for timeout_ms in (0, 1000):
        config = {"task.timeout.ms": timeout_ms}
        instance = copies.app(sink=f"{copies.name}-never").instance(copies.cluster.bootstrap, config=config)
        instance.start()
        assert f"{copies.name}-never" in str(copies.wait_for_error(instance))


def test_a_source_topic_that_is_deleted_is_named(copies: Copies) -> None:
    """While the application runs."""
    copies.send("a")
    instance = copies.app().instance(copies.cluster.bootstrap)
    instance.start()
    copies.wait_for_values(copies.sink, "a")
    with headrace.Admin(copies.cluster.bootstrap) as admin:
        admin.delete_topics(copies.source).raise_for_errors()
    error = copies.wait_for_error(instance)
    assert isinstance(error, MissingSourceTopicError)
    assert f"Source topics {copies.source} are missing: they were deleted" in str(error)


def test_partitions_that_are_added_to_a_source_topic_are_read(copies: Copies) -> None:
    """No store is behind it."""
    with copies.app().instance(copies.cluster.bootstrap) as instance:
        wait_for(lambda: instance.state is InstanceState.RUNNING, "the application runs", PATIENCE_S)
        with headrace.Admin(copies.cluster.bootstrap) as admin:
            admin.create_partitions({copies.source: 3}).raise_for_errors()
        with headrace.Producer(copies.cluster.bootstrap, value=utf8) as producer:

            def is_sent() -> bool:
                return len(producer.partitions_for(copies.source)) == 3

            wait_for(is_sent, "the producer knows the new partition", PATIENCE_S)
            producer.send(copies.source, "new", partition=2)
        copies.wait_for_values(copies.sink, "new")


def test_shutdown_application_ends_all_instances(copies: Copies) -> None:
    """The one that failed has the error of its function, the others the request."""
    other = copies.app(process=2).instance(copies.cluster.bootstrap)
    failing = copies.app(fails=True).instance(
        copies.cluster.bootstrap, on_uncaught=lambda _error: SHUTDOWN_APPLICATION
    )
    for instance in (other, failing):
        instance.start()
    for instance in (other, failing):
        wait_for(lambda: instance.state is InstanceState.RUNNING, "both run", PATIENCE_S)  # noqa: B023
    while not failing.wait_for(InstanceState.ERROR, timeout_s=0.2):
        copies.send("bad")
    assert isinstance(failing.error.__cause__, ValueError)
    assert "requested the end of the application" in str(copies.wait_for_error(other))
