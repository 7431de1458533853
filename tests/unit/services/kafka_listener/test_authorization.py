"""Every api that Kafka clients use, tried with nothing, with one right less than needed, and with just
enough: the node's handlers get nothing that the client may not use. Made from the table of required
operations."""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from authorization_kit import AnyRight, named
from guarded_plane import NAME, TOPIC_ID, GuardedPlane, node_image
from headrace.protocol.messages.control import DescribeConfigsResponse, DescribedConfigs
from headrace.protocol.messages.data import MetadataResponse
from headrace.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    OffsetFetchResponse,
    OffsetsOfGroup,
)
from headrace.protocol.messages.streams_groups import StreamsGroupHeartbeatRequest
from headrace.protocol.security.acls import CLUSTER_NAME, ResourceType
from headrace.protocol.security.required_operations import REQUIRED, Need, Scope
from headrace.runtime.authorization.access import refusal
from headrace.services.kafka_listener.calls import KafkaApi
from headrace.services.kafka_listener.served import SERVED
from kafka_calls import FakePlane
from kafka_listener_rig import NODE
from kafka_wire import answer_of

NAMES = {ResourceType.CLUSTER: CLUSTER_NAME, ResourceType.GROUP: "a-group"}
NAMES |= {ResourceType.TRANSACTIONAL_ID: "a-transaction", ResourceType.USER: "User:bob"}
T = ResourceType.TOPIC
# SASL: handlers of the connection.
ELSEWHERE = {17, 36}
APIS = [api for api in SERVED.values() if api.key not in ELSEWHERE]
# What the requirements of one request depend on: values of fields, and the types and scopes that are left.
VARIANTS: dict[int, list[tuple[dict[str, Any], set[ResourceType]]]] = {
    1: [({"session_id": 0, "session_epoch": -1}, {T})],
    10: [
        ({"key_type": number, "key": NAMES[kind], "coordinator_keys": NAMES[kind]}, {kind})
        for number, kind in ((0, ResourceType.GROUP), (1, ResourceType.TRANSACTIONAL_ID))
    ],
    22: [({}, {ResourceType.TRANSACTIONAL_ID}), ({"transactional_id": None}, {ResourceType.CLUSTER})],
    **{
        key: [
            ({"resource_type": 2}, {T}),
            ({"resource_type": 4, "resource_name": "1"}, {ResourceType.CLUSTER}),
            ({"resource_type": 32, "resource_name": NAMES[ResourceType.GROUP]}, {ResourceType.GROUP}),
        ]
        for key in (32, 33, 44)
    },
}
EVERYTHING = set(ResourceType)
FIELDS = {
    "member_id": "a-member",
    "owner_principal_type": "User",
    "owner_principal_name": "bob",
    **dict.fromkeys(("partition_index", "partition", "index", "partition_indexes"), 0),
    **dict.fromkeys(("group_id", "groups", "groups_names", "group_ids"), NAMES[ResourceType.GROUP]),
    **dict.fromkeys(
        ("transactional_id", "transactional_ids", "v3_and_below_transactional_id"),
        NAMES[ResourceType.TRANSACTIONAL_ID],
    ),
}


def variants_of(api: KafkaApi) -> list[tuple[int, dict[str, Any], list[Need]]]:
    """Versions, values of fields and requirements."""
    found = []
    for version, (values, kinds) in itertools.product(
        {api.low, api.high}, VARIANTS.get(api.key, [({}, EVERYTHING)])
    ):
        if api.key == 10 and not version and values["key_type"]:
            continue  # the first version is for groups alone
        values = FIELDS | values
        values |= {"name": None} if api.key == 20 and version >= 6 else {}
        needs = [
            need
            for need in REQUIRED[api.key].needs
            if need.right.resource_type in kinds
            and not (need.scope is Scope.SHOWN and api.key not in (16, 66))
            and "members" not in need.when
            and need.scope is not Scope.CREATED
        ]
        # The first versions make tokens for the requester alone.
        found.append((version, values, [] if api.key == 38 and version < 3 else needs))
    return found


def rights_for(needs: Iterable[Need]) -> set[AnyRight]:
    return {(*need.right, name_for(need)) for need in needs}


def name_for(need: Need) -> str:
    return NAMES.get(need.right.resource_type, NAME)


def asked_with(api: KafkaApi, version: int, values: dict[str, Any], rights: Iterable[AnyRight]) -> Any:
    plane = GuardedPlane(rights)
    return started(plane, api, version, values)


def started(plane: FakePlane, api: KafkaApi, version: int, values: dict[str, Any]) -> FakePlane:
    """Start a call. The node describes configs for itself before it replaces them."""
    plane.start(api.key, version, **values)
    if api.key == 33:
        asked = plane.asked.pop()
        assert asked.peer.identity.is_server
        resource = asked.body.resources[0]
        asked.answered(DescribeConfigsResponse((DescribedConfigs(resource),)), ())
    return plane


every_api = pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])


@every_api
def test_clients_need_exactly_the_rights_of_the_table(api: KafkaApi) -> None:
    """In the lowest and the highest version."""
    for version, values, needs in variants_of(api):
        enough = rights_for(needs)
        check_runs(api, version, values, enough)
        for need in needs:
            check_refused(api, version, values, need, enough - rights_for([need]))
        if needs:
            check_refused(api, version, values, needs[0], set())


def check_runs(api: KafkaApi, version: int, values: dict[str, Any], enough: set[AnyRight]) -> None:
    """As without an authorizer."""
    free = FakePlane(node_image())
    started(free, api, version, values)
    plane = asked_with(api, version, values, enough)
    bodies = [_as_sent(each.body) for each in plane.asked]
    assert bodies == [each.body for each in free.asked], (version, values)
    assert len(plane.sent) == len(free.sent)


def _as_sent(body: Any) -> Any:
    """Without what the check of a member's heartbeat adds for the coordinator."""
    if isinstance(body, StreamsGroupHeartbeatRequest):
        return msgspec.structs.replace(body, client=None)
    if isinstance(body, ConsumerGroupHeartbeatRequest):
        return msgspec.structs.replace(body, reader=None)
    return body


def check_refused(
    api: KafkaApi, version: int, values: dict[str, Any], need: Need, rights: set[AnyRight]
) -> None:
    """Nothing of the resource is asked, and the response has the error of its type."""
    plane = asked_with(api, version, values, rights)
    if need.scope is Scope.SHOWN:
        assert len(plane.asked) == 1  # what the client sees is tested with the responses
        return
    for asked in plane.asked:
        assert not {name_for(need), TOPIC_ID.bytes} & set(named(asked.body))
    if api.key in (3, 75):  # nodes are described to everyone
        plane.answer(MetadataResponse("c", NODE, 5, (), ()))
    elif plane.asked:  # the offsets of no topic
        plane.answer(OffsetFetchResponse((OffsetsOfGroup(0, NAMES[ResourceType.GROUP]),)))
    elif plane.is_hung_up:
        return
    code = refusal(need.right.resource_type).code
    if api.key in (38, 65):
        assert code.to_bytes(2, "big") in plane.sent[0]
        return
    (sent,) = plane.sent
    if (api.key, version) == (35, api.low):  # no version before 3 has an error
        assert answer_of(api.key, version, sent[4:])[1].results == ()
        return
    assert code in codes(answer_of(api.key, version, sent[4:])[1]), (version, values, need)


def codes(answer: Any) -> set[int]:
    """All error codes in a response."""
    found: set[int] = set()
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.metadata.get("kafka_type") == "error_code":
            found.add(int(value))
        for item in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(item):
                found |= codes(item)
    return found
