"""Kafka Streams with `group.protocol=streams` on headrace: results, groups, and Kafka's own tool for them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import headrace
import kafka_oracle
import pytest
from streams.takeover_case import PHASE_MS, phase
from streams.takeover_io import JavaHost, Takeover

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.services.local_io import LocalCluster

pytestmark = pytest.mark.oracle
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.fixture(scope="module")
def java() -> Iterator[JavaHost]:
    """A JVM with Kafka Streams."""
    kafka_oracle.require()
    with closing(JavaHost()) as host:
        yield host


def play(
    java: JavaHost, guarantee: str, protocol: str, start_ms: int, folder: Path
) -> tuple[list[object], list[str]]:
    """What two runs of the application leave in the topics, and the output of Kafka's tool during the second
    run."""
    with headrace.local(
        listeners="PLAINTEXT://127.0.0.1:0",
        group_initial_rebalance_delay_ms=0,
        group_streams_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    ) as cluster:
        played = Takeover(cluster, java, guarantee, folder, {"group.protocol": protocol})
        played.run("java", phase(0, start_ms))
        said: list[str] = []

        def look() -> None:
            if protocol == "streams":
                said.extend(tool_output(cluster))

        played.run("java", phase(1, start_ms), look)
        return played.found(), said


def tool_output(cluster: LocalCluster) -> list[str]:
    """What kafka-streams-groups.sh prints of the running application."""
    where = ("--bootstrap-server", cluster.kafka_bootstrap)
    queries = (
        ("--list", "--state"),
        ("--describe", "--group", "app", "--state", "--verbose"),
        ("--describe", "--group", "app", "--members", "--verbose"),
    )
    return [kafka_oracle.run_tool(TOOL, *where, *query) for query in queries]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_streams_and_classic_groups_have_equal_results(
    java: JavaHost, tmp_path: Path, guarantee: str
) -> None:
    """Outputs, committed offsets and changelogs; the tool shows the group, its epochs and its tasks. The
    records are new: changelogs of windows lose old ones in the first round of retention, after 30 s."""
    start_ms = int(time.time()) // 60 * 60_000 - 2 * PHASE_MS
    classic, _ = play(java, guarantee, "classic", start_ms, tmp_path / "classic")
    streams, said = play(java, guarantee, "streams", start_ms, tmp_path / "streams")
    listed, state, members = said
    assert streams == classic
    assert listed.split() == ["GROUP", "STATE", "app", "Stable"]
    assert "Stable" in state
    assert "ACTIVE" in members.upper()
