"""Dynamic configs of a running node: precedence, listeners, and their effects."""

from core_rig import CoreRig
from headrace.protocol.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT
from headrace.protocol.metadata.records import ConfigRecord
from headrace.storage_node.configs.live_config import LIVE_KEYS, LiveConfig
from headrace.storage_node.configs.node_config import CLUSTER_WIDE_KEYS, NodeConfig
from headrace.storage_node.log.log_defaults import TOPIC_KEY_SYNONYMS
from node_rig import batch
from replica_rig import Replicas

NODE_7 = (BROKER_RESOURCE, "7")


def live(**own: object) -> LiveConfig:
    return LiveConfig(NodeConfig.of({"log.dirs": "/d", **{k.replace("_", "."): v for k, v in own.items()}}))


def test_precedence_of_node_cluster_and_file() -> None:
    """A removed value uncovers the next level."""
    config = live(background_threads=2)
    cluster, node = {CLUSTER_DEFAULT: {"background.threads": "5"}}, {NODE_7: {"background.threads": "9"}}
    seen = []
    for configs in (
        {},
        cluster,
        {**cluster, **node},
        node,
        {(BROKER_RESOURCE, "8"): {"max.connections": "1"}},
    ):
        assert config.follow(configs, 7) == ()
        seen.append(config.now.background_threads)
    assert seen == [2, 5, 9, 9, 2]
    assert config.now == config.own


def test_listeners_are_called_for_their_keys() -> None:
    """Once per change, with the whole configuration; not for an equal value."""
    config, response = live(), []
    config.on_change(
        ("max.connections", "background.threads"), lambda now: response.append(now.max_connections)
    )
    config.follow({CLUSTER_DEFAULT: {"log.roll.ms": "5000"}}, 7)
    assert response == []
    config.follow({CLUSTER_DEFAULT: {"max.connections": "5", "background.threads": "3"}}, 7)
    config.follow({CLUSTER_DEFAULT: {"max.connections": "5", "background.threads": "3"}}, 7)
    config.follow({NODE_7: {"max.connections": "5", "background.threads": "3"}}, 7)
    assert response == [5]
    config.follow({}, 7)
    assert response == [5, 10_000]


def test_defaults_of_the_next_image_call_no_listener() -> None:
    """The logs of the next image are created with its configs, before it is applied."""
    config, response = live(), []
    config.on_change(("log.roll.ms",), lambda now: response.append(now.log_roll_ms))
    ahead = {CLUSTER_DEFAULT: {"log.roll.ms": "5000"}}
    assert config.topic_defaults(ahead, 7).segment_ms == 5_000
    assert not response
    assert config.now.log_roll_ms != 5_000
    config.follow(ahead, 7)
    assert response == [5_000]


def test_an_unknown_value_is_reported_once() -> None:
    """A newer controller may allow it; the other values apply, and keys that are not live stay."""
    config = live()
    dynamic = {
        "background.threads": "many",
        "max.connections": "7",
        "node.id": "99",
        "log.dirs": "/elsewhere",
        "key.of.tomorrow": "1",
    }
    (fault,) = config.follow({CLUSTER_DEFAULT: dynamic}, 7)
    assert "background.threads" in fault
    assert config.follow({CLUSTER_DEFAULT: dynamic}, 7) == ()
    assert (config.now.max_connections, config.now.background_threads) == (7, 4)
    assert (config.now.node_id, config.now.log_dirs) == (-1, ("/d",))


def test_values_are_checked_together() -> None:
    """One by one the first would be refused: the jitter is above the old time."""
    dynamic = {"log.roll.ms": str(90 * 24 * 3_600_000), "log.roll.jitter.ms": str(30 * 24 * 3_600_000)}
    config = live()
    assert config.follow({CLUSTER_DEFAULT: dynamic}, 7) == ()
    assert config.now.log_roll_jitter_ms == 30 * 24 * 3_600_000


def test_an_invalid_node_value_uncovers_the_cluster_value() -> None:
    """And it is not described as effective."""
    config = live(background_threads=2)
    configs = {
        CLUSTER_DEFAULT: {"background.threads": "5", "max.connections": "6"},
        NODE_7: {"background.threads": "many", "max.connections": "7", "key.of.tomorrow": "1"},
    }
    (fault,) = config.follow(configs, 7)
    assert "many" in fault
    assert (config.now.background_threads, config.now.max_connections) == (5, 7)
    assert config.applied(configs, 7) == {
        CLUSTER_DEFAULT: configs[CLUSTER_DEFAULT],
        NODE_7: {"max.connections": "7", "key.of.tomorrow": "1"},
    }


def test_values_that_contradict_the_nodes_file_are_ignored() -> None:
    """The controller does not know the file."""
    config = live(log_roll_ms=1_000)
    (fault,) = config.follow({CLUSTER_DEFAULT: {"log.roll.jitter.ms": "2000"}}, 7)
    assert "log.roll.jitter.ms" in fault
    assert config.now == config.own


def test_every_default_of_a_topic_key_is_live() -> None:
    """As in Kafka; cluster-wide keys are live, too."""
    assert set(TOPIC_KEY_SYNONYMS) <= LIVE_KEYS
    assert CLUSTER_WIDE_KEYS <= LIVE_KEYS


# --- the parts that act ---------------------------------------------------------------------------------


def cluster_wide(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(*CLUSTER_DEFAULT, name, value)


def test_topics_without_own_values_follow_the_cluster() -> None:
    """At once, existing and new logs; a topic's own value stays."""
    rig = CoreRig()
    free, own = rig.topic("free"), rig.topic("own", segment_ms="7777")
    rig.metadata(cluster_wide("log.roll.ms", "5000"))
    later = rig.topic("later")

    def times() -> list[int]:
        return [rig.core.table.partitions[each, 0].log.config.segment_ms for each in (free, own, later)]

    assert times() == [5_000, 7_777, 5_000]
    rig.metadata(ConfigRecord(BROKER_RESOURCE, str(rig.node_id), "log.roll.ms", "6000"))
    assert times() == [6_000, 7_777, 6_000]
    assert [p.log.config.segment_ms for p in rig.restarted().core.table.partitions.values()] == times()
    rig.metadata(
        cluster_wide("log.roll.ms", None),
        ConfigRecord(BROKER_RESOURCE, str(rig.node_id), "log.roll.ms", None),
    )
    assert times() == [7 * 24 * 3_600_000, 7_777, 7 * 24 * 3_600_000]


def test_message_max_bytes_applies_at_once() -> None:
    """MESSAGE_TOO_LARGE from the next produce on, until it is reset."""
    rig = CoreRig()
    topic = rig.topic()
    for value, code in (("100", 10), (None, 0)):
        rig.metadata(cluster_wide("message.max.bytes", value))
        assert rig.produce(topic, batch(b"v" * 200), acks=1).first.error_code == code


def test_tail_cache_bytes_apply_at_once() -> None:
    """With 0 reads come from files; afterwards the cache fills again."""
    rig = CoreRig()
    topic = rig.topic()
    rig.produce(topic, batch(b"v" * 1_000), acks=1)
    tail = rig.core.table.partitions[topic, 0].log.reader.tail
    assert len(tail) == 1
    rig.metadata(cluster_wide("log.tail.cache.bytes", "0"))
    assert len(tail) == 0
    rig.metadata(cluster_wide("log.tail.cache.bytes", "1000000"))
    rig.produce(topic, batch(b"v" * 1_000), acks=1)
    assert len(tail) == 1
    rig.metadata(cluster_wide("log.tail.cache.partition.bytes", "100"))
    rig.produce(topic, batch(b"v" * 1_000), acks=1)
    assert len(tail) == 0


def test_the_retention_check_interval_applies_at_once() -> None:
    """Not at the end of the old one, an hour later."""
    rig = CoreRig(log_retention_check_interval_ms=3_600_000)
    topic = rig.topic(segment_bytes=str(1 << 20), retention_bytes="1000")
    for _ in range(5):
        rig.produce(topic, batch(b"v" * 400_000), acks=1)

    def starts_after(seconds: int) -> int:
        for _ in range(seconds):
            rig.now_ms += 1_000
            rig.tick()
            rig.checkpoint_starts()
        return int(rig.core.table.partitions[topic, 0].log.log_start_offset)

    starts_after(40)  # past the first round
    rig.produce(topic, batch(b"v" * 400_000), acks=1)
    before = starts_after(60)
    for _ in range(5):
        rig.produce(topic, batch(b"v" * 400_000), acks=1)
    assert starts_after(60) == before
    rig.metadata(cluster_wide("log.retention.check.interval.ms", "5000"))
    assert starts_after(8) > before


def test_num_replica_fetchers_applies_without_loss() -> None:
    """With fetches in flight, up and down; the followers have everything and are in sync."""
    cluster = Replicas()
    cluster.write(b"0")
    for number, count in enumerate(("5", "2", "1"), 1):
        cluster.produce(b"%d" % number)
        cluster.step()
        cluster.publish(cluster_wide("num.replica.fetchers", count))
        cluster.settle()
    cluster.pass_time(2_000)
    assert cluster.values(2) == cluster.values(3) == [b"0", b"1", b"2", b"3"]
    assert cluster.registration.isr == (1, 2, 3)
    cluster.check_prefixes()
