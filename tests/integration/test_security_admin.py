"""Rules, users and delegation tokens of a cluster: the command line, our admin and Kafka's clients agree."""

from base64 import b64encode
from collections.abc import Iterator

import headrace
import pytest
from command_line import CommandLine
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from headrace import errors
from headrace.services.local_io import LocalCluster
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from kafka_clients import WAIT_S

SECRET = "the secret key of tokens"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node with an authorizer, for which clients without authentication are super users."""
    with headrace.local(
        listeners="PLAINTEXT://127.0.0.1:0",
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:ANONYMOUS;User:root",
        delegation_token_secret_key=SECRET,
    ) as made:
        yield made
        assert [node["kafka"]["broken"] for node in made.status()["nodes"]] == [0]
        assert SECRET not in repr(made.status())


def test_rules_are_the_same_for_all_clients(cluster: LocalCluster, shell: CommandLine) -> None:
    kafka = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    binding = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "10.0.0.0/8",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    (made,) = kafka.create_acls([binding]).values()
    made.result(WAIT_S)
    row = {
        "permission": "allow",
        "principal": "User:alice",
        "host": "10.0.0.0/8",
        "operation": "write",
        "resource": "topic",
        "name": "orders",
        "pattern": "prefixed",
    }
    assert shell.json("acl", "list") == [row]
    assert shell("acl", "create", "--user", "alice", "--operation", "write", "--operation", "describe",
        "--topic", "orders-eu", "--deny")[0] == 0  # fmt: skip
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert len(kafka.describe_acls(everything).result(WAIT_S)) == 3
    assert len(shell.json("acl", "list", "--topic", "orders-eu", "--matching")) == 3
    assert len(shell.json("acl", "list", "--topic", "orders-eu", "--deny")) == 2

    asked = ("acl", "explain", "--user", "alice", "--operation", "write", "--host", "10.1.1.1", "--topic")
    verdict = shell.json(*asked, "orders-us")
    assert verdict["allowed"]
    assert verdict["rule"] == "allow User:alice from 10.0.0.0/8 write on topic prefix orders"
    verdict = shell.json(*asked, "orders-eu")
    assert not verdict["allowed"]
    assert verdict["rule"] == "deny User:alice from * write on topic orders-eu"
    assert shell.json(*asked, "other") == {"allowed": False, "because": "no rule allows it", "rule": None}
    root = ("acl", "explain", "--user", "root", "--operation", "alter", "--on-cluster")
    assert shell.json(*root)["allowed"]

    assert shell("acl", "create", "--user", "root", "--operation", "read", "--topic", "t")[0] == 0
    (found,) = shell.json("acl", "lint")
    assert "super user" in found["reason"]

    (deleted,) = kafka.delete_acls([everything]).values()
    assert len(deleted.result(WAIT_S)) == 4
    assert shell.json("acl", "list") == []
    code, _, complaint = shell("acl", "delete")
    assert code == 2
    assert "--all" in complaint


def test_invalid_rules_fail_alone(cluster: LocalCluster) -> None:
    names = headrace.security
    rule = names.AclBinding(
        names.ResourceType.CLUSTER,
        "not the cluster",
        names.PatternType.LITERAL,
        "User:a",
        "*",
        names.AclOperation.ALTER,
        names.AclPermission.ALLOW,
    )
    good = rule._replace(name=names.CLUSTER_NAME)
    with cluster.admin() as admin:
        results = admin.create_acls(rule, good)
        assert isinstance(results.errors[rule], errors.InvalidRequestError)
        assert admin.describe_acls() == [good]
        selected = names.AclFilter(principal="User:a")
        assert admin.delete_acls(selected)[selected] == [good]


def test_users_are_the_same_for_all_clients(cluster: LocalCluster, shell: CommandLine) -> None:
    kafka = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8_192)
    (set_one,) = kafka.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("bob", info, b"secret-1")]
    ).values()
    set_one.result(WAIT_S)
    assert shell.json("user", "list") == [{"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 8192}]
    assert shell("user", "create", "carol", "--password-stdin", "--mechanism", "SCRAM-SHA-512",
        data=b"secret-2\n")[0] == 0  # fmt: skip
    assert shell("user", "create", "carol", "--password-stdin", data=b"x\n")[0] == 2
    assert shell("user", "passwd", "carol", "--password-stdin", data=b"secret-3\n")[0] == 0
    assert shell("user", "passwd", "dave", "--password-stdin", data=b"x\n")[0] == 3
    described = kafka.describe_user_scram_credentials(["carol", "bob"])
    infos = described["carol"].result(WAIT_S).scram_credential_infos
    assert {each.mechanism.name for each in infos} == {"SCRAM_SHA_256", "SCRAM_SHA_512"}
    (gone,) = kafka.alter_user_scram_credentials(
        [UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)]
    ).values()
    gone.result(WAIT_S)
    with pytest.raises(KafkaException, match="does not exist"):
        kafka.describe_user_scram_credentials(["bob"])["bob"].result(WAIT_S)
    assert shell("user", "delete", "carol", "--mechanism", "SCRAM-SHA-256")[0] == 0
    assert [each["mechanism"] for each in shell.json("user", "list")] == ["SCRAM-SHA-512"]
    assert shell("user", "delete", "carol")[0] == 0
    assert shell("user", "delete", "carol")[0] == 3
    assert shell.json("user", "list") == []


def test_delegation_tokens_need_authentication(cluster: LocalCluster, shell: CommandLine) -> None:
    with cluster.admin() as admin:
        with pytest.raises(errors.DelegationTokenRequestNotAllowedError):
            admin.create_delegation_token(renewers=["User:b"])
        with pytest.raises(errors.DelegationTokenRequestNotAllowedError):
            admin.renew_delegation_token(b"x")
        with pytest.raises(errors.DelegationTokenRequestNotAllowedError):
            admin.expire_delegation_token(b"x")
        with pytest.raises(errors.DelegationTokenRequestNotAllowedError):
            admin.describe_delegation_tokens()
    for command in (("create",), ("renew", "eA=="), ("expire", "eA=="), ("list",)):
        code, _, complaint = shell("token", *command)
        assert (code, "DelegationTokenRequestNotAllowedError" in complaint) == (1, True)
    assert shell("token", "renew", "no base64")[0] == 2


def test_a_delegation_token_is_its_owner_until_it_expires() -> None:
    """Made by alice for carol, renewed by bob, used with carol's rights; a token makes no tokens."""
    users = {name: f"{name}-secret" for name in ("alice", "bob")}
    with headrace.local(
        security=headrace.Security(users=users),
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:alice",
        delegation_token_secret_key=SECRET,
    ) as made:
        names = headrace.security

        def admin(name: str, password: str, **more: bool) -> headrace.Admin:
            return headrace.Admin(made.bootstrap, config=made.client_config(name, password), **more)

        with admin("alice", users["alice"]) as alice, admin("bob", users["bob"]) as bob:
            issued = alice.create_delegation_token(owner="User:carol", renewers=["User:bob"])
            rule = names.AclBinding(
                names.ResourceType.CLUSTER,
                names.CLUSTER_NAME,
                names.PatternType.LITERAL,
                "User:carol",
                "*",
                names.AclOperation.DESCRIBE,
                names.AclPermission.ALLOW,
            )
            alice.create_acls(rule).raise_for_errors()
            assert bob.renew_delegation_token(issued.hmac) <= issued.token.max_ms
            assert [each.token.owner for each in bob.describe_delegation_tokens()] == ["User:carol"]
            with pytest.raises(errors.ClusterAuthorizationFailedError):
                bob.describe_acls()
            with pytest.raises(errors.DelegationTokenAuthorizationFailedError):
                bob.create_delegation_token(owner="User:alice")
            password = b64encode(issued.hmac).decode()
            with admin(issued.token.token_id, password, sasl_tokenauth=True) as carol:
                assert carol.describe_acls() == [rule]
                with pytest.raises(errors.DelegationTokenRequestNotAllowedError):
                    carol.create_delegation_token()
            with pytest.raises(errors.DelegationTokenNotFoundError):
                alice.expire_delegation_token(b"wrong")
            alice.expire_delegation_token(issued.hmac)
            assert alice.describe_delegation_tokens() == []
        with (
            pytest.raises(errors.SaslAuthenticationFailedError),
            admin(issued.token.token_id, password, sasl_tokenauth=True) as gone,
        ):
            gone.describe_acls()


def test_acl_requests_fail_without_authorizer() -> None:
    with headrace.local() as made, made.admin() as admin:
        with pytest.raises(errors.SecurityDisabledError):
            admin.describe_acls()
        assert admin.describe_users() == {}
