"""Arrow sections in instances over a running cluster: by column from the consumer to the producer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import headrace
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from headrace import NewTopic, TopicPartition, int64, stream, utf8
from headrace.services.local_io import LocalCluster
from headrace.stream.errors import ProcessingError
from headrace.stream.task.columns import Columns
from headrace.stream.worker.states import InstanceState
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.stream.worker.instance_io import AppInstance

PATIENCE_S = 30.0
PARTITIONS = 3
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


class Amounts:
    """An application with an Arrow section between two topics of numbers."""

    def __init__(self, cluster: LocalCluster, name: str, folder: Path) -> None:
        self.cluster, self.name, self.folder = cluster, name, folder
        self.source, self.sink = f"{name}-in", f"{name}-out"
        self.sent = 0
        with headrace.Admin(cluster.bootstrap) as admin:
            topics = NewTopic(self.source, PARTITIONS), NewTopic(self.sink, PARTITIONS)
            admin.create_topics(*topics).raise_for_errors()

    def send(self, count: int) -> None:
        """The next numbers, under their last digit."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        with headrace.Producer(self.cluster.bootstrap, key=utf8, value=int64) as producer:
            table = {"key": [str(number % 10) for number in numbers], "value": list(numbers)}
            producer.send_arrow(self.source, pa.table(table))

    def instance(
        self, function: Callable[[Any], Any], *, process: int = 1, then: Any = None, **options: Any
    ) -> AppInstance:
        """An instance with the stores of a process. `then`: operators behind the section."""
        given = {"commit_interval_ms": 50, "state_dir": str(self.folder / str(process)), **options}
        app = stream.App(self.name, key=utf8, value=int64, **given)
        section = app.stream(self.source).arrow(function, name="section", max_wait=20)
        (section if then is None else then(section)).to(self.sink)
        return app.instance(self.cluster.bootstrap)

    def wait_for_output(self, wanted: set[int]) -> Counter[int]:
        """The committed values, once all that are wanted are among them; each key in its order."""
        found: Counter[int] = Counter()
        latest: dict[str, int] = {}
        with headrace.Consumer(
            self.sink,
            bootstrap=self.cluster.bootstrap,
            key=utf8,
            value=int64,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:

            def is_complete() -> bool:
                for record in consumer.poll(0.1):
                    if not found[record.value]:
                        assert latest.get(record.key, -1) < record.value, "a key keeps its order"
                        latest[record.key] = record.value
                    found[record.value] += 1
                return wanted <= found.keys()

            wait_for(is_complete, "all inputs were processed", PATIENCE_S)
        return found

    def committed(self) -> int:
        """The sum of the committed offsets."""
        with headrace.Consumer(bootstrap=self.cluster.bootstrap, group=self.name) as consumer:
            partitions = [TopicPartition(self.source, number) for number in range(PARTITIONS)]
            found = consumer.committed(*partitions).values()
        return sum(each.offset for each in found if each is not None)


@pytest.fixture
def amounts(cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Amounts:
    """Topics and an application named after the test."""
    return Amounts(cluster, request.node.name.replace("[", "-").replace("]", ""), tmp_path)


def even(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with even numbers."""
    return batch.filter(pc.equal(pc.bit_wise_and(batch.column("value"), 1), 0))


@pytest.fixture
def by_record(monkeypatch: pytest.MonkeyPatch) -> list[TopicPartition]:
    """The partitions of batches that were processed record by record."""
    found: list[TopicPartition] = []
    run = Columns.run

    def note(self: Columns, partition: TopicPartition, batch: Any) -> int | None:
        latest_ms = run(self, partition, batch)
        if latest_ms is None:
            found.append(partition)
        return latest_ms

    monkeypatch.setattr(Columns, "run", note)
    return found


@GUARANTEES
def test_each_row_is_in_the_output_once(
    amounts: Amounts, guarantee: str, by_record: list[TopicPartition]
) -> None:
    """Also those of a second run, which begins at the committed offsets."""
    for _ in range(2):
        amounts.send(3000)
        with amounts.instance(even, guarantee=guarantee) as instance:
            assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
            found = amounts.wait_for_output(set(range(0, amounts.sent, 2)))
    assert found == Counter(range(0, 6000, 2))
    wait_for(lambda: amounts.committed() >= 6000, "everything is committed", PATIENCE_S)
    assert by_record == []


@GUARANTEES
def test_rows_move_with_their_tasks(amounts: Amounts, guarantee: str) -> None:
    """A second process takes some of the partitions, and gives them back."""
    amounts.send(2000)
    with amounts.instance(even, guarantee=guarantee) as first:
        assert first.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        with amounts.instance(even, process=2, guarantee=guarantee) as second:
            assert second.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
            amounts.send(2000)
            amounts.wait_for_output(set(range(0, amounts.sent, 2)))
        amounts.send(1000)
        assert amounts.wait_for_output(set(range(0, amounts.sent, 2))) == Counter(range(0, 5000, 2))


@GUARANTEES
def test_an_error_names_the_offsets_and_loses_nothing(amounts: Amounts, guarantee: str) -> None:
    """The batch is processed again by the next instance."""
    failed: list[int] = []

    def fail_twice(batch: pa.RecordBatch) -> pa.RecordBatch:
        if len(failed) < 2 and 700 in batch.column("value").to_pylist():
            failed.append(700)
            raise ValueError("700")
        return batch

    amounts.send(1000)
    failing = amounts.instance(fail_twice, guarantee=guarantee)
    text = rf"processor section of task 0_\d failed on offsets \d+ to \d+ of {amounts.source}-\d"
    with pytest.raises(ProcessingError, match=text), failing as instance:
        instance.wait(PATIENCE_S)
    with amounts.instance(fail_twice, guarantee=guarantee):
        found = amounts.wait_for_output(set(range(1000)))
    if guarantee == "exactly_once_v2":
        assert found == Counter(range(1000))


@GUARANTEES
def test_sub_topologies_behind_a_section_read_records(
    amounts: Amounts, guarantee: str, by_record: list[TopicPartition]
) -> None:
    """Each row is counted once, through a repartition topic."""
    amounts.send(500)

    def counted(section: Any) -> Any:
        grouped = section.group_by(lambda key, value: value % 5, key=int64, value=int64)
        return grouped.count(store="counts").to_stream().map(lambda key, count: (str(key), 10 * count + key))

    with amounts.instance(even, guarantee=guarantee, then=counted, default_store="in_memory"):
        amounts.wait_for_output({10 * 50 + digit for digit in range(5)})
    assert by_record == []


@GUARANTEES
def test_operators_behind_a_section_get_its_rows(amounts: Amounts, guarantee: str) -> None:
    """Record by record, through the same commits."""
    amounts.send(1000)

    def plus(section: Any) -> Any:
        return section.map_values(lambda value: value + 10_000)

    with amounts.instance(even, guarantee=guarantee, then=plus):
        assert amounts.wait_for_output(set(range(10_000, 11_000, 2))) == Counter(range(10_000, 11_000, 2))
