"""The admin client on a fake cluster, in virtual time."""

import asyncio
from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.admin.admin_types import EARLIEST, LATEST, MAX_TIMESTAMP, NewTopic, Resource, append
from headrace.protocol import errors
from headrace.protocol.messages.control import CreatedTopic, CreateTopicsResponse
from headrace.protocol.model import TopicPartition


async def test_topics_are_created_listed_described_grown_and_deleted(fake: Any, cluster: Any) -> None:
    """The life of two topics."""
    admin = cluster.admin()
    made = await admin.create_topics(NewTopic("a", partitions=2, configs={"x": True}), NewTopic("b"))
    assert (made["a"].partitions, made["b"].partitions) == (2, 1)
    assert fake.requests("CreateTopics")[0].topics[0].configs == {"x": "true"}
    again = await admin.create_topics(NewTopic("a"), NewTopic("c"))
    assert isinstance(again.errors["a"], errors.TopicAlreadyExistsError)
    assert again["c"].name == "c"
    assert [topic.name for topic in await admin.list_topics()] == ["a", "b", "c"]
    assert (await admin.create_partitions({"a": 4}))["a"] is None
    described = await admin.describe_topics("a", "typo")
    assert [part.partition for part in described["a"].partitions] == [0, 1, 2, 3]
    assert isinstance(described.errors["typo"], errors.UnknownTopicOrPartitionError)
    gone = await admin.delete_topics("b", "typo")
    assert list(gone.errors) == ["typo"]
    assert [topic.name for topic in await admin.list_topics()] == ["a", "c"]


@pytest.mark.parametrize("how_often", [1, 10_000])
async def test_admin_sees_its_own_changes(fake: Any, cluster: Any, how_often: int) -> None:
    """The metadata of the next node may lag: the request is retried, but not for ever."""
    admin = cluster.admin()
    await admin.create_topics(NewTopic("a"))
    fake.fail_next("Metadata", Fault(behind=True), how_often)
    described = await admin.describe_topics("a")
    if how_often == 1:
        assert described["a"].partitions[0].partition == 0
        assert [topic.name for topic in await admin.list_topics()] == ["a"]
    else:
        assert isinstance(described.errors["a"], errors.UnknownTopicOrPartitionError)
        asked = len(fake.requests("Metadata"))
        assert await admin.list_topics() == []
        assert len(fake.requests("Metadata")) == asked + 1, "the remaining node is of another cluster"


async def test_validate_only_creates_nothing(fake: Any, cluster: Any) -> None:
    """It only checks."""
    admin = cluster.admin()
    await admin.create_topics(NewTopic("a"), validate_only=True)
    assert fake.topics == {}


async def test_configs_are_described_and_changed(fake: Any, cluster: Any) -> None:
    """Set, delete and append; a plain string names a topic."""
    fake.create("t", configs={"old": "1"})
    admin = cluster.admin()
    changed = await admin.alter_configs({"t": {"new": 5, "old": None}, Resource.topic("typo"): {"x": 1}})
    assert list(changed.errors) == [Resource.topic("typo")]
    values = (await admin.describe_configs("t"))[Resource.topic("t")]
    assert {name: value.value for name, value in values.items()} == {"new": "5"}
    await admin.alter_configs({"t": {"list": append(["a", "b"])}})
    change = fake.requests("IncrementalAlterConfigs")[-1].resources[0].changes[0]
    assert (change.operation, change.value) == (2, "a,b")
    with pytest.raises(errors.ConfigError, match="topic, broker, broker-loggers, client-metrics, group"):
        await admin.describe_configs(Resource("cluster", "g"))


async def test_an_absent_node_fails_alone(fake: Any, cluster: Any) -> None:
    """It checks the key stores of its listeners itself; the topic's change was made."""
    fake.create("t")
    absent = Resource("broker", "99")
    stores = {"listener.name.clients.ssl.keystore.location": "/new.pem"}
    done = await cluster.admin().alter_configs({"t": {"new": 5}, absent: stores}, timeout=5)
    assert list(done.errors) == [absent]
    assert isinstance(done.errors[absent], errors.KafkaError)


async def test_offsets_by_spec_and_time(fake: Any, cluster: Any) -> None:
    """Earliest, latest, largest timestamp, a time."""
    fake.create("t", 2)
    fake.put("t", 0, b"1", timestamp=500)
    fake.put("t", 0, b"2", timestamp=100)
    admin, tp = cluster.admin(), TopicPartition("t", 0)
    found = [
        (await admin.list_offsets({tp: spec}))[tp].offset
        for spec in (EARLIEST, LATEST, MAX_TIMESTAMP, 400, 501)
    ]
    assert found == [0, 2, 0, 0, -1]


@pytest.mark.fake_cluster(nodes=3)
async def test_the_cluster_is_described(fake: Any, cluster: Any) -> None:
    """Id, controller, nodes that are up."""
    fake.stop_node(1)
    described = await cluster.admin().describe_cluster()
    assert (described.cluster_id, described.controller_id) == ("fake", 100)
    assert [node.node_id for node in described.nodes] == [0, 2]


async def test_missing_controller_is_retried(fake: Any, cluster: Any) -> None:
    """NOT_CONTROLLER per item twice, then success; only failed items are retried."""
    answers = iter([41, 41, 0])
    fake._do_CreateTopics = lambda body: CreateTopicsResponse(
        tuple(CreatedTopic(spec.name, next(answers) if spec.name == "a" else 0) for spec in body.topics)
    )
    made = await cluster.admin().create_topics(NewTopic("a"), NewTopic("b"))
    assert made.errors == {}
    assert [len(body.topics) for body in fake.requests("CreateTopics")] == [2, 1, 1]


async def test_retries_end_at_the_timeout(fake: Any, cluster: Any) -> None:
    """Per item, with the cause, within the timeout of the call; and when no node responds."""
    fake._do_CreateTopics = lambda body: CreateTopicsResponse(
        tuple(CreatedTopic(spec.name, 41, "no controller") for spec in body.topics)
    )
    admin = cluster.admin()
    before = asyncio.get_running_loop().time()
    made = await admin.create_topics(NewTopic("a"), timeout=3)
    assert isinstance(made.errors["a"], errors.ApiTimeoutError)
    assert isinstance(made.errors["a"].__cause__, errors.NotControllerError)
    assert asyncio.get_running_loop().time() - before < 3.1
    fake.stop_node(0)
    with pytest.raises(errors.ApiTimeoutError):
        await admin.list_topics(timeout=2)


async def test_invalid_arguments_are_errors(fake: Any, cluster: Any) -> None:
    """A plain string for NewTopic, the same topic twice, a closed client."""
    admin = cluster.admin()
    with pytest.raises(TypeError, match="NewTopic"):
        await admin.create_topics("a")
    with pytest.raises(ValueError, match="twice"):
        await admin.delete_topics("a", "a")
    await admin.close()
    with pytest.raises(errors.ClosedError):
        await admin.list_topics()


async def test_explicit_assignments_replace_counts(fake: Any, cluster: Any) -> None:
    """Replica lists per partition, as in Kafka's request: counts are -1 then."""
    await cluster.admin().create_topics(NewTopic("a", partitions=9, assignments={1: (2,), 0: (1,)}))
    spec = fake.requests("CreateTopics")[0].topics[0]
    assert (spec.num_partitions, spec.replication_factor) == (-1, -1)
    assert [(item.partition, item.replicas) for item in spec.assignments] == [(0, (1,)), (1, (2,))]


async def test_retry_after_a_lost_response_succeeds(fake: Any, cluster: Any) -> None:
    """Each change is executed and its response lost: the retry finds the target state."""
    admin = cluster.admin()
    fake.fail_next("CreateTopics", Fault(lost_reply=True))
    made = await admin.create_topics(NewTopic("a", partitions=2, configs={"x": 1}), NewTopic("b"))
    assert (made["a"].partitions, made["a"].topic_id) == (2, fake.topics["a"].topic_id)
    assert made["b"].topic_id == fake.topics["b"].topic_id
    fake.fail_next("CreatePartitions", Fault(lost_reply=True))
    assert (await admin.create_partitions({"a": 4}))["a"] is None
    fake.fail_next("DeleteTopics", Fault(lost_reply=True))
    (await admin.delete_topics("a")).raise_for_errors()
    assert list(fake.topics) == ["b"]


@pytest.mark.parametrize("wanted", [NewTopic("a", partitions=3), NewTopic("a", configs={"x": 2})])
async def test_existing_topic_with_other_settings_is_an_error(
    fake: Any, cluster: Any, wanted: NewTopic
) -> None:
    """It differs in partitions or configs, or no response was lost."""
    admin = cluster.admin()
    fake.create("a", 2, configs={"x": "1"})
    fake.fail_next("CreateTopics", Fault(lost_request=True))
    made = await admin.create_topics(wanted)
    assert isinstance(made.errors["a"], errors.TopicAlreadyExistsError)
    same = await admin.create_topics(NewTopic("a", partitions=2, configs={"x": 1}))
    assert isinstance(same.errors["a"], errors.TopicAlreadyExistsError)
    missing = await admin.delete_topics("typo")
    assert isinstance(missing.errors["typo"], errors.UnknownTopicOrPartitionError)
    shrunk = await admin.create_partitions({"a": 2})
    assert isinstance(shrunk.errors["a"], errors.InvalidPartitionsError)
