"""The declared cells hang together: every comparison has its cells, every loop exists."""

from __future__ import annotations

from itertools import pairwise

import pytest
from headrace.benchmarks import cells
from headrace.benchmarks.cells import GROUPS, Group
from headrace.benchmarks.loops import consume, produce
from headrace.benchmarks.page import METRICS
from headrace.benchmarks.replicated import NODES
from headrace.benchmarks.results import CEILINGS
from headrace.benchmarks.session_io import Session
from headrace.benchmarks.systems_io import Kafka
from headrace.storage_node.configs.node_config import NodeConfig

IDS = [group.id for group in GROUPS]
MOST_BYTES = 2_000_000_000  # beyond, the kernel's write-back is measured too


def test_ids_are_distinct() -> None:
    """Results are found by them."""
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize("group", GROUPS, ids=IDS)
def test_a_group_is_whole(group: Group) -> None:
    """Comparisons name its cells and known metrics, goals have titles, cells have a way to run."""
    names = [cell.name for cell in group.cells]
    assert len(set(names)) == len(names)
    for one in group.comparisons:
        assert {one.above, one.below} <= set(names)
        assert one.metric in METRICS
        assert one.goal is None or one.title
    for cell in group.cells:
        assert hasattr(Session, f"_{cell.kind}_cell")
        faces = {"produce": produce.SENDERS, "consume": consume.READERS}.get(cell.kind)
        assert faces is None or cell.spec["face"] in faces
        assert (group.preload is not None) >= cell.kind.endswith("consume")


@pytest.mark.parametrize("group", GROUPS, ids=IDS)
def test_a_cell_stays_below_the_write_back_limits(group: Group) -> None:
    """What one cell writes is less than 2 GB."""
    for spec in [cell.spec for cell in group.cells] + [group.preload or {}]:
        most = max(spec.get("count", 0), spec.get("more", 0)) * spec.get("size", 0)
        assert most * group.nodes <= MOST_BYTES  # each node writes all of it


def test_pairs_turn_the_order_round() -> None:
    """A B, B A: what drifts hits both alike."""
    group = cells.GROUPS[0]
    assert cells.order(group, 0) == list(group.cells)
    assert cells.order(group, 1) == list(reversed(group.cells))
    assert cells.order(group, 2) == cells.order(group, 0)


@pytest.mark.parametrize("is_quick", [False, True])
def test_groups_with_a_goal_run_first_with_the_most_pairs(is_quick: bool) -> None:
    """What is left out when time is over has none; what w9-1k loaded is there for w10."""
    groups = cells.chosen(set(), is_quick=is_quick)
    has_goal = [group.has_goal for group in groups]
    assert has_goal == sorted(has_goal, reverse=True)
    assert {"w1", "w2", "w9-100", "w9-1k", "w6-10k", "w10", "bare-64k"} <= {
        g.id for g in groups if g.has_goal
    }
    judged = [
        group
        for group in groups
        if any(one.goal is not None and not one.is_beside for one in group.comparisons)
    ]
    pairs = {group.pair_count(is_quick=is_quick) for group in judged if group.pairs is None}
    assert pairs == {3 if is_quick else 5}
    ids = [group.id for group in groups]
    assert ids[ids.index("w9-1k") :][:2] == ["w9-1k", "w10"]
    found = {group.id: group for group in groups}
    assert found["w9-1k"].preload == found["w10"].preload


@pytest.mark.parametrize("is_quick", [False, True])
def test_groups_of_three_nodes_follow_each_other(is_quick: bool) -> None:
    """Their clusters start once, and stop before the next group of one node is measured."""
    nodes = [group.nodes for group in cells.chosen(set(), is_quick=is_quick)]
    changes = sum((one == NODES) != (other == NODES) for one, other in pairwise(nodes))
    assert set(nodes) == {0, 1, NODES}
    assert changes <= 2


def test_both_systems_do_their_upkeep_alike() -> None:
    """Beside the same producer, on servers of their own; quiet cells have nothing beside it."""
    (group,) = cells.chosen({"w10-upkeep"}, is_quick=True)
    assert not group.servers.is_lasting
    works = {(cell.system, "upkeep" in cell.spec, cell.spec.get("cold", False)) for cell in group.cells}
    assert works == {(name, busy, busy) for name in ("headrace", "kafka") for busy in (False, True)}
    (goal,) = (one for one in group.comparisons if one.goal is not None)
    assert (goal.metric, goal.goal, goal.is_beside) == ("ack_p99_ms", 2.0, False)


COORDINATED = [group for group in GROUPS if group.workload in ("W12", "W13")]


@pytest.mark.parametrize("group", COORDINATED, ids=[group.id for group in COORDINATED])
def test_coordinators_have_the_same_to_do(group: Group) -> None:
    """Cells that are compared have one spec but for the face; Kafka's own settings are those that headrace
    has not, and every setting that both have is given to both."""
    for one in group.comparisons:
        above, below = (dict(group.cell(name).spec) for name in (one.above, one.below))
        assert {**above, "face": ""} == {**below, "face": ""}
        assert (group.cell(one.above).system, group.cell(one.below).system) == ("headrace", "kafka")
    known = set(NodeConfig.keys())
    assert {name for name, _ in group.settings} <= known
    assert not {name for name, _ in group.kafka_settings} & known


def test_what_coordinators_do_is_judged() -> None:
    """Transactions of both sizes, reading what is committed, commits, and rebalances by both protocols."""
    judged = {g.id for g in COORDINATED if any(c.goal and not c.is_beside for c in g.comparisons)}
    assert judged == {
        "w12-100",
        "w12-1000",
        "w12-read",
        "w13-commits",
        "w13-commits-at-once",
        "w13-classic",
        "w13-new",
    }
    for group in COORDINATED:
        for one in group.comparisons:
            if one.goal is not None:
                assert one.goal == (1.5 if one.at_least else 0.67)


KAFKAS = [group for group in GROUPS if group.workload == "W18"]


@pytest.mark.parametrize("group", KAFKAS, ids=[group.id for group in KAFKAS])
def test_kafkas_clients_have_the_same_to_do(group: Group) -> None:
    """Cells that are compared have one spec; all that a server does is asked through such a client."""
    for one in group.comparisons:
        above, below = group.cell(one.above), group.cell(one.below)
        assert (above.kind, above.spec) == (below.kind, below.spec)
        assert (above.system, below.system) == ("headrace", "kafka")
    for cell in group.cells:
        assert cell.kind in ("tool_produce", "tool_consume", "memory") or cell.spec["client"] == "kafka"
    assert "more" not in (group.preload or {})


def test_kafkas_clients_are_judged_on_one_node_and_three() -> None:
    """Rate and CPU of producing and reading, and latency at half load, of both sizes: not below Kafka."""
    judged = {(g.nodes, c.title.partition(",")[0], "100 B" in c.title, c.metric)
              for g in KAFKAS for c in g.comparisons if c.goal and not c.is_beside and g.nodes}  # fmt: skip
    for nodes in (1, NODES):
        for is_small in (False, True):
            for tool in ("ProducerPerformance", "ConsumerPerformance"):
                assert {
                    (nodes, tool, is_small, cells.RATE),
                    (nodes, tool, is_small, cells.CPU_PER_GB),
                } <= judged
            assert (nodes, "confluent-kafka for both", is_small, cells.E2E_P99) in judged
    assert {c.goal for g in KAFKAS for c in g.comparisons} == {1.0, None}
    assert [group.id for group in KAFKAS if group.in_quick] == ["w18-produce-1k"]


def test_both_wait_alike_for_a_groups_first_members() -> None:
    """The default, on the servers that last."""
    delay = NodeConfig.of({"node.id": 1, "log.dirs": "x"}).group_initial_rebalance_delay_ms
    assert Kafka.SETTINGS["group.initial.rebalance.delay.ms"] == str(delay)


def test_three_replicas_are_acknowledged_by_all() -> None:
    """In every cell of three nodes, of both systems."""
    found = [cell.spec["acks"] for group in GROUPS if group.nodes > 1 for cell in group.cells]
    assert set(found) == {"all"}


def test_every_ceiling_is_a_cell() -> None:
    """Of the group that holds them."""
    names = {cell.name for group in GROUPS if group.id == CEILINGS for cell in group.cells}
    wanted = {one.ceiling for group in GROUPS for one in group.comparisons if one.ceiling}
    assert wanted
    assert wanted <= names


def test_choosing_parts() -> None:
    """By workload or id; a typing error is told."""
    assert {group.id for group in cells.chosen({"w9"}, is_quick=True)} == {"w9-100", "w9-1k", "w9-1k-3"}
    assert [group.id for group in cells.chosen({"w6-10k"}, is_quick=True)] == ["w6-10k"]
    assert cells.chosen({"startup", "partitions"}, is_quick=False) == []
    assert {group.nodes for group in cells.chosen({"r3", "failover"}, is_quick=False)} == {3}
    with pytest.raises(KeyError, match="w99"):
        cells.chosen({"w99", "w1"}, is_quick=True)


def test_every_workload_so_far_is_there_in_both_modes() -> None:
    """W1 to W13, the bare ceilings, three nodes, fail-over, the cleaner and Kafka's own clients."""
    wanted = {f"W{number}" for number in range(1, 14)} | {"BARE", "R3", "FAILOVER", "CLEANER", "W18"}
    for is_quick in (True, False):
        assert {group.workload for group in cells.chosen(set(), is_quick=is_quick)} == wanted


def test_partitions_run_in_the_full_run_or_when_asked_for() -> None:
    """QUICK has no time for them."""
    assert cells.parts(set(), is_quick=False) == {"startup", "partitions"}
    assert cells.parts(set(), is_quick=True) == {"startup"}
    assert cells.parts({"partitions", "w1"}, is_quick=True) == {"partitions"}


def test_quick_is_smaller_in_count_and_time_only() -> None:
    """Rates and sizes stay, and whole numbers stay whole."""
    spec = {"count": 11, "seconds": 4.0, "rate": 10, "size": 100}
    assert cells.scaled(spec, is_quick=True) == {"count": 5, "seconds": 2.0, "rate": 10, "size": 100}
    assert cells.scaled(spec, is_quick=False) == spec
