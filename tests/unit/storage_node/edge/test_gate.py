"""Requests in front of a node's core: nothing is changed by what is refused, and responses are complete."""

from typing import Any

import msgspec
import pytest
from authorization_kit import IMAGE, Rights
from core_rig import CoreRig, FakePeer, FakeReplies, FakeRequest
from headrace.protocol.errors import KafkaError, TransactionalIdAuthorizationFailedError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreateTopicsRequest, NewTopicSpec
from headrace.protocol.messages.data import FetchPartition, FetchRequest, ProducePartition, ProduceRequest
from headrace.protocol.messages.envelope import Api
from headrace.protocol.security.acls import AclOperation, ResourceType
from headrace.protocol.security.identity import Identity
from headrace.runtime.authorization.gate import Gate
from headrace.storage_node.edge.forwarder_io import _body_of
from headrace.storage_node.edge.gate import ReducedRequest, admitted
from headrace.storage_node.edge.gateway import BothPlanes, OwnRequest
from headrace.storage_node.edge.request_meter import RequestMeter
from node_rig import WALL_MS, batch, values_of

T = ResourceType.TOPIC
REFUSED = 29


def both_planes() -> BothPlanes:
    return BothPlanes(FakeReplies(), RequestMeter(lambda: 0.0))


class GuardedCore(CoreRig):
    """A node core behind a gate."""

    def __init__(self, *rights: tuple[AclOperation, ResourceType, str]) -> None:
        super().__init__()
        self.gate = self.core.gate
        self.gate.authorizer = Rights(rights)
        self.replies = both_planes()
        self.core._replies = self.replies
        for handler in (self.core._handlers.produce, self.core._handlers.fetch):
            handler._replies = self.replies
        self.open, self.secret = self.topic("open"), self.topic("secret")

    def send(self, api: Api, body: Any, frames: Any = (), identity: Identity = Identity()) -> FakeRequest:  # noqa: B008
        request = FakeRequest(api, body, frames, FakePeer())
        request.peer.identity = identity
        try:
            left = admitted(self.gate, request, self.replies)
        except KafkaError as error:
            self.replies.reply_error(request, error)
            return request
        if left is not None:
            self.core.handle(left, self.now_ms, WALL_MS)
            self.check()
        return request

    def write(self, *topics: bytes, acks: int = -1, transaction: str | None = None) -> FakeRequest:
        entries = tuple(ProducePartition(topic, 0) for topic in topics)
        frames = [batch(b"%d" % number) for number in range(len(topics))]
        return self.send(registry.PRODUCE, ProduceRequest(acks, 1_000, entries, transaction), frames)

    def read(self, *topics: bytes, replica_id: int = -1, identity: Identity = Identity()) -> FakeRequest:  # noqa: B008
        entries = tuple(FetchPartition(topic, 0, 0, 1 << 20) for topic in topics)
        body = FetchRequest(0, 1, 1 << 20, 0, entries, replica_id)
        return self.send(registry.FETCH, body, (), identity)

    def written(self, topic: bytes) -> list[bytes | None]:
        """The values in a log, whatever the rights."""
        request = self.read(topic, identity=Identity(is_server=True))
        return [value for _, value in values_of(request.answer_frames)]


def test_a_partition_that_may_not_be_written_is_refused_alone() -> None:
    """The batches of the others go to their own partitions."""
    rig = GuardedCore((AclOperation.WRITE, T, "open"))
    answer = rig.write(rig.secret, rig.open, rig.secret).answer
    assert [each.error_code for each in answer.partitions] == [REFUSED, 0, REFUSED]
    assert rig.written(rig.open) == [b"1"]
    assert rig.written(rig.secret) == []


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_refused_request_changes_nothing(acks: int) -> None:
    """Also without a response to wait for."""
    rig = GuardedCore()
    request = rig.write(rig.secret, rig.open, acks=acks)
    assert rig.written(rig.open) == rig.written(rig.secret) == []
    if acks:
        assert [each.error_code for each in request.answer.partitions] == [REFUSED, REFUSED]
    else:
        assert request.is_dropped


@pytest.mark.parametrize("acks", [0, -1])
def test_a_transactional_write_needs_the_right_for_the_transaction(acks: int) -> None:
    """As a whole, whatever the topics allow."""
    rig = GuardedCore((AclOperation.WRITE, T, "open"))
    request = rig.write(rig.open, acks=acks, transaction="t")
    assert rig.written(rig.open) == []
    assert (
        request.is_dropped if not acks else isinstance(request.error, TransactionalIdAuthorizationFailedError)
    )


def test_a_partition_that_may_not_be_read_has_no_records() -> None:
    """The records of the others follow at their places."""
    rig = GuardedCore((AclOperation.WRITE, T, "open"), (AclOperation.WRITE, T, "secret"))
    rig.write(rig.secret, rig.open)
    rig.gate.authorizer = Rights([(AclOperation.READ, T, "open")])
    request = rig.read(rig.secret, rig.open)
    assert [(each.error_code, each.frame_count) for each in request.answer.partitions] == [
        (REFUSED, 0),
        (0, 1),
    ]
    assert [value for _, value in values_of(request.answer_frames)] == [b"1"]


def test_a_follower_is_a_server() -> None:
    """A client cannot read as a replica; a server needs no rule."""
    rig = GuardedCore((AclOperation.READ, T, "open"))
    assert rig.read(rig.open, replica_id=2).error is not None
    assert rig.read(rig.secret, identity=Identity(is_server=True)).answer.partitions[0].error_code == 0


def test_error_or_silence_of_the_authorized_part_applies_to_the_request() -> None:
    """The part that runs may fail, or have no response."""
    rig = GuardedCore((AclOperation.WRITE, T, "open"))
    silent = rig.write(rig.open, rig.secret, acks=0)
    assert silent.is_dropped
    assert rig.written(rig.open) == [b"0"]
    body = ProduceRequest(7, 1_000, (ProducePartition(rig.open, 0), ProducePartition(rig.secret, 0)))
    failed = rig.send(registry.PRODUCE, body, [batch(b"a"), batch(b"b")])
    assert failed.error is not None
    assert failed.error.code == 21


def test_a_reduced_request_is_charged_to_its_client() -> None:
    """The controller gets the client of what is left of a native request; a Kafka client's has it."""
    gate = Gate(Rights([(AclOperation.CREATE, T, "a")]), lambda: IMAGE)
    body = CreateTopicsRequest((NewTopicSpec("a"), NewTopicSpec("b")), user="u", client_id="k")
    native = FakeRequest(registry.CREATE_TOPICS, body)
    native.peer.identity = Identity()
    own = OwnRequest(native.peer, registry.CREATE_TOPICS, body, (), lambda *_: None)
    for request, client in ((native, "test"), (own, "k")):
        left = admitted(gate, request, both_planes())
        assert isinstance(left, ReducedRequest) == (request is native)
        asked = msgspec.msgpack.decode(_body_of(left), type=CreateTopicsRequest)
        assert ([topic.name for topic in asked.topics], asked.client_id) == (["a"], client)
