"""The authorizer of a node follows its images, by deltas and by whole images, and waits for the first."""

from __future__ import annotations

import pytest
from headrace.protocol.errors import ConfigError, LeaderNotAvailableError
from headrace.protocol.metadata.difference import difference
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveRoleMemberRecord,
    RoleMemberRecord,
    RoleRecord,
)
from headrace.protocol.metadata.replay import replay
from headrace.protocol.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER, AuthorizationConfig
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.edge.authorization import (
    NodeAuthorization,
    check_open_native_plane,
    open_native_plane,
)

ORDERS = Resource(ResourceType.TOPIC, "orders")
ALICE = Identity(user("alice"))
RULE = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)


def config(**keys: object) -> AuthorizationConfig:
    return AuthorizationConfig.of({"authorizer.class.name": STANDARD_AUTHORIZER, **keys})


def test_rules_are_obeyed_with_the_image_that_has_them() -> None:
    node = NodeAuthorization(config())
    authorizer = node.authorizer
    assert authorizer is not None
    image, delta = replay(MetadataImage(), 0, [AccessControlEntryRecord(RULE)])
    node.follow(image, delta, is_complete=True)
    node.known.answered(0, 0)
    node.known.applied(0)
    node.note_time(0)
    assert authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    image, delta = replay(image, 1, [RemoveAccessControlEntryRecord(RULE)])
    node.follow(image, delta, is_complete=True)
    assert not authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    assert node.authorizer is authorizer


def test_a_snapshot_replaces_all_rules() -> None:
    node = NodeAuthorization(config())
    assert node.authorizer is not None
    other = RULE._replace(operation=AclOperation.WRITE)
    node.follow(MetadataImage(acls={RULE: None, other: None}), None, is_complete=True)
    third = RULE._replace(operation=AclOperation.DELETE)
    node.follow(MetadataImage(acls={other: None, third: None}), None, is_complete=True)
    assert set(node.authorizer.rules) == {other, third}


def test_members_are_obeyed_with_the_image_that_has_them() -> None:
    node = NodeAuthorization(config(**{"authorizer.metadata.max.age.ms": -1}))
    authorizer = node.authorizer
    assert authorizer is not None
    of_role = AccessControlEntryRecord(RULE._replace(principal="Role:readers"))
    grant = RoleMemberRecord("readers", "User:alice")
    image, delta = replay(MetadataImage(), 0, [RoleRecord("readers"), of_role, grant])
    node.follow(image, delta, is_complete=True)
    node.note_time(0)
    assert authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    granted = image
    image, delta = replay(image, 3, [RemoveRoleMemberRecord("readers", "User:alice")])
    node.follow(image, delta, is_complete=True)
    assert not authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    node.follow(granted, None, is_complete=True)
    assert authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    node.follow(image, difference(granted, image), is_complete=True)
    assert not authorizer.allows(ALICE, AclOperation.READ, ORDERS)


def test_before_the_metadata_is_complete_only_super_users_are_served() -> None:
    keys = {"allow.everyone.if.no.acl.found": True, "authorizer.metadata.max.age.ms": -1}
    node = NodeAuthorization(config(**{"super.users": "User:root", **keys}))
    assert node.authorizer is not None
    node.follow(MetadataImage(), None, is_complete=False)
    node.note_time(0)
    assert node.authorizer.allows(Identity(user("root")), AclOperation.READ, ORDERS)
    with pytest.raises(LeaderNotAvailableError):
        node.authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    node.follow(MetadataImage(), None, is_complete=True)
    node.note_time(0)
    assert node.authorizer.allows(ALICE, AclOperation.READ, ORDERS)


def test_rules_are_obeyed_while_the_controllers_confirm_them() -> None:
    """A node that is cut off or was paused does not know which rules are gone: it refuses, also what it
    decided before, until a heartbeat is answered and the metadata of the answer applied."""
    node = NodeAuthorization(config(**{"super.users": "User:root", "authorizer.metadata.max.age.ms": 1_000}))
    authorizer = node.authorizer
    assert authorizer is not None
    node.follow(MetadataImage(offset=5, acls={RULE: None}), None, is_complete=True)
    node.known.applied(5)

    def reads(now_ms: int) -> bool:
        node.note_time(now_ms)
        return authorizer.allows(ALICE, AclOperation.READ, ORDERS)

    def refuses(now_ms: int) -> None:
        with pytest.raises(LeaderNotAvailableError, match=r"authorizer\.metadata\.max\.age\.ms"):
            reads(now_ms)

    refuses(0)
    node.known.answered(100, 5)
    assert reads(1_100)
    refuses(1_101)
    assert authorizer.allows(Identity(user("root")), AclOperation.READ, ORDERS)
    node.known.answered(1_200, 6)
    refuses(1_250)
    node.follow(MetadataImage(offset=6), None, is_complete=True)
    node.known.applied(6)
    assert not reads(2_200)


def test_no_authorizer_without_authorizer_class_name() -> None:
    node = NodeAuthorization(AuthorizationConfig())
    node.follow(MetadataImage(acls={RULE: None}), None, is_complete=True)
    assert node.authorizer is None


def test_values_that_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"super\.users"):
        config(**{"super.users": "alice"})
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name"):
        AuthorizationConfig.of({"authorizer.class.name": "com.example.Mine"})
    assert "s3cret" not in repr(config(**{"delegation.token.secret.key": "s3cret"}))


def node_config(**keys: object) -> NodeConfig:
    return NodeConfig.of({"log.dirs": "d", **keys})


def test_rules_need_servers_that_are_known() -> None:
    """Without keys the other servers are anonymous, as every client: a config that does not admit these has
    servers that cannot replicate."""
    rules = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:alice"}
    with pytest.raises(ConfigError, match=r"native\.security\.protocol=SSL .*super\.users=User:ANON"):
        check_open_native_plane(node_config(**rules))
    allowed: list[dict[str, object]] = [
        {**rules, "native.security.protocol": "SSL"},
        {**rules, "native.security.protocol": "SASL_SSL"},
        {**rules, "super.users": "User:alice;User:ANONYMOUS"},
        {**rules, "allow.everyone.if.no.acl.found": True},
        {},
    ]
    for keys in allowed:
        check_open_native_plane(node_config(**keys))


def test_an_open_native_plane_beside_secured_listeners_is_a_warning() -> None:
    """It names them; with rules there is one for any listeners, without secured listeners there is none."""
    sasl = {
        "listeners": "SASL_PLAINTEXT://h:1,PLAINTEXT://h:2",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    assert "listeners SASL_PLAINTEXT are secured, but" in open_native_plane(node_config(**sasl))
    rules = {"authorizer.class.name": STANDARD_AUTHORIZER, "listeners": "PLAINTEXT://h:2"}
    assert "there are rules, but" in open_native_plane(node_config(**rules))
    for keys in ({**sasl, "native.security.protocol": "SSL"}, {"listeners": "PLAINTEXT://h:2"}):
        assert open_native_plane(node_config(**keys)) == ""
