"""Ids to partitions, requests to shards, and answers put together again."""

from dataclasses import replace

import pytest
from coordinator_rig import CoordinatorRig, batch_of
from headrace.coordinators.runtime.routing import MAX_ID_LENGTH
from headrace.protocol import errors
from headrace.protocol.coordinator_ids import partition_of_id, string_hash
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    HeartbeatResponse,
    ListGroupsRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from headrace.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionPartitions,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Hello World", -862545276),
        ("polygenelubricants", -(2**31)),
        ("äa", 228 * 31 + 97),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
    ],
)
def test_hash_equals_javas(text: str, value: int) -> None:
    """Over UTF-16 units, 32 bits, signed."""
    assert string_hash(text) == value


def test_partition_equals_kafkas() -> None:
    """The absolute value; the smallest integer counts as 0."""
    assert partition_of_id("hello", 50) == 22
    assert partition_of_id("Hello World", 50) == 26
    assert partition_of_id("polygenelubricants", 50) == 0


def spread(rig: CoordinatorRig, partitions: int) -> dict[int, list[str]]:
    """Some names by the partition that they live in."""
    found: dict[int, list[str]] = {index: [] for index in range(partitions)}
    for number in range(40):
        found[partition_of_id(f"g{number}", partitions)].append(f"g{number}")
    assert all(len(names) > 1 for names in found.values())
    return found


def test_request_for_several_ids_is_split_and_merged_in_order() -> None:
    """Each shard gets its own ids once; partitions that are not led or not loaded here have errors."""
    rig = CoordinatorRig(partitions=4)
    names = spread(rig, 4)
    for index in (0, 1):
        rig.lead(index)
    rig.host.put(2, batch_of(("x", 1)))
    rig.lead(2)
    rig.set(5, names[0][0])
    rig.set(6, names[1][1])
    asked = [names[1][1], names[3][0], names[0][0], names[2][0], names[1][0], names[1][1]]
    found = rig.describe(*asked).answer.groups
    assert [group.group_id for group in found] == asked
    assert [group.group_state for group in found] == ["6", "", "5", "", "None", "6"]
    assert [group.error_code for group in found] == [
        0,
        errors.NotCoordinatorError.code,
        0,
        errors.CoordinatorLoadInProgressError.code,
        0,
        0,
    ]
    assert rig.all.status()["waiting_requests"] == 0


def test_split_request_is_answered_after_its_last_part() -> None:
    rig = CoordinatorRig(partitions=2)
    rig.host.commits_at_once = False
    rig.lead(0)
    rig.lead(1)
    names = spread(rig, 2)
    rig.set(1, names[0][0])
    asked = rig.describe(names[0][0], names[1][0])
    assert asked.is_waiting
    rig.leave(1)
    assert asked.is_waiting
    rig.commit()
    assert [group.error_code for group in asked.answer.groups] == [0, 0]


def test_request_without_ids_is_answered(rig: CoordinatorRig) -> None:
    rig.lead()
    assert rig.describe().answer.groups == ()


def test_request_for_too_many_ids_is_refused() -> None:
    rig = CoordinatorRig(**{"max.request.partitions": 2})
    rig.lead()
    assert isinstance(rig.describe("a", "b", "c").answer, errors.InvalidRequestError)


def test_list_requests_go_to_all_shards() -> None:
    """A loading shard makes the response incomplete, with an error."""
    rig = CoordinatorRig(partitions=3)
    names = spread(rig, 3)
    rig.lead(0)
    rig.lead(1)
    rig.set(1, names[0][0])
    rig.set(1, names[1][0])
    listed = rig.ask(registry.LIST_GROUPS, ListGroupsRequest()).answer
    assert listed.error_code == 0
    assert [group.group_id for group in listed.groups] == [names[0][0], names[1][0]]
    rig.host.put(2, batch_of(("x", 1)))
    rig.lead(2)
    listed = rig.ask(registry.LIST_GROUPS, ListGroupsRequest()).answer
    assert listed.error_code == errors.CoordinatorLoadInProgressError.code
    assert len(listed.groups) == 2


def test_list_on_a_node_without_shards_is_empty() -> None:
    answer = CoordinatorRig().ask(registry.LIST_TRANSACTIONS, ListTransactionsRequest()).answer
    assert answer == ListTransactionsResponse(0)


@pytest.mark.parametrize("name", ["", "x" * (MAX_ID_LENGTH + 1)])
def test_invalid_ids_are_refused(rig: CoordinatorRig, name: str) -> None:
    """Empty ones where Kafka refuses them, long ones everywhere."""
    rig.lead()
    assert isinstance(rig.set(1, name).answer, errors.InvalidGroupIdError)
    (group,) = rig.ask(registry.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest((name,))).answer.groups
    assert group.error_code == errors.InvalidGroupIdError.code
    assert isinstance(
        rig.ask(registry.END_TXN, EndTxnRequest(name, 1, 1, committed=True)).answer,
        errors.InvalidRequestError,
    )
    assert isinstance(
        rig.ask(registry.INIT_PRODUCER_ID, InitProducerIdRequest(name)).answer, errors.InvalidRequestError
    )
    (described,) = rig.ask(
        registry.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest((name,))
    ).answer.transactions
    assert described.error_code == errors.InvalidRequestError.code


def test_empty_group_id_may_commit_offsets(rig: CoordinatorRig) -> None:
    """Old clients do: the group can be described, deleted and fetched."""
    rig.lead()
    (described,) = rig.ask(registry.DESCRIBE_GROUPS, DescribeGroupsRequest(("",))).answer.groups
    assert described.error_code == 0
    (fetched,) = rig.ask(registry.OFFSET_FETCH, OffsetFetchRequest((OffsetFetchGroup(""),))).answer.groups
    assert fetched.error_code != errors.InvalidGroupIdError.code


def test_each_transaction_of_a_request_has_its_own_result() -> None:
    """This node coordinates none of them."""
    asked = tuple(TransactionPartitions(name, 1, 1, ()) for name in ("a", "b"))
    answer = CoordinatorRig().ask(registry.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(asked)).answer
    assert [(each.transactional_id, each.error_code) for each in answer.transactions] == [
        ("a", errors.NotCoordinatorError.code),
        ("b", errors.NotCoordinatorError.code),
    ]


def test_partition_led_elsewhere_is_not_coordinated() -> None:
    """Also without the internal topic."""
    rig = CoordinatorRig(partitions=4)
    names = spread(rig, 4)
    rig.lead(1)
    assert rig.set(1, names[1][0]).answer == HeartbeatResponse(0, "1")
    assert isinstance(rig.set(1, names[2][0]).answer, errors.NotCoordinatorError)
    rig.image_with(0)
    assert isinstance(rig.set(1, names[1][0]).answer, errors.NotCoordinatorError)


def test_new_group_protocol_can_be_disabled(rig: CoordinatorRig) -> None:
    """By the level of its feature; classic groups continue."""
    rig.lead()
    rig.host.image = replace(rig.host.image, features={"group.version": 0})
    asked = rig.ask(registry.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(("g",)))
    assert isinstance(asked.answer, errors.UnsupportedVersionError)
    assert rig.describe("g").answer.groups[0].error_code == 0
    rig.host.image = replace(rig.host.image, features={"group.version": 1})
    asked = rig.ask(registry.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(("g",)))
    assert not isinstance(asked.answer, errors.UnsupportedVersionError)
