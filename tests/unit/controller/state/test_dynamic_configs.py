"""Dynamic configs of the cluster and of nodes: allowed keys, contradictions, effects on the controller."""

import msgspec
import pytest
from controller_kit import Driver
from headrace.controller.state.config_rules import CLUSTER_KEYS, NODE_KEYS, ConfigSizes
from headrace.protocol.errors import InvalidConfigError, InvalidRequestError, UnsupportedVersionError
from headrace.protocol.messages import control
from headrace.protocol.metadata.records import ConfigRecord
from headrace.protocol.metadata.replay import image_records
from headrace.runtime.config import text_of

TOPIC, CLUSTER, NODE = (
    control.ConfigResource(2, "t"),
    control.ConfigResource(4, ""),
    control.ConfigResource(4, "1"),
)
GROUP = control.ConfigResource(32, "g")
SET, DELETE, APPEND = 0, 1, 2
DAY = 24 * 3_600_000


@pytest.fixture
def driver() -> Driver:
    """Two nodes, topic "t"."""
    driver = Driver()
    driver.join(1, 2)
    driver.place("t", (1,))
    return driver


def listed(driver, *types):
    """The resources of these types, or of all types."""
    return driver.ask(control.ListConfigResourcesRequest(types)).resources


def alter(driver, resource, **values):
    """Set configs named with underscores (None deletes); the response."""
    changes = tuple(
        control.ConfigChange(
            name.replace("_", "."), DELETE if value is None else SET, "" if value is None else str(value)
        )
        for name, value in values.items()
    )
    return driver.ask(
        control.IncrementalAlterConfigsRequest((control.AlterConfigs(resource, changes),))
    ).results[0]


def refused(driver, resource, **values):
    """The error message; no record is written."""
    before = driver.image
    answer = alter(driver, resource, **values)
    assert answer.error_code == InvalidConfigError.code
    assert driver.image is before
    return answer.error_detail


@pytest.mark.parametrize(
    ("resource", "name", "hint"),
    [
        (CLUSTER, "log.retention.msx", "did you mean 'log.retention.ms'"),
        (TOPIC, "retention.msx", "did you mean 'retention.ms'"),
        (GROUP, "consumer.session.timeout", "did you mean 'consumer.session.timeout.ms'"),
        (GROUP, "group.consumer.session.timeout.ms", "there it is consumer.session.timeout.ms"),
        (GROUP, "retention.ms", "unknown config key"),
        (NODE, "consumer.heartbeat.interval.ms", "there it is group.consumer.heartbeat.interval.ms"),
        (TOPIC, "consumer.heartbeat.interval.ms", "unknown config key"),
        (CLUSTER, "retention.ms", "there it is log.retention.ms"),
        (NODE, "max.message.bytes", "there it is message.max.bytes"),
        (TOPIC, "log.segment.bytes", "there it is segment.bytes"),
        (NODE, "log.dirs", "read-only: set it in the node's configuration and restart it"),
        (NODE, "log_dirs", "read-only"),
        (CLUSTER, "controller.id", "read-only: set it in the controller's configuration"),
        (NODE, "min.insync.replicas", "holds for the whole cluster, not for one node"),
        (NODE, "auto.leader.rebalance.enable", "holds for the whole cluster"),
        (
            NODE,
            "ssl.keystore.location",
            "for one listener of a node only: listener.name.<name>.ssl.keystore.",
        ),
        (CLUSTER, "ssl.keystore.location", "for one listener of a node only"),
        (CLUSTER, "listener.name.ssl.ssl.keystore.location", "a key of one node, not of the cluster"),
        (NODE, "listener.name.native.ssl.keystore.location", "unknown config key"),
    ],
)
def test_errors_name_the_remedy(driver, resource, name, hint) -> None:
    """The nearest key, its name at that level, or where it is set."""
    change = control.AlterConfigs(resource, (control.ConfigChange(name, SET, "1"),))
    assert hint in driver.ask(control.IncrementalAlterConfigsRequest((change,))).results[0].error_detail


def test_every_live_key_can_be_set(driver) -> None:
    """To its default, cluster-wide and, unless it is cluster-wide only, for a node."""
    for keys, resource in ((CLUSTER_KEYS, CLUSTER), (NODE_KEYS, NODE)):
        names = list(keys._homes)
        assert len(names) > 30
        changes = tuple(
            control.ConfigChange(name, SET, text_of(5 if (value := keys.default(name)) is None else value))
            for name in names
        )
        answer = driver.ask(
            control.IncrementalAlterConfigsRequest((control.AlterConfigs(resource, changes),))
        ).results[0]
        assert not answer.error_code, answer.error_detail


def test_a_node_has_the_key_stores_of_its_listeners(driver) -> None:
    """Under one name whatever its case; a certificate chain is longer than other values."""
    changes = (
        control.ConfigChange("listener.name.SSL.ssl.keystore.location", SET, "/a.pem"),
        control.ConfigChange("listener.name.ssl.ssl.keystore.certificate.chain", SET, "c" * 20_000),
    )
    alters = (control.AlterConfigs(NODE, changes),)
    assert driver.ask(control.IncrementalAlterConfigsRequest(alters)).results[0].error_code == 0
    assert driver.image.configs[4, "1"]["listener.name.ssl.ssl.keystore.location"] == "/a.pem"
    listed = control.ConfigChange("listener.name.ssl.ssl.keystore.location", APPEND, "/b.pem")
    alters = (control.AlterConfigs(NODE, (listed,)),)
    answer = driver.ask(control.IncrementalAlterConfigsRequest(alters)).results[0]
    assert "not a list" in answer.error_detail


def test_contradicting_values_of_one_level_are_refused(driver) -> None:
    """Also with existing values; both together are accepted."""
    text = refused(driver, CLUSTER, log_roll_ms=10, log_roll_jitter_ms=11)
    assert "segment.jitter.ms 11 must not exceed segment.ms 10" in text
    refused(driver, NODE, log_cleaner_min_compaction_lag_ms=9, log_cleaner_max_compaction_lag_ms=8)
    assert not alter(driver, CLUSTER, log_roll_jitter_ms=30 * DAY, log_roll_ms=90 * DAY).error_code
    refused(driver, CLUSTER, log_roll_ms=None)
    refused(driver, CLUSTER, log_roll_ms=29 * DAY)


def test_a_node_value_must_fit_the_cluster_values(driver) -> None:
    """And the cluster's values those of each node."""
    assert not alter(driver, NODE, log_roll_jitter_ms=5 * DAY).error_code
    assert "node 1: " in refused(driver, CLUSTER, log_roll_ms=4 * DAY)
    assert not alter(driver, CLUSTER, log_roll_ms=6 * DAY).error_code
    refused(driver, NODE, log_roll_jitter_ms=7 * DAY)
    assert not alter(driver, NODE, log_roll_jitter_ms=None).error_code
    assert not alter(driver, CLUSTER, log_roll_ms=DAY).error_code


def test_a_topic_value_must_fit_inherited_values(driver) -> None:
    """From the cluster and from any node; a default that contradicts a topic is refused as well."""
    assert not alter(driver, TOPIC, min_compaction_lag_ms=1_000).error_code
    text = refused(driver, CLUSTER, log_cleaner_max_compaction_lag_ms=999)
    assert "topic t would have: min.compaction.lag.ms 1000" in text
    text = refused(driver, NODE, log_cleaner_max_compaction_lag_ms=999)
    assert "node 1: topic t would have" in text
    assert not alter(driver, NODE, log_cleaner_max_compaction_lag_ms=2_000).error_code
    assert "node 1: " in refused(driver, TOPIC, min_compaction_lag_ms=2_001)
    assert not alter(driver, TOPIC, min_compaction_lag_ms=2_001, max_compaction_lag_ms=3_000).error_code


def test_a_new_topic_must_fit_inherited_values(driver) -> None:
    """Otherwise it would have values that every node rejects."""
    assert not alter(driver, CLUSTER, log_roll_ms=5_000).error_code
    answer = driver.create("u", configs={"segment.jitter.ms": "5001"})
    assert answer.error_code == InvalidConfigError.code
    assert "u" not in driver.image.topics
    assert not driver.create("u", configs={"segment.jitter.ms": "5000"}).error_code


def test_resources_of_one_request_are_checked_in_order(driver) -> None:
    """The second sees the first; a refused one has no effect on the third."""
    alters = (
        control.AlterConfigs(TOPIC, (control.ConfigChange("min.compaction.lag.ms", SET, "1000"),)),
        control.AlterConfigs(
            CLUSTER, (control.ConfigChange("log.cleaner.max.compaction.lag.ms", SET, "999"),)
        ),
        control.AlterConfigs(NODE, (control.ConfigChange("log.cleaner.min.compaction.lag.ms", SET, "2000"),)),
    )
    results = driver.ask(control.IncrementalAlterConfigsRequest(alters)).results
    assert [result.error_code for result in results] == [0, InvalidConfigError.code, 0]
    assert set(driver.image.configs) == {(2, "t"), (4, ""), (4, "1")}
    assert set(driver.image.configs[4, ""]) == {"min.insync.replicas"}


def test_lists_may_be_longer_than_other_values(driver) -> None:
    """All replicas of a topic with thousands of partitions."""
    many = ",".join(f"{number}:1" for number in range(3_000))
    name = "leader_replication_throttled_replicas"
    assert not alter(driver, TOPIC, **{name: many}).error_code
    assert driver.image.configs[2, "t"][name.replace("_", ".")] == many
    assert len(refused(driver, TOPIC, **{name: many + "," + many})) < 1_000
    refused(driver, TOPIC, message_timestamp_type="C" * 501)


def test_configs_of_a_newer_version_can_be_deleted(driver) -> None:
    """Their names are shown without values; other keys can be changed beside them."""
    driver.take((ConfigRecord(2, "t", "key.of.tomorrow", "secret"), ConfigRecord(4, "", "another", "secret")))
    assert not alter(driver, TOPIC, segment_ms=5).error_code
    assert not alter(driver, CLUSTER, log_roll_ms=5).error_code
    for resource, name in ((TOPIC, "key.of.tomorrow"), (CLUSTER, "another")):
        described = driver.ask(control.DescribeConfigsRequest((resource,), include_synonyms=True)).results[0]
        (entry,) = [entry for entry in described.entries if entry.name == name]
        assert (entry.value, entry.is_sensitive, entry.is_default) == (None, True, False)
        assert "secret" not in repr(described)
        assert alter(driver, resource, **{name.replace(".", "_"): 1}).error_code
        change = control.AlterConfigs(resource, (control.ConfigChange(name, DELETE),))
        assert not driver.ask(control.IncrementalAlterConfigsRequest((change,))).results[0].error_code
        assert name not in driver.image.configs[resource.resource_type, resource.name]


def test_configs_of_an_unregistered_node_can_be_deleted(driver) -> None:
    """Afterwards the resource does not exist."""
    assert not alter(driver, control.ConfigResource(4, "2"), background_threads=3).error_code
    driver.fence(2)
    assert driver.ask(control.UnregisterBrokerRequest(2)).error_code == 0
    gone = control.ConfigResource(4, "2")
    assert gone not in listed(driver)
    assert driver.ask(control.ListConfigResourcesRequest((4,), is_configured_only=True)).resources == (
        CLUSTER,
        gone,
    )
    assert not alter(driver, gone, background_threads=None).error_code
    assert alter(driver, gone, background_threads=3).error_code == InvalidRequestError.code


def test_topics_nodes_and_loggers_are_listed_with_or_without_configs(driver) -> None:
    """By Kafka's types: 2 topics, 4 nodes, 8 their loggers; fenced nodes are left out. Sorted."""
    assert listed(driver) == (
        TOPIC,
        NODE,
        control.ConfigResource(4, "2"),
        control.ConfigResource(8, "1"),
        control.ConfigResource(8, "2"),
    )
    assert listed(driver, 2) == (TOPIC,)
    driver.fence(2)
    assert listed(driver, 4, 8) == (NODE, control.ConfigResource(8, "1"))


def test_groups_and_subscriptions_are_listed_once_they_have_configs(driver) -> None:
    """They exist by their configs alone."""
    assert listed(driver, 16, 32) == ()
    alter(driver, GROUP, consumer_session_timeout_ms=45_000)
    alter(driver, control.ConfigResource(16, "sub"), metrics="a.")
    assert listed(driver, 16, 32) == (control.ConfigResource(16, "sub"), GROUP)


@pytest.mark.parametrize("kind", [0, 1, 3, 77])
def test_a_type_without_configs_is_an_unsupported_version(driver, kind: int) -> None:
    """Kafka's error code for a type of a newer version."""
    answer = driver.ask(control.ListConfigResourcesRequest((2, kind)))
    assert (answer.error_code, answer.resources) == (UnsupportedVersionError.code, ())


def test_only_configured_resources_are_listed_on_request(driver) -> None:
    """The cluster-wide default is always among them, because of min.insync.replicas."""
    request = control.ListConfigResourcesRequest((), is_configured_only=True)
    assert driver.ask(request).resources == (CLUSTER,)
    alter(driver, TOPIC, segment_ms=5)
    alter(driver, NODE, background_threads=5)
    assert driver.ask(request).resources == (TOPIC, CLUSTER, NODE)
    assert driver.ask(msgspec.structs.replace(request, resource_types=(4,))).resources == (CLUSTER, NODE)


def test_the_cluster_wide_min_isr_is_set_from_the_start_and_cannot_be_removed(driver) -> None:
    """The controller elects by it (KIP-966). Nodes have none of their own."""
    assert driver.image.configs[4, ""] == {"min.insync.replicas": "1"}
    assert alter(driver, CLUSTER, min_insync_replicas=None).error_code == InvalidConfigError.code
    assert alter(driver, CLUSTER, min_insync_replicas=2).error_code == 0
    assert alter(driver, CLUSTER, min_insync_replicas=None).error_code == InvalidConfigError.code
    assert alter(driver, NODE, min_insync_replicas=2).error_code == InvalidConfigError.code
    assert alter(driver, NODE, min_insync_replicas=None).error_code == InvalidConfigError.code
    assert driver.image.configs[4, ""] == {"min.insync.replicas": "2"}


def test_a_metadata_log_without_a_cluster_wide_min_isr_gets_one() -> None:
    """An earlier version wrote none for 1: the controller adds the effective value, once, whatever its own
    file says."""
    driver = Driver(**{"min.insync.replicas": 2})
    driver.take((ConfigRecord(4, "", "min.insync.replicas", None),))
    assert driver.core.decide_expiry(0) == (ConfigRecord(4, "", "min.insync.replicas", "1"),)
    driver.take(driver.core.decide_expiry(0))
    assert driver.core.decide_expiry(0) == ()


def test_the_cluster_is_described_with_the_controllers_own_file() -> None:
    """In Kafka's order: dynamic, static, default."""
    driver = Driver(**{"num.partitions": 7})
    driver.join(1)

    def response(name):
        request = control.DescribeConfigsRequest((CLUSTER,), include_synonyms=True)
        entries = driver.ask(request).results[0].entries
        (entry,) = [entry for entry in entries if entry.name == name]
        return entry.is_default, [(each.value, each.source) for each in entry.synonyms]

    assert response("num.partitions") == (True, [("7", 4), ("1", 5)])
    alter(driver, CLUSTER, num_partitions=9)
    assert response("num.partitions") == (False, [("9", 3), ("7", 4), ("1", 5)])
    assert response("background.threads") == (True, [("4", 5)])


def test_the_size_of_all_configs_is_bounded() -> None:
    """By what a node can read in a snapshot. Changes that make it smaller are always accepted."""
    driver = Driver(**{"max.config.bytes": 1_000})
    driver.join(1)
    for name in ("t", "u"):
        driver.create(name)
    name = "leader.replication.throttled.replicas"
    long = ",".join(f"{number}:1" for number in range(150))
    assert not alter(driver, TOPIC, **{name: long}).error_code
    text = refused(driver, control.ConfigResource(2, "u"), **{name: long})
    assert "the cluster has room for" in text
    answer = driver.create("v", configs={name: long})
    assert (answer.error_code, "v" in driver.image.topics) == (InvalidConfigError.code, False)
    both = tuple(
        control.AlterConfigs(control.ConfigResource(2, each), (control.ConfigChange(name, SET, "0:1"),))
        for each in "tu"
    )
    assert [each.error_code for each in driver.ask(control.IncrementalAlterConfigsRequest(both)).results] == [
        0,
        0,
    ]
    assert not alter(driver, TOPIC, **{name: long}).error_code
    driver.restart()
    driver.join(1)
    refused(driver, control.ConfigResource(2, "u"), **{name: long})
    driver.ask(control.DeleteTopicsRequest(("t",)))
    assert not alter(driver, control.ConfigResource(2, "u"), **{name: long}).error_code


def test_the_counted_size_covers_the_snapshot() -> None:
    """For any lengths of names and values."""
    driver = Driver()
    driver.join(1)
    for topic in ("t", "u" * 249):
        driver.create(topic)
        many = ",".join(f"{number}:1" for number in range(3_000))
        resource = control.ConfigResource(2, topic)
        alter(driver, resource, segment_ms=5, leader_replication_throttled_replicas=many)
    alter(driver, NODE, background_threads=5)
    configs = [each for each in image_records(driver.image) if isinstance(each, ConfigRecord)]
    assert len(configs) == 6  # with the cluster-wide min.insync.replicas
    stored = sum(len(msgspec.msgpack.encode(each)) for each in configs)
    assert stored <= ConfigSizes(driver.image, 0).used_bytes <= stored + 20 * len(configs)


# --- what the controller itself does --------------------------------------------------------------------


def test_defaults_of_new_topics_change_at_once_and_after_a_restart(driver) -> None:
    """And are reset when they are deleted."""
    assert not alter(driver, CLUSTER, num_partitions=3, default_replication_factor=2).error_code
    driver.create("a")
    driver.restart()
    driver.join(1, 2)
    driver.create("b")
    for name in ("a", "b"):
        assert [len(partition.replicas) for partition in driver.partitions(name)] == [2, 2, 2]
    assert not alter(driver, CLUSTER, num_partitions=None).error_code
    driver.create("c")
    assert len(driver.partitions("c")) == 1


def test_leader_balance_is_switched_off_and_on(driver) -> None:
    """With its interval and percentage: it does not wait for the end of the old interval."""
    driver.place("moved", (1, 2), (1, 2))
    driver.fence(1)
    driver.come_back(1, 11, is_clean=True)
    assert [p.leader for p in driver.partitions("moved")] == [2, 2]
    for number in range(2):
        driver.alter_partition("moved", number, (1, 2))
    assert not alter(driver, CLUSTER, auto_leader_rebalance_enable="false").error_code
    now_ms = driver.now_ms
    assert not driver.core.decide_balance(now_ms + 10**9)
    assert not alter(
        driver,
        CLUSTER,
        auto_leader_rebalance_enable="true",
        leader_imbalance_check_interval_seconds=2,
        leader_imbalance_per_broker_percentage=100,
    ).error_code
    assert not driver.core.decide_balance(now_ms + 2_000)
    assert not alter(driver, CLUSTER, leader_imbalance_per_broker_percentage=0).error_code
    assert len(driver.core.decide_balance(now_ms + 4_000)) == 2


def test_a_shorter_unclean_interval_applies_at_once(driver) -> None:
    """Five minutes are the default."""
    driver.place("lost", (1, 2))
    driver.alter_partition("lost", 0, (1,))
    driver.fence(1)
    assert driver.partitions("lost")[0].leader == -1
    assert not alter(driver, CLUSTER, unclean_leader_election_enable="true").error_code
    assert not driver.core.decide_unclean(driver.now_ms)
    assert not alter(driver, CLUSTER, unclean_leader_election_interval_ms=10).error_code
    assert driver.core.decide_unclean(driver.now_ms + 10)


def test_a_group_has_configs_before_it_exists(driver: Driver) -> None:
    """Set, described with the values they hide, listed, removed; the session is longer than the interval."""
    assert alter(driver, CLUSTER, group_consumer_min_session_timeout_ms=5_000).error_code == 0
    assert alter(driver, GROUP, consumer_session_timeout_ms=8_000).error_code == 0
    assert alter(driver, CLUSTER, group_consumer_session_timeout_ms=60_000).error_code == 0
    described = driver.ask(control.DescribeConfigsRequest((GROUP,), include_synonyms=True)).results[0]
    session, interval = (
        next(each for each in described.entries if each.name == f"consumer.{name}.ms")
        for name in ("session.timeout", "heartbeat.interval")
    )
    assert [(each.name, each.value, each.source) for each in session.synonyms] == [
        ("consumer.session.timeout.ms", "8000", 8),
        ("group.consumer.session.timeout.ms", "60000", 3),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert (session.value, session.is_default, interval.value, interval.is_default) == (
        "8000",
        False,
        "5000",
        True,
    )
    assert "must be longer" in refused(driver, GROUP, consumer_heartbeat_interval_ms=8_000)
    assert "must be longer" in refused(driver, GROUP, consumer_session_timeout_ms=5_000)
    assert refused(driver, GROUP, consumer_session_timeout_ms=0)
    assert driver.ask(control.ListConfigResourcesRequest((32,))).resources == (GROUP,)
    assert alter(driver, GROUP, consumer_session_timeout_ms=None).error_code == 0
    assert driver.ask(control.ListConfigResourcesRequest((32,))).resources == ()


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("session.timeout.ms", 45_000, 60_000), ("heartbeat.interval.ms", 5_000, 15_000)],
)
@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_the_configs_of_groups_are_bounded(driver: Driver, kind: str, name: str, low: int, high: int) -> None:
    """By cluster-wide keys, at once; existing values stay and do not block other changes."""
    own, least, most = (f"{prefix}{kind}.{middle}{name}" for prefix, middle in
                        (("", ""), ("group.", "min."), ("group.", "max.")))  # fmt: skip
    for value in (low, high):
        assert alter(driver, GROUP, **{own: value}).error_code == 0
    assert f"less than {least} {low}" in refused(driver, GROUP, **{own: low - 1})
    assert f"more than {most} {high}" in refused(driver, GROUP, **{own: high + 1})
    assert "must not be more" in refused(driver, CLUSTER, **{least: high + 1})
    assert alter(driver, CLUSTER, **{most: high - 1}).error_code == 0
    assert f"more than {most} {high - 1}" in refused(driver, GROUP, **{own: high + 1})
    other = {"session.timeout.ms": "heartbeat.interval.ms", "heartbeat.interval.ms": "session.timeout.ms"}
    value = 15_000 if name == "session.timeout.ms" else 45_000
    assert alter(driver, GROUP, **{f"{kind}.{other[name]}": value}).error_code == 0
    assert alter(driver, GROUP, **{own: high - 1}).error_code == 0


@pytest.mark.parametrize(
    ("own", "most", "high"),
    [
        ("streams.num.standby.replicas", "group.streams.max.standby.replicas", 2),
        ("streams.assignment.interval.ms", "group.streams.max.assignment.interval.ms", 15_000),
    ],
)
def test_the_assignment_configs_of_streams_groups_are_bounded(
    driver: Driver, own: str, most: str, high: int
) -> None:
    """Standby replicas from 0, intervals from group.streams.min.assignment.interval.ms."""
    for value in (0, high):
        assert alter(driver, GROUP, **{own: value}).error_code == 0
    assert f"more than {most} {high}" in refused(driver, GROUP, **{own: high + 1})
    assert refused(driver, GROUP, **{own: -1})
    assert alter(driver, CLUSTER, **{most: high + 1}).error_code == 0
    assert alter(driver, GROUP, **{own: high + 1}).error_code == 0


def test_the_assignment_interval_has_a_lower_bound(driver: Driver) -> None:
    """group.streams.min.assignment.interval.ms, which must not exceed the upper bound."""
    own, least = "streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms"
    assert alter(driver, CLUSTER, **{least: 500}).error_code == 0
    assert f"less than {least} 500" in refused(driver, GROUP, **{own: 499})
    assert alter(driver, GROUP, **{own: 500}).error_code == 0
    assert "must not be more" in refused(driver, CLUSTER, **{least: 15_001})


@pytest.mark.parametrize("name", ["", "g" * 2_049])
def test_a_group_id_must_not_be_empty(driver: Driver, name: str) -> None:
    answer = alter(driver, control.ConfigResource(32, name), consumer_session_timeout_ms=8_000)
    assert answer.error_code == InvalidRequestError.code


def test_client_metrics_subscriptions(driver) -> None:
    """They exist from their first config to their last; refusals have Kafka's codes."""
    sub = control.ConfigResource(16, "sub")
    assert alter(driver, sub, metrics="a.,b.", interval_ms=200, match="client_id=x.*").error_code == 0
    listed = driver.ask(control.ListConfigResourcesRequest((16,))).resources
    assert listed == (sub,)
    (described,) = driver.ask(control.DescribeConfigsRequest((sub,))).results
    assert [(entry.name, entry.value, entry.source) for entry in described.entries] == [
        ("metrics", "a.,b.", 7),
        ("interval.ms", "200", 7),
        ("match", "client_id=x.*", 7),
    ]
    for values, error in (
        ({"interval_ms": 99}, InvalidRequestError),
        ({"interval_ms": 3_600_001}, InvalidRequestError),
        ({"retention_ms": 1}, InvalidRequestError),
        ({"interval_ms": "soon"}, InvalidConfigError),
        ({"match": "client_age=3"}, InvalidConfigError),
        ({"match": "client_id=(a"}, InvalidConfigError),
        ({"match": "client_id"}, InvalidConfigError),
    ):
        assert alter(driver, sub, **values).error_code == error.code, values
    assert alter(driver, control.ConfigResource(16, ""), metrics="a").error_code == InvalidRequestError.code
    assert alter(driver, sub, metrics=None, interval_ms=None, match=None).error_code == 0
    assert driver.ask(control.ListConfigResourcesRequest((16,))).resources == ()
