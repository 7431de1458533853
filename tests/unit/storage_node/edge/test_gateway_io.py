"""The node's side of its gateway: requests to other nodes are authorized here, by their client's rights."""

from types import SimpleNamespace
from typing import Any

from authorization_kit import IMAGE, G, Rights
from core_rig import FakePeer, FakeReplies
from fake_files import FakeFiles
from headrace.protocol.errors import GroupAuthorizationFailedError
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from headrace.protocol.security.acls import AclOperation
from headrace.protocol.security.identity import ANONYMOUS_IDENTITY, Identity
from headrace.runtime.authorization.gate import Gate
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.edge.gateway import OwnRequest
from headrace.storage_node.edge.gateway_io import NodeGateway


class Rig:
    """The node of a gateway, whose requests to other nodes are kept."""

    def __init__(self, authorizer: Rights | None) -> None:
        self.sent: list[Any] = []
        self.answers: list[Any] = []
        config = NodeConfig.of({"log.dirs": "/d"})
        self.node_gateway = NodeGateway(None, config, FakeFiles(), lambda _request: None, lambda _error: None)
        self.node_gateway.replies(FakeReplies())
        authorization = SimpleNamespace(note_time=lambda _now_ms: None)
        core: Any = SimpleNamespace(gate=Gate(authorizer, lambda: IMAGE), authorization=authorization)
        self.node_gateway._core = core
        self.node_gateway._replication = SimpleNamespace(ask_peer=self.sent.append)  # type: ignore[assignment]

    def ask(self, api: Any, body: Any, identity: Identity = ANONYMOUS_IDENTITY) -> None:
        peer = FakePeer(identity=identity)
        request = OwnRequest(peer, api, body, (), lambda answer, _frames: self.answers.append(answer))
        self.node_gateway.ask(2, request, 500)


def test_a_refused_request_reaches_no_other_node() -> None:
    """The client gets the error."""
    rig = Rig(Rights())
    rig.ask(registry.HEARTBEAT, HeartbeatRequest("g", 1, "m"))
    rig.ask(registry.DELETE_GROUPS, DeleteGroupsRequest(("g",)))
    assert rig.sent == []
    assert isinstance(rig.answers[0], GroupAuthorizationFailedError)
    assert [each.error_code for each in rig.answers[1].results] == [GroupAuthorizationFailedError.code]


def test_forwarded_request_has_the_authorized_part_only() -> None:
    """And the client the results of all of it."""
    rig = Rig(Rights([(AclOperation.DELETE, G, "own")]))
    rig.ask(registry.DELETE_GROUPS, DeleteGroupsRequest(("other", "own")))
    (effect,) = rig.sent
    assert (effect.node_id, effect.body.group_ids, effect.timeout_ms) == (2, ("own",), 500)
    effect.answered(DeleteGroupsResponse((DeletedGroup("own", 0),)), 1, 1)
    results = [(each.group_id, each.error_code) for each in rig.answers[0].results]
    assert results == [("other", GroupAuthorizationFailedError.code), ("own", 0)]


def test_authorized_request_is_forwarded_unchanged() -> None:
    """Without an authorizer, too, and for other servers."""
    body = HeartbeatRequest("g", 1, "m")
    for authorizer, identity in (
        (Rights([(AclOperation.READ, G, "g")]), ANONYMOUS_IDENTITY),
        (None, ANONYMOUS_IDENTITY),
        (Rights(), Identity(is_server=True)),
    ):
        rig = Rig(authorizer)
        rig.ask(registry.HEARTBEAT, body, identity)
        (effect,) = rig.sent
        assert effect.body is body
        effect.answered(HeartbeatResponse(0), 1, 1)
        assert rig.answers == [HeartbeatResponse(0)]
