"""FindCoordinator, the creation of internal topics, and InitProducerId without a transactional id."""

from typing import Any

import pytest
from coordinator_rig import NODE, CoordinatorRig
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreatedTopic, CreateTopicsResponse
from headrace.protocol.messages.groups import GROUP_KEY, TRANSACTION_KEY, Coordinator, FindCoordinatorRequest
from headrace.protocol.messages.transactions import (
    AllocateProducerIdsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.model import CONSUMER_OFFSETS, NO_NODE, TRANSACTION_STATE


def find(rig: CoordinatorRig, *keys: str, key_type: int = GROUP_KEY) -> Any:
    return rig.ask(registry.FIND_COORDINATOR, FindCoordinatorRequest(key_type, keys)).answer


def test_find_coordinator_returns_the_partition_leader() -> None:
    """With its address; key by key."""
    rig = CoordinatorRig(partitions=3)
    found = find(rig, "a", "", "x" * 5_000).coordinators
    assert found[0] == Coordinator(0, "a", NODE, "h", 9092)
    assert found[1].error_code == 0
    assert found[2].error_code == errors.InvalidGroupIdError.code
    assert len(found[2].key) < 200


def test_partition_without_a_leader_has_no_coordinator(rig: CoordinatorRig) -> None:
    """The client retries."""
    rig.image_with(1, leader=NO_NODE)
    (found,) = find(rig, "a").coordinators
    assert (found.error_code, found.node_id) == (errors.CoordinatorNotAvailableError.code, -1)


@pytest.mark.parametrize(
    ("key_type", "topic", "partitions", "replicas"),
    [(GROUP_KEY, CONSUMER_OFFSETS, 50, 3), (TRANSACTION_KEY, TRANSACTION_STATE, 50, 3)],
)
def test_missing_internal_topic_is_created(
    rig: CoordinatorRig, key_type: int, topic: str, partitions: int, replicas: int
) -> None:
    """By the controller, one request at a time; until then the error is retriable."""
    rig.image_with(0)
    for _ in range(2):
        (found,) = find(rig, "a", key_type=key_type).coordinators
        assert found.error_code == errors.CoordinatorNotAvailableError.code
    ((node, api, body, _, answered),) = rig.host.asked
    assert (node, api) == (NO_NODE, registry.CREATE_TOPICS)
    (spec,) = body.topics
    assert (spec.name, spec.num_partitions, spec.replication_factor) == (topic, partitions, replicas)
    assert spec.configs["cleanup.policy"] == "compact"
    assert spec.configs["segment.bytes"] == str(100 << 20)
    assert spec.configs.get("min.insync.replicas") == ("2" if topic == TRANSACTION_STATE else None)
    answered(CreateTopicsResponse((CreatedTopic(topic),)), rig.host.at())
    find(rig, "a", key_type=key_type)  # the metadata is late: asked again, which does no harm
    rig.host.asked[-1][4](
        CreateTopicsResponse((CreatedTopic(topic, errors.TopicAlreadyExistsError.code),)), rig.host.at()
    )
    assert rig.host.notes == []


def test_failed_creation_is_reported(rig: CoordinatorRig) -> None:
    """To clients each time, to the operator once; it is retried."""
    rig.image_with(0)
    fault = CreatedTopic(CONSUMER_OFFSETS, errors.InvalidReplicationFactorError.code, "3 replicas on 1 node")
    for _ in range(2):
        find(rig, "a")
        rig.host.asked.pop()[4](CreateTopicsResponse((fault,)), rig.host.at())
    assert "3 replicas on 1 node" in find(rig, "a").coordinators[0].error_detail
    assert rig.host.notes == [
        "creating internal topic __consumer_offsets failed, it is retried: 3 replicas on 1 node"
    ]
    rig.host.asked.pop()[4](errors.NetworkError("no controller"), rig.host.at())
    assert "no controller" in find(rig, "a").coordinators[0].error_detail


def test_starting_node_creates_no_topic(rig: CoordinatorRig) -> None:
    """The topic may exist."""
    rig.image_with(0)
    rig.host.is_caught_up = False
    assert find(rig, "a").coordinators[0].error_code == errors.CoordinatorNotAvailableError.code
    assert rig.host.asked == []


def test_invalid_requests_are_refused() -> None:
    """Other key types, too many keys, no transactional id."""
    rig = CoordinatorRig(**{"max.request.partitions": 2})
    assert isinstance(find(rig, "a", key_type=2), errors.InvalidRequestError)
    assert isinstance(find(rig, "a", "b", "c"), errors.InvalidRequestError)
    (found,) = find(rig, "", key_type=TRANSACTION_KEY).coordinators
    assert found.error_code == errors.InvalidRequestError.code


def test_every_node_assigns_producer_ids(rig: CoordinatorRig) -> None:
    """From its block, fetched when the first id is needed; an unreachable controller is asked again."""

    def wanted() -> Any:
        return rig.ask(registry.INIT_PRODUCER_ID, InitProducerIdRequest()).answer

    assert isinstance(wanted(), errors.CoordinatorLoadInProgressError)
    ((node, api, body, _, answered),) = rig.host.asked
    assert (node, api) == (NO_NODE, registry.ALLOCATE_PRODUCER_IDS)
    assert (body.node_id, body.broker_epoch) == (NODE, 7)
    answered(errors.NetworkError("away"), rig.host.at())
    assert len(rig.host.asked) == 1
    rig.pass_time(1_000)
    rig.host.asked[1][4](AllocateProducerIdsResponse(0, 3_000, 1_000), rig.host.at())
    assert [wanted(), wanted()] == [InitProducerIdResponse(0, 3_000, 0), InitProducerIdResponse(0, 3_001, 0)]
