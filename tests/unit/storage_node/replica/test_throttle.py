"""Replication throttles: of catching-up replicas only."""

from typing import Any

import pytest
from fake_files import FakeFiles
from headrace.protocol.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE
from headrace.protocol.metadata.records import ConfigRecord
from headrace.runtime.config import MAX_LONG
from headrace.storage_node.configs.live_config import LiveConfig
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.replica.throttle import Throttle, Throttles, is_named
from replica_rig import Replicas

SIDES = ("leader", "follower")
COUNT, SIZE = 20, 10_000


def behind(side: str, rate: int | None, replicas: str = "*") -> Replicas:
    """Node 3 returns with an empty disk to logs of 200 KB, and fetches 20 KB at a time. Not settled yet."""
    cluster = Replicas.settled(node={"replica_fetch_max_bytes": 2 * SIZE + 500})
    cluster.write(b"first")
    cluster.crash(3)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    for number in range(1, COUNT):
        cluster.write(b"%d" % number + b"v" * SIZE)
    if rate is not None:
        cluster.publish(
            ConfigRecord(BROKER_RESOURCE, "", f"{side}.replication.throttled.rate", str(rate)),
            ConfigRecord(TOPIC_RESOURCE, "t", f"{side}.replication.throttled.replicas", replicas),
        )
    cluster.restart(3, FakeFiles())
    return cluster


def ends_after(cluster: Replicas, seconds: int) -> list[int]:
    """Records on node 3 after each second."""
    found = []
    for _ in range(seconds):
        cluster.pass_time(1_000)
        found.append(cluster.end(3))
    return found


@pytest.mark.parametrize("side", SIDES)
def test_throttled_replica_gets_at_most_the_rate(side) -> None:
    """20 KB/s plus one fetch; in the end it joins the ISR."""
    cluster = behind(side, 2 * SIZE)
    ends = ends_after(cluster, 12)
    assert all(end <= 2 * (second + 2) + 2 for second, end in enumerate(ends)), ends
    assert ends[2] >= 4
    assert cluster.values(3) == cluster.values(1)
    assert cluster.registration.isr == (1, 2, 3)


def test_without_a_rate_nothing_is_throttled() -> None:
    """All records are fetched in one round."""
    assert ends_after(behind("leader", None), 1) == [COUNT]


@pytest.mark.parametrize(("side", "other"), [("leader", "0:2,0:3,1:1"), ("follower", "0:1,0:2,1:3")])
def test_only_listed_replicas_are_throttled(side, other) -> None:
    """The leader's list has the leader's node, the follower's list the follower's."""
    assert ends_after(behind(side, 1, other), 1) == [COUNT]
    own = "0:1" if side == "leader" else "0:3"
    assert ends_after(behind(side, 1, own), 2)[-1] < COUNT


@pytest.mark.parametrize("side", SIDES)
def test_isr_members_are_never_throttled(side) -> None:
    """Acknowledgements wait for them."""
    cluster = behind(side, 0)
    cluster.settle()
    for _ in range(5):
        request = cluster.write(b"v" * SIZE)
        assert request.first.error_code == 0
    assert cluster.end(2) == COUNT + 5
    assert cluster.end(3) == 0


@pytest.mark.parametrize("side", SIDES)
def test_throttled_replica_fetches_no_more_often_than_an_idle_one(side) -> None:
    cluster = behind(side, 0)
    cluster.settle()
    asked = 0
    handed: Any = cluster._send

    def count(follower: int, effect: Any) -> None:
        nonlocal asked
        asked += follower == 3
        handed(follower, effect)

    cluster._send = count  # type: ignore[method-assign]
    cluster.pass_time(5_000)
    assert asked <= 25
    assert cluster.end(3) == 0


@pytest.mark.parametrize("side", SIDES)
def test_new_rate_holds_for_delayed_replicas(side) -> None:
    cluster = behind(side, 0)
    cluster.pass_time(2_000)
    cluster.publish(ConfigRecord(BROKER_RESOURCE, "", f"{side}.replication.throttled.rate", None))
    cluster.pass_time(2_000)
    assert cluster.end(3) == COUNT


def test_token_bucket_keeps_the_rate_over_time() -> None:
    """A second's bytes at once; a debt is waited for."""
    throttle = Throttle()
    assert throttle.has_room(0)
    throttle.limit(1_000)
    assert not throttle.has_room(0)
    assert throttle.has_room(1)
    throttle.take(3_000, 5_000)
    assert not throttle.has_room(5_000)
    assert throttle.room_ms(5_000) == 6_001
    assert not throttle.has_room(7_000)
    assert throttle.has_room(7_001)
    throttle.take(1_500, 60_000)
    assert throttle.room_ms(60_000) == 60_501


def test_node_rate_overrides_the_cluster_default() -> None:
    """An invalid value throttles nothing."""
    config = LiveConfig(NodeConfig.of({"log.dirs": "/d"}))
    throttles = Throttles(config)
    key = "leader.replication.throttled.rate"
    cluster, node = {CLUSTER_DEFAULT: {key: "5"}}, {(BROKER_RESOURCE, "7"): {key: "9"}}
    config.follow({**cluster, **node}, 7)
    assert (throttles.leader.rate, throttles.follower.rate) == (9, MAX_LONG)
    config.follow({**cluster, **node}, 8)
    assert throttles.leader.rate == 5
    config.follow({CLUSTER_DEFAULT: {key: "fast"}}, 8)
    assert throttles.leader.rate == MAX_LONG


def test_rate_of_the_config_file() -> None:
    """It holds from the start, and again without the dynamic value."""
    config = LiveConfig(NodeConfig.of({"log.dirs": "/d", "follower.replication.throttled.rate": 77}))
    throttles = Throttles(config)
    assert throttles.follower.rate == 77
    config.follow({CLUSTER_DEFAULT: {"follower.replication.throttled.rate": "5"}}, 1)
    assert throttles.follower.rate == 5
    config.follow({}, 1)
    assert throttles.follower.rate == 77


def test_throttled_replicas_are_named_by_partition_and_node() -> None:
    """Pairs of partition and node, or all."""
    assert is_named(("*",), 3, 4)
    assert is_named(("1:2", "3:4"), 3, 4)
    assert not is_named(("4:3", "33:4"), 3, 4)
    assert not is_named((), 3, 4)
