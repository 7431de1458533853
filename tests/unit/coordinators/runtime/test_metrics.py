"""Metrics of a node's coordinators: sums over its shards, load times."""

from typing import Any

from coordinator_rig import TOPIC_ID, CoordinatorRig, batch_of


def metrics_of(rig: CoordinatorRig) -> Any:
    """The metrics of groups."""
    return rig.all.status()["metrics"]["group-coordinator-metrics"]


def test_metrics_sum_over_shards() -> None:
    """Shards by state, and the sums of their gauges; a loading shard counts nothing."""
    rig = CoordinatorRig(partitions=3)
    rig.lead(0)
    rig.lead(1)
    rig.host.put(2, batch_of(("g", 1)))
    rig.lead(2)
    for number in range(20):
        rig.set(1, f"g{number}")
    assert rig.all.status()["shards"] == {"__consumer_offsets": {"active": 2, "loading": 1}}
    led = sum(len(shard.numbers) for shard in rig.shards)
    assert 0 < led < 20
    found = metrics_of(rig)
    assert found["num-partitions"] == {"loading": 1, "active": 2, "failed": 0}
    assert (found["NumGroups"], found["offset-commit-count"]) == (led, led)


def test_counters_stay_when_a_shard_is_dropped(rig: CoordinatorRig) -> None:
    """Its gauges go."""
    rig.lead()
    rig.set(1)
    rig.set(2)
    rig.all.resigned((TOPIC_ID, 0))
    assert (metrics_of(rig).get("NumGroups", 0), metrics_of(rig)["offset-commit-count"]) == (0, 2)
    rig.lead(epoch=1)
    rig.load()
    rig.set(3)
    assert (metrics_of(rig)["NumGroups"], metrics_of(rig)["offset-commit-count"]) == (1, 3)


def test_load_time_ends_when_the_shard_serves() -> None:
    """It starts with the leadership; a shard dropped during its load does not count."""
    rig = CoordinatorRig(partitions=2)
    rig.host.put(0, batch_of(("g", 1)))
    rig.host.put(1, batch_of(("g", 1)))
    rig.lead(0)
    rig.lead(1)
    rig.all.resigned((TOPIC_ID, 1))
    rig.host.now_ms += 250
    rig.load()
    assert (metrics_of(rig)["partition-load-time-max"], metrics_of(rig)["partition-load-time-avg"]) == (
        250,
        250,
    )
