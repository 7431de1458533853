"""The registry of groups: every comparison has its cells and metrics, and modes choose groups."""

from itertools import pairwise

import pytest
from headrace.benchmarks.cells.connections import ConnectionMemoryCell
from headrace.benchmarks.cells.kafka_tools import ToolConsumeCell, ToolProduceCell
from headrace.benchmarks.cells.latency import PingCell
from headrace.benchmarks.cells.preload import ToolPreload
from headrace.benchmarks.cells.throughput import ConsumeCell, ProduceCell
from headrace.benchmarks.constants import CPU_PER_GB, E2E_P99, NODES, RATE
from headrace.benchmarks.group import Comparison, Group
from headrace.benchmarks.loops import consume, produce
from headrace.benchmarks.plan import GROUPS, chosen, parts
from headrace.benchmarks.report.page import METRICS
from headrace.benchmarks.report.results import CEILINGS
from headrace.benchmarks.servers.kafka_systems_io import Kafka
from headrace.storage_node.configs.node_config import NodeConfig

IDS = [group.id for group in GROUPS]
MOST_BYTES = 2_000_000_000  # with more, the kernel's write-back would be measured, too


def test_ids_are_distinct() -> None:
    """They are the keys of results."""
    assert len(set(IDS)) == len(IDS)


def test_comparisons_name_cells_and_metrics_that_they_report() -> None:
    """The page has a column for each metric; goals have titles; consume cells have a preload."""
    for group in GROUPS:
        names = [cell.name for cell in group.cells]
        assert len(set(names)) == len(names), group.id
        for one in group.comparisons:
            check_comparison(one, group)
        for cell in group.cells:
            if isinstance(cell, ProduceCell):
                assert cell.spec["api"] in produce.SENDERS, group.id
            if isinstance(cell, ConsumeCell):
                assert cell.spec["api"] in consume.READERS, group.id
            if isinstance(cell, ConsumeCell | ToolConsumeCell) or cell.spec.get("cold"):
                assert group.preload is not None, group.id


def check_comparison(one: Comparison, group: Group) -> None:
    assert {one.above, one.below} <= {cell.name for cell in group.cells}, group.id
    assert one.metric in METRICS, group.id
    assert one.metric in group.cell(one.above).reports & group.cell(one.below).reports, group.id
    assert one.goal is None or one.title, group.id


def test_a_cell_stays_below_the_write_back_limits() -> None:
    """What one cell writes is less than 2 GB."""
    for group in GROUPS:
        sizes = [cell.spec.get("count", 0) * cell.spec.get("size", 0) for cell in group.cells]
        if group.preload:
            sizes += [group.preload.count(system) * group.preload.size for system in ("kafka", "headrace")]
        assert max(sizes) * group.nodes <= MOST_BYTES, group.id  # each node writes all of it


def test_every_second_pair_runs_in_reverse_order() -> None:
    """A B, B A: a drift of the machine affects both alike."""
    group = GROUPS[0]
    assert group.order(0) == group.order(2) == group.cells
    assert group.order(1) == tuple(reversed(group.cells))


@pytest.mark.parametrize("is_quick", [False, True])
def test_groups_with_a_goal_run_first_with_most_pairs(is_quick: bool) -> None:
    """Groups that are skipped for lack of time have no goal; w10 reads the preload of w9-1k."""
    groups = chosen(set(), is_quick=is_quick)
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
    """Their clusters start once, and stop before a group of one node runs."""
    nodes = [group.nodes for group in chosen(set(), is_quick=is_quick)]
    changes = sum((one == NODES) != (other == NODES) for one, other in pairwise(nodes))
    assert set(nodes) == {0, 1, NODES}
    assert changes <= 2


def test_both_systems_have_the_same_upkeep() -> None:
    """With the same producer, on servers of their own; quiet cells have no upkeep."""
    (group,) = chosen({"w10-upkeep"}, is_quick=True)
    assert not group.servers.is_lasting
    works = {(cell.system, "upkeep" in cell.spec, cell.spec.get("cold", False)) for cell in group.cells}
    assert works == {(name, busy, busy) for name in ("headrace", "kafka") for busy in (False, True)}
    (goal,) = (one for one in group.comparisons if one.goal is not None)
    assert (goal.metric, goal.goal, goal.is_beside) == ("ack_p99_ms", 2.0, False)


COORDINATED = [group for group in GROUPS if group.workload in ("W12", "W13")]


@pytest.mark.parametrize("group", COORDINATED, ids=[group.id for group in COORDINATED])
def test_compared_coordinator_cells_have_the_same_spec(group: Group) -> None:
    """But for the API; common settings are set for both systems, `kafka_settings` are unknown to headrace."""
    for one in group.comparisons:
        above, below = (dict(group.cell(name).spec) for name in (one.above, one.below))
        assert {**above, "api": ""} == {**below, "api": ""}
        assert (group.cell(one.above).system, group.cell(one.below).system) == ("headrace", "kafka")
    known = set(NodeConfig.keys())
    assert {name for name, _ in group.settings} <= known
    assert not {name for name, _ in group.kafka_settings} & known


def test_coordinators_have_goals() -> None:
    """Transactions of both sizes, read_committed, commits, and rebalances by both protocols."""
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
def test_compared_cells_of_kafkas_clients_have_the_same_spec(group: Group) -> None:
    """Only Kafka's clients are used, and the systems' topics have the same batches."""
    for one in group.comparisons:
        above, below = group.cell(one.above), group.cell(one.below)
        assert (type(above), above.spec) == (type(below), below.spec)
        assert (above.system, below.system) == ("headrace", "kafka")
    for cell in group.cells:
        is_kafkas = isinstance(cell, ToolProduceCell | ToolConsumeCell | ConnectionMemoryCell)
        assert is_kafkas or cell.spec["client"] == "kafka"
    if group.preload:
        assert isinstance(group.preload, ToolPreload)
        assert group.preload.kafka_count == group.preload.headrace_count


def test_kafkas_clients_have_goals_on_one_node_and_three() -> None:
    """Rate and CPU of producing and consuming, and latency at half load, of both sizes."""
    judged = {(g.nodes, c.title.partition(",")[0], "100 B" in c.title, c.metric)
              for g in KAFKAS for c in g.comparisons if c.goal and not c.is_beside and g.nodes}  # fmt: skip
    for nodes in (1, NODES):
        for is_small in (False, True):
            for tool in ("ProducerPerformance", "ConsumerPerformance"):
                assert {(nodes, tool, is_small, RATE), (nodes, tool, is_small, CPU_PER_GB)} <= judged
            assert (nodes, "confluent-kafka for both", is_small, E2E_P99) in judged
    assert {c.goal for g in KAFKAS for c in g.comparisons} == {1.0, None}
    assert [group.id for group in KAFKAS if group.in_quick] == ["w18-produce-1k"]


def test_both_systems_have_the_same_initial_rebalance_delay() -> None:
    """The default, on the servers with default settings."""
    delay = NodeConfig.of({"node.id": 1, "log.dirs": "x"}).group_initial_rebalance_delay_ms
    assert Kafka.SETTINGS["group.initial.rebalance.delay.ms"] == str(delay)


def test_cells_of_three_nodes_use_acks_all() -> None:
    """In both systems."""
    found = [cell.spec["acks"] for group in GROUPS if group.nodes > 1 for cell in group.cells]
    assert set(found) == {"all"}


def test_every_ceiling_is_a_cell() -> None:
    """Of the group of bare loops."""
    names = {cell.name for group in GROUPS if group.id == CEILINGS for cell in group.cells}
    wanted = {one.ceiling for group in GROUPS for one in group.comparisons if one.ceiling}
    assert wanted
    assert wanted <= names


def test_groups_are_chosen_by_workload_or_id() -> None:
    """An unknown name is an error."""
    assert {group.id for group in chosen({"w9"}, is_quick=True)} == {"w9-100", "w9-1k", "w9-1k-3"}
    assert [group.id for group in chosen({"w6-10k"}, is_quick=True)] == ["w6-10k"]
    assert chosen({"startup", "partitions"}, is_quick=False) == []
    assert {group.nodes for group in chosen({"r3", "failover"}, is_quick=False)} == {3}
    with pytest.raises(KeyError, match="w99"):
        chosen({"w99", "w1"}, is_quick=True)


def test_both_modes_have_every_workload() -> None:
    """W1 to W13, bare loops, three nodes, fail-over, the cleaner, Kafka's own clients and security."""
    wanted = {f"W{number}" for number in range(1, 14)} | {"BARE", "R3", "FAILOVER", "CLEANER", "W18", "W20"}
    for is_quick in (True, False):
        assert {group.workload for group in chosen(set(), is_quick=is_quick)} == wanted


def test_partitions_run_in_the_full_run_or_when_chosen() -> None:
    """QUICK has no time for them."""
    assert parts(set(), is_quick=False) == {"startup", "partitions"}
    assert parts(set(), is_quick=True) == {"startup"}
    assert parts({"partitions", "w1"}, is_quick=True) == {"partitions"}


def test_quick_scales_counts_and_seconds_only() -> None:
    """Rates and sizes are the same; whole numbers stay whole."""
    spec = {"count": 11, "seconds": 4.0, "rate": 10, "size": 100}
    cell = PingCell("p", "kafka", spec)
    assert cell.scaled(is_quick=True).spec == {"count": 5, "seconds": 2.0, "rate": 10, "size": 100}
    assert cell.scaled(is_quick=False) is cell
