"""An application of Kafka Streams is continued by headrace.stream on the same topics, and the reverse."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import headrace
import kafka_oracle
import pytest
from streams.takeover_case import IN_TIME, PHASE_MS, phase
from streams.takeover_io import JavaHost, Takeover

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.oracle
PHASES = 3


@pytest.fixture(scope="module")
def java() -> Iterator[JavaHost]:
    """A JVM with Kafka Streams."""
    kafka_oracle.require()
    with closing(JavaHost()) as host:
        yield host


@contextmanager
def takeover(java: JavaHost, guarantee: str, folder: Path) -> Iterator[Takeover]:
    """A cluster with the topics of the application."""
    with headrace.local(
        listeners="PLAINTEXT://127.0.0.1:0",
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    ) as cluster:
        yield Takeover(cluster, java, guarantee, folder)


def play(java: JavaHost, guarantee: str, languages: list[str], start_ms: int, folder: Path) -> list[object]:
    """What one order of programs leaves in the topics."""
    with takeover(java, guarantee, folder) as played:
        for number, language in enumerate(languages):
            played.run(language, phase(number, start_ms))
        return played.found()


@pytest.mark.parametrize(
    ("guarantee", "first", "second"),
    [("at_least_once", "java", "python"), ("exactly_once_v2", "python", "java")],
)
def test_java_and_python_take_over_from_each_other(
    java: JavaHost, tmp_path: Path, guarantee: str, first: str, second: str
) -> None:
    """Outputs, committed offsets with stream times, and changelogs are those of the runs in one language.

    The second program restores all stores; then the first one finds its own, to which the second has added.
    """
    start_ms = int(time.time()) // 60 * 60_000 - PHASES * PHASE_MS
    orders = ([first, second, first], ["java"] * PHASES, ["python"] * PHASES)
    mixed, only_java, only_python = (
        play(java, guarantee, languages, start_ms, tmp_path / str(number))
        for number, languages in enumerate(orders)
    )
    assert mixed == only_java
    assert mixed == only_python


def test_python_takes_over_from_java_that_was_killed(java: JavaHost, tmp_path: Path) -> None:
    """With exactly-once, what Java had not committed is aborted and processed again. No record is late: a
    program forgets stream times when it ends within a phase."""
    records = phase(0, int(time.time()) // 60 * 60_000 - PHASE_MS, IN_TIME)
    with takeover(java, "exactly_once_v2", tmp_path) as played:
        played.send(records)
        played.kill_java()
        played.run("python", [])
        found = played.found()
    with takeover(java, "exactly_once_v2", tmp_path / "undisturbed") as played:
        played.run("python", records)
        assert found == played.found()
