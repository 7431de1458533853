"""Where workers run, and how their actors are named."""

from collections import Counter

from headrace.stream.ray.config import WorkersConfig
from headrace.stream.ray.plan import (
    WorkerId,
    actor_options,
    is_loopback,
    leads_by_node,
    node_for,
    supervisors_in,
    task_count,
    worker_name,
    workers_in,
)


def test_actor_names_round_trip() -> None:
    """A name has the application, the run, the slot and the number of the process; other names are none."""
    name = worker_name("my.app", "run1", WorkerId(2, 7))
    assert name == "my.app/run1/worker-2.7"
    names = [name, "my.app", "my.app2/run1/worker-1.1", "other", "my.app/run1/worker-x"]
    assert workers_in(names, "my.app") == {name: ("run1", WorkerId(2, 7))}
    assert supervisors_in(names) == ["my.app", "other"]
    assert WorkerId(2, 7).folder == WorkerId(2, 8).folder == "worker-2"


def placed(count: int, leads: dict[str, int], nodes: list[str]) -> Counter[str]:
    """How many of `count` workers each node has."""
    occupied: Counter[str] = Counter()
    for _ in range(count):
        node = node_for(nodes, leads, occupied)
        assert node is not None
        occupied[node] += 1
    return occupied


def test_workers_are_near_the_leaders() -> None:
    """In proportion to the partitions that storage nodes lead there."""
    nodes = ["a", "b", "c", "d"]
    assert placed(4, {"a": 6, "b": 6}, nodes) == {"a": 2, "b": 2}
    assert placed(6, {"a": 8, "b": 4}, nodes) == {"a": 4, "b": 2}
    assert placed(3, {"a": 4, "b": 4, "c": 4}, nodes) == {"a": 1, "b": 1, "c": 1}
    assert placed(1, {"a": 1, "c": 3}, nodes) == {"c": 1}


def test_workers_are_spread_where_no_leader_is_known() -> None:
    """Also if the leaders are on other machines than Ray's."""
    assert placed(5, {}, ["a", "b"]) == {"a": 3, "b": 2}
    assert node_for([], {}, {}) is None


def test_worker_returns_to_its_state() -> None:
    """If its node is there."""
    assert node_for(["a", "b"], {"b": 9}, {"a": 5}, home="a") == "a"
    assert node_for(["a", "b"], {"b": 9}, {"a": 5}, home="gone") == "b"


def test_leaders_by_node() -> None:
    """By addresses; loopback is the machine of the supervisor, and raylets on one machine all count."""
    nodes = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.2"}
    leaders = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "127.0.0.1", "10.0.0.9"]
    assert leads_by_node(leaders, nodes, "n1") == {"n1": 3, "n2": 1, "n3": 1}
    assert leads_by_node(["localhost"], nodes, None) == {}
    assert is_loopback("::1")
    assert not is_loopback("10.127.0.0")


def test_options_of_actors() -> None:
    """Ray's names; nothing is asked for that was not given."""
    assert actor_options(WorkersConfig(), {}) == {"num_cpus": 0.01, "resources": {}}
    config = WorkersConfig.of(worker_cpus=2, memory_bytes=5, gpus=0.5)
    assert actor_options(config, {"fast": 1}) == {
        "num_cpus": 2.0,
        "memory": 5,
        "num_gpus": 0.5,
        "resources": {"fast": 1},
    }


def test_number_of_tasks() -> None:
    """One per partition of the largest input topic of each sub-topology, in any worker."""
    assert task_count([("a", "b"), ("b",), ()], {"a": 2, "b": 6}) == 12
