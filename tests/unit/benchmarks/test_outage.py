"""Gaps between acknowledgements, and what was acknowledged against what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.benchmarks.kafka_cluster_io import node_settings
from headrace.benchmarks.outage import Checked, check, longest_gaps, outage_ms

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000


def times(*ms: float) -> list[int]:
    return [int(each * MS) for each in ms]


def test_the_longest_gaps_come_first_with_their_begin() -> None:
    """Acknowledgements of one partition may be noted out of order."""
    gaps = longest_gaps(times(0, 30, 10, 12), count=2)
    assert gaps == [(12 * MS, 18.0), (0, 10.0)]
    assert longest_gaps(times(5)) == []
    assert longest_gaps([]) == []


def test_the_outage_is_the_longest_gap_that_ends_after_the_kill() -> None:
    """A longer one before it is no matter; of several partitions the worst counts."""
    early = longest_gaps(times(0, 500, 501, 601, 602))
    late = longest_gaps(times(0, 500, 650, 660))
    assert outage_ms([early], killed_ns=550 * MS) == 100.0
    assert outage_ms([early, late], killed_ns=550 * MS) == 150.0


@pytest.mark.parametrize("acked", [(), (10,), (0, 10, 20)])
def test_a_partition_that_never_came_back_has_no_outage_but_a_failure(acked: tuple[float, ...]) -> None:
    """Nothing acknowledged after the kill: the gap has no end."""
    fine = longest_gaps(times(0, 90, 120))
    assert outage_ms([fine, longest_gaps(times(*acked))], killed_ns=100 * MS) is None


def test_a_killed_node_that_led_nothing_tells_nothing() -> None:
    """No partition, no outage."""
    assert outage_ms([], killed_ns=0) is None


def test_gaps_come_back_from_json_as_lists() -> None:
    """As the client's report brings them."""
    assert outage_ms([[[0, 200.0], [300 * MS, 5.0]]], killed_ns=100 * MS) == 200.0


def test_lost_is_acknowledged_and_not_read() -> None:
    """Read and never acknowledged is allowed; twice is told."""
    assert check([1, 2, 3], [3, 1, 4, 4]) == Checked(lost=1, doubled=1, read=4)
    assert check([], []) == Checked(0, 0, 0)


def test_every_kafka_node_knows_all_controllers(tmp_path: Path) -> None:
    """Listeners are its own, the quorum is that of all."""
    ports = {1: (11, 12), 2: (21, 22), 3: (31, 32)}
    found = [node_settings(number, ports, tmp_path / str(number)) for number in ports]
    assert {one["controller.quorum.bootstrap.servers"] for one in found} == {
        "127.0.0.1:12,127.0.0.1:22,127.0.0.1:32"
    }
    assert [one["node.id"] for one in found] == ["1", "2", "3"]
    assert found[1]["listeners"] == "PLAINTEXT://127.0.0.1:21,CONTROLLER://127.0.0.1:22"
