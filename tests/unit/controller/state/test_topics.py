"""Creation, new partitions and deletion of topics: every rule, and the records."""

import pytest
from controller_kit import Driver
from headrace.protocol import errors
from headrace.protocol.messages import control


@pytest.fixture
def driver() -> Driver:
    """Three active nodes."""
    driver = Driver()
    driver.join(1, 2, 3)
    return driver


def assignments(*replicas, first=0):
    return tuple(control.ReplicaAssignment(number, nodes) for number, nodes in enumerate(replicas, first))


def grow(driver, *growths, **facts):
    return driver.ask(control.CreatePartitionsRequest(growths, **facts)).results


def test_a_topic_is_created_with_leaders(driver) -> None:
    """Six partitions over three nodes: two leaders each, visible at the offset of the response."""
    reply = driver.ask(control.CreateTopicsRequest((control.NewTopicSpec("t", 6),)))
    (made,) = reply.topics
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 6, 1)
    assert reply.metadata_offset == driver.image.offset
    assert driver.image.topic_names == {made.topic_id: "t"}
    assert len(made.topic_id) == 16
    assert made.topic_id[6] >> 4 == 4, "a UUID of version 4"
    partitions = driver.partitions("t")
    assert sorted(p.leader for p in partitions) == [1, 1, 2, 2, 3, 3]
    assert all(p.isr == p.replicas == (p.leader,) for p in partitions)
    assert {(p.leader_epoch, p.partition_epoch) for p in partitions} == {(0, 0)}


def test_topic_defaults_are_cluster_configs() -> None:
    """-1 uses num.partitions and default.replication.factor."""
    driver = Driver(**{"num.partitions": 5})
    driver.join(1)
    assert driver.create("t").num_partitions == 5


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", errors.InvalidTopicError),
        (".", errors.InvalidTopicError),
        ("..", errors.InvalidTopicError),
        ("x" * 250, errors.InvalidTopicError),
        ("a/b", errors.InvalidTopicError),
        ("../../etc", errors.InvalidTopicError),
        ("a\0b", errors.InvalidTopicError),
        ("ä", errors.InvalidTopicError),
        ("a\n", errors.InvalidTopicError),
        ("__cluster_metadata", errors.InvalidTopicError),
        ("a_b.c", errors.InvalidTopicError),  # collides with a.b_c
        ("a.b_c", errors.TopicAlreadyExistsError),
    ],
)
def test_invalid_names(driver, name, error) -> None:
    """Names that could leave the log dir, that collide, or that exist."""
    driver.create("a.b_c")
    before = driver.image
    assert driver.create(name).error_code == error.code
    assert driver.image is before


def test_names_collide_within_one_request(driver) -> None:
    """'a.b' and 'a_b' in one request: the second is refused. A repeated name is refused twice."""
    specs = (
        control.NewTopicSpec("a.b"),
        control.NewTopicSpec("a_b"),
        control.NewTopicSpec("c"),
        control.NewTopicSpec("c"),
    )
    answers = driver.ask(control.CreateTopicsRequest(specs)).topics
    codes = [answer.error_code for answer in answers]
    assert codes == [
        0,
        errors.InvalidTopicError.code,
        errors.InvalidRequestError.code,
        errors.InvalidRequestError.code,
    ]
    assert list(driver.image.topics) == ["a.b"]


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"num_partitions": 0}, errors.InvalidPartitionsError),
        ({"num_partitions": -2}, errors.InvalidPartitionsError),
        ({"num_partitions": 1_000_000}, errors.InvalidPartitionsError),
        ({"replication_factor": 0}, errors.InvalidReplicationFactorError),
        ({"replication_factor": -2}, errors.InvalidReplicationFactorError),
        ({"replication_factor": 4}, errors.InvalidReplicationFactorError),
        ({"replication_factor": 32_767}, errors.InvalidReplicationFactorError),
        ({"configs": {"no.such.key": "1"}}, errors.InvalidConfigError),
        ({"configs": {"max.message.bytes": "much"}}, errors.InvalidConfigError),
        ({"configs": {"segment.bytes": "-1"}}, errors.InvalidConfigError),
        ({"num_partitions": 1, "assignments": assignments((1,))}, errors.InvalidRequestError),
        ({"replication_factor": 1, "assignments": assignments((1,))}, errors.InvalidRequestError),
        ({"assignments": assignments(())}, errors.InvalidReplicaAssignmentError),
        ({"assignments": assignments((1, 1))}, errors.InvalidReplicaAssignmentError),
        ({"assignments": assignments((9,))}, errors.InvalidReplicaAssignmentError),
        ({"assignments": assignments((1,), first=1)}, errors.InvalidReplicaAssignmentError),
        ({"assignments": assignments((1,)) * 2}, errors.InvalidReplicaAssignmentError),
        ({"assignments": assignments((1,), (1, 2))}, errors.InvalidReplicaAssignmentError),
        ({"replication_factor": 32_768}, errors.InvalidReplicationFactorError),
    ],
)
def test_invalid_topics(driver, spec, error) -> None:
    """Each breaks one rule; no record is written."""
    before = driver.image
    answer = driver.create("t", **spec)
    assert answer.error_code == error.code
    assert answer.error_detail
    assert driver.image is before


def test_one_invalid_topic_fails_alone(driver) -> None:
    """The middle one of three."""
    specs = (control.NewTopicSpec("a"), control.NewTopicSpec("b", 0), control.NewTopicSpec("c"))
    answers = driver.ask(control.CreateTopicsRequest(specs)).topics
    assert [bool(answer.error_code) for answer in answers] == [False, True, False]
    assert sorted(driver.image.topics) == ["a", "c"]


def test_validate_only_records_nothing(driver) -> None:
    """The response has no topic id."""
    before = driver.image
    request = control.CreateTopicsRequest(
        (control.NewTopicSpec("t", 3), control.NewTopicSpec("u", 0)), validate_only=True
    )
    reply = driver.ask(request)
    assert [(a.error_code, a.num_partitions, a.topic_id) for a in reply.topics] == [
        (0, 3, b""),
        (errors.InvalidPartitionsError.code, -1, b""),
    ]
    assert reply.metadata_offset == before.offset
    assert driver.image is before


def test_an_assignment_is_kept(driver) -> None:
    """Partitions in any order get their replicas."""
    answer = driver.create("t", assignments=tuple(reversed(assignments((3,), (1,), (1,)))))
    assert answer.num_partitions == 3
    assert [p.replicas for p in driver.partitions("t")] == [(3,), (1,), (1,)]


def test_fenced_nodes_get_no_replicas(driver) -> None:
    """With all nodes fenced, topics cannot be placed."""
    for _ in range(4):
        driver.wait(400)
        driver.heartbeat(2)
        driver.heartbeat(3)
    driver.create("t", num_partitions=8)
    assert {p.leader for p in driver.partitions("t")} == {2, 3}
    assert (
        driver.create("u", assignments=assignments((1,))).error_code
        == errors.InvalidReplicaAssignmentError.code
    )
    driver.wait(1500)
    answer = driver.create("u")
    assert answer.error_code == errors.InvalidReplicationFactorError.code
    assert "0 of them active" in answer.error_detail


def test_limits_of_request_and_cluster() -> None:
    """At most 10 partitions per request and 15 in all; a deletion makes room."""
    driver = Driver(**{"max.partitions.per.request": 10, "max.partitions": 15, "max.topics.per.request": 3})
    driver.join(1)
    specs = (control.NewTopicSpec("a", 6), control.NewTopicSpec("b", 6), control.NewTopicSpec("c", 4))
    codes = [answer.error_code for answer in driver.ask(control.CreateTopicsRequest(specs)).topics]
    assert codes == [0, errors.InvalidPartitionsError.code, 0]
    assert driver.create("d", num_partitions=6).error_code == errors.InvalidPartitionsError.code
    assert grow(driver, control.PartitionGrowth("a", 12))[0].error_code == errors.InvalidPartitionsError.code
    driver.ask(control.DeleteTopicsRequest(("a",)))
    assert driver.create("d", num_partitions=6).error_code == 0
    with pytest.raises(errors.InvalidRequestError, match="at most 3"):
        driver.ask(control.CreateTopicsRequest(specs + specs))
    with pytest.raises(errors.InvalidRequestError, match="at most 3"):
        driver.ask(control.DeleteTopicsRequest(("a",) * 4))
    with pytest.raises(errors.InvalidRequestError, match="at most 3"):
        grow(driver, *[control.PartitionGrowth("a", 2)] * 4)


def test_new_partitions(driver) -> None:
    """From four to six: the old ones stay, the new ones go to the least loaded nodes."""
    driver.create("t", num_partitions=4)
    before = driver.partitions("t")
    assert grow(driver, control.PartitionGrowth("t", 6))[0].error_code == 0
    assert driver.partitions("t")[:4] == before
    assert sorted(p.leader for p in driver.partitions("t")) == [1, 1, 2, 2, 3, 3]


def test_new_partitions_with_an_assignment(driver) -> None:
    """They are numbered on from the old ones."""
    driver.create("t", num_partitions=2)
    growth = control.PartitionGrowth("t", 4, assignments((3,), (3,), first=2))
    assert grow(driver, growth)[0].error_code == 0
    assert [p.replicas for p in driver.partitions("t")[2:]] == [(3,), (3,)]


@pytest.mark.parametrize(
    ("growth", "error"),
    [
        (control.PartitionGrowth("none", 3), errors.UnknownTopicOrPartitionError),
        (control.PartitionGrowth("t", 2), errors.InvalidPartitionsError),
        (control.PartitionGrowth("t", 1), errors.InvalidPartitionsError),
        (control.PartitionGrowth("t", -1), errors.InvalidPartitionsError),
        (control.PartitionGrowth("t", 2**31), errors.InvalidPartitionsError),
        (control.PartitionGrowth("t", 4, assignments((1,), first=2)), errors.InvalidReplicaAssignmentError),
        (control.PartitionGrowth("t", 3, assignments((1,), first=0)), errors.InvalidReplicaAssignmentError),
        (control.PartitionGrowth("t", 3, assignments((9,), first=2)), errors.InvalidReplicaAssignmentError),
        (control.PartitionGrowth("t", 3, assignments((1, 2), first=2)), errors.InvalidReplicaAssignmentError),
    ],
)
def test_invalid_new_partitions(driver, growth, error) -> None:
    """Unknown topic, not more partitions, too many, or an invalid assignment; no record is written."""
    driver.create("t", num_partitions=2)
    before = driver.image
    assert grow(driver, growth)[0].error_code == error.code
    assert driver.image is before


def test_validated_and_repeated_new_partitions(driver) -> None:
    """A validation writes no record; a repeated topic is refused."""
    driver.create("t")
    before = driver.image
    assert grow(driver, control.PartitionGrowth("t", 3), validate_only=True)[0].error_code == 0
    twice = grow(driver, control.PartitionGrowth("t", 3), control.PartitionGrowth("t", 4))
    assert {result.error_code for result in twice} == {errors.InvalidRequestError.code}
    assert driver.image is before


def test_deletion(driver) -> None:
    """One topic with its configs, an unknown one, and one named twice; a later topic has a new id."""
    old = driver.create("t", configs={"min.insync.replicas": "1"}).topic_id
    driver.create("u")
    reply = driver.ask(control.DeleteTopicsRequest(("t", "none", "u", "u")))
    assert [result.error_code for result in reply.results] == [
        0,
        errors.UnknownTopicOrPartitionError.code,
        errors.InvalidRequestError.code,
        errors.InvalidRequestError.code,
    ]
    assert list(driver.image.topics) == ["u"]
    assert (2, "t") not in driver.image.configs
    assert driver.create("t").topic_id != old


def test_placement_differs_between_topics() -> None:
    """Topics of one partition have different leaders."""
    driver = Driver()
    driver.join(1, 2, 3)
    leaders = set()
    for number in range(12):
        driver.create(f"t{number}")
        leaders.add(driver.partitions(f"t{number}")[0].leader)
    assert leaders == {1, 2, 3}
