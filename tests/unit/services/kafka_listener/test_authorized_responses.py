"""What responses to Kafka clients show of topics that the client may not know, and of its rights."""

import dataclasses
from typing import Any

import pytest
from authorization_kit import AnyRight
from guarded_plane import NAME, TOPIC_ID, GuardedPlane
from headrace.protocol.messages.control import CreatedTopic, CreateTopicsResponse
from headrace.protocol.messages.data import (
    DeleteRecordsResponse,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from headrace.protocol.messages.groups import OffsetDeleteResponse
from headrace.protocol.security.acls import CLUSTER_NAME, AclOperation, Resource, ResourceType
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.runtime.authorization.access import refusal
from headrace.services.kafka_listener.served import SERVED
from kafka_listener_rig import NODE
from kafka_wire import answer_of, example_request

T = ResourceType.TOPIC
GONE, GROUP = "no-such-topic", "a-group"
METADATA, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, OFFSET_DELETE = 3, 19, 20, 21, 47
REFUSED = refusal(T).code


def call(api_key: int, version: int, rights: set[AnyRight], **values: Any) -> GuardedPlane:
    """A request of a client with these rights, started."""
    plane = GuardedPlane(rights)
    plane.start(api_key, version, **values)
    return plane


def metadata(name: str, code: int = 0) -> MetadataResponse:
    """One topic, as the node describes it."""
    partitions = () if code else (PartitionMetadata(0, NODE, 0, (NODE,), (NODE,)),)
    topic = TopicMetadata(code, name, b"" if code else TOPIC_ID.bytes, False, partitions)
    return MetadataResponse("c", NODE, 5, (), (topic,))


@pytest.mark.parametrize(("knows", "code"), [(True, 3), (False, REFUSED)])
def test_a_missing_topic_looks_like_a_secret_one(knows: bool, code: int) -> None:
    """To clients that may not use it; and an unknown partition of one like the topic."""
    plane = call(DELETE_RECORDS, 2, {(AclOperation.DELETE, T, GONE)} if knows else set(), name=GONE)
    plane.answer(DeleteRecordsResponse(()))
    (topic,) = plane.only_response(DELETE_RECORDS, 2).topics
    assert int(topic.partitions[0].error_code) == code
    of_group: set[AnyRight] = {(AclOperation.DELETE, ResourceType.GROUP, GROUP)}
    for name in (GONE, NAME):
        rights = of_group | ({(AclOperation.READ, T, name)} if knows else set())
        plane = call(OFFSET_DELETE, 0, rights, group_id=GROUP, name=name, partition_index=9)
        plane.answer(OffsetDeleteResponse(0))
        (found,) = plane.only_response(OFFSET_DELETE, 0).topics
        assert int(found.partitions[0].error_code) == code


class Describers:
    """Users who may describe these topics. Fulfils Authorizer."""

    is_ready = True

    def __init__(self, topics: dict[str, set[str]]) -> None:
        self.topics = topics

    def allows(self, identity: Identity, operation: AclOperation, resource: Resource) -> bool:
        return operation == AclOperation.DESCRIBE and resource.name in self.topics[identity.principal.name]

    def allows_some(self, *_: Any) -> bool:
        return False


def test_cached_responses_are_not_shared_between_principals() -> None:
    """Equal requests for all topics have the answers of their clients' rights."""
    plane = GuardedPlane([])
    plane.gate.authorizer = Describers({"alice": {NAME}, "bob": set()})
    seen = []
    for name in ("alice", "bob", "alice"):
        body = example_request(METADATA, 12)
        made = plane.call(SERVED[METADATA], 12, dataclasses.replace(body, topics=None))
        made.peer.identity = Identity(user(name))
        made.start()
        plane.answer(metadata(NAME))
        found = answer_of(METADATA, 12, plane.sent.pop()[4:])[1]
        seen.append([topic.name for topic in found.topics])
    assert seen == [[NAME], [], [NAME]]
    assert len(plane.ready) == 0


def test_a_missing_topic_is_made_only_with_the_right_to_create_it() -> None:
    """Without it the client learns that it may not."""
    plane = call(METADATA, 9, {(AclOperation.DESCRIBE, T, GONE)}, name=GONE, allow_auto_topic_creation=True)
    plane.answer(metadata(GONE, 3))
    assert {asked.api.name for asked in plane.asked} == {"Metadata"}
    plane.answer(metadata(GONE, 3))
    (topic,) = plane.only_response(METADATA, 9).topics
    assert int(topic.error_code) == REFUSED


@pytest.mark.parametrize("describes", [True, False])
def test_a_topic_that_may_not_be_deleted_keeps_its_name_and_id(describes: bool) -> None:
    """By its id the client learns the name only with DESCRIBE, and by its name no id."""
    rights: set[AnyRight] = {(AclOperation.DESCRIBE, T, NAME)} if describes else set()
    for values, name, topic_id in (
        ({"name": None, "topic_id": TOPIC_ID}, NAME if describes else None, TOPIC_ID),
        ({"name": NAME, "topic_id": None}, NAME, None),
    ):
        plane = call(DELETE_TOPICS, 6, rights, **values)
        (found,) = plane.only_response(DELETE_TOPICS, 6).responses
        assert (int(found.error_code), found.name, found.topic_id) == (REFUSED, name, topic_id)


def test_the_operations_allowed_are_those_of_the_client() -> None:
    """On topics, and on the cluster for those who may describe it."""
    rights: set[AnyRight] = {
        (AclOperation.DESCRIBE, T, NAME),
        (AclOperation.READ, T, NAME),
        (AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),
    }
    describes: AnyRight = (AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    for more, bits in ((set(), 0), ({describes}, 1 << AclOperation.ALTER | 1 << AclOperation.DESCRIBE)):
        plane = call(
            METADATA,
            9,
            rights | more,
            name=NAME,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        plane.answer(metadata(NAME))
        found = plane.only_response(METADATA, 9)
        assert found.cluster_authorized_operations == bits
        assert found.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8


def test_configs_of_a_new_topic_need_a_right_of_their_own() -> None:
    """It is created all the same, as in Kafka."""
    creates: set[AnyRight] = {(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)}
    plane = call(CREATE_TOPICS, 7, creates, name=NAME, validate_only=False)
    plane.answer(CreateTopicsResponse((CreatedTopic(NAME),)))
    assert len(plane.asked) == 1, "configs were described without the right"
    (topic,) = plane.only_response(CREATE_TOPICS, 7).topics
    assert (int(topic.error_code), int(topic.topic_config_error_code)) == (0, REFUSED)
