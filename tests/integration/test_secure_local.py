"""A local cluster with CURVE and users: clients of all kinds, wrong passwords and keys, crashes, new keys."""

import asyncio
import base64
import contextlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace
import pytest
from headrace import aio
from headrace.protocol.errors import (
    ClusterAuthorizationFailedError,
    HeadraceError,
    SaslAuthenticationFailedError,
)
from headrace.protocol.messages import control, data, registry
from headrace.protocol.security.server_keys import NODE, ServerName
from headrace.protocol.transport.dealer_io import Connection
from headrace.protocol.transport.dealer_options_io import new_curve_keys
from headrace.protocol.transport.security import ConnectionSecurity
from headrace.runtime.server_security_io import read_own_keys
from headrace.storage_node.configs.listener_security import UNSECURED_VALIDATOR
from transport_kit import run

SECRET = "pass-" + secrets.token_hex(8)
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    """Three nodes, three controllers, user alice."""
    with headrace.local(
        nodes=3, controllers=3, security=headrace.Security(users={"alice": SECRET})
    ) as cluster:
        yield cluster


def test_records_of_a_user_are_replicated_under_curve(cluster: headrace.LocalCluster) -> None:
    """Producer, consumer, admin and the asyncio twins; a node is killed and comes back."""
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic("t", partitions=3, replication_factor=3))
    alice = {"username": "alice", "password": SECRET}
    with cluster.producer(acks="all", **alice) as producer:
        for number in range(30):
            producer.send("t", str(number).encode())
        producer.flush()
        cluster.kill_node(1)
        for number in range(30, 60):
            producer.send("t", str(number).encode())
        producer.flush()
        cluster.restart_node(1)
    options = {"auto_offset_reset": "earliest", "group": "g", **alice}
    found = set()
    with cluster.consumer("t", iter_timeout=TIMEOUT_S, **options) as consumer:
        for record in consumer:
            found.add(int(record.value))
            if len(found) == 60:
                break

    async def twin() -> None:
        config = cluster.client_config("alice", SECRET)
        async with aio.AsyncProducer(cluster.bootstrap, config=config) as producer:
            await producer.send("t", b"60")

    asyncio.run(twin())
    assert found == set(range(60))


def test_dotted_keys_of_confluent_kafka_work(cluster: headrace.LocalCluster) -> None:
    """One pinned key of one server, its address alone: the client learns the others."""
    config = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": SECRET,
        "server.public.key": cluster.server_public_key,
    }
    with headrace.Admin(cluster.bootstrap.split(",")[0], config=config) as admin:
        admin.create_topics(headrace.NewTopic("dotted", partitions=6))
        assert "dotted" in {topic.name for topic in admin.list_topics()}
    with headrace.Producer(cluster.bootstrap.split(",")[0], config=config) as producer:
        for partition in range(6):
            producer.send("dotted", b"x", partition=partition).result(TIMEOUT_S)
        assert SECRET not in repr(producer)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"sasl.password": "wr0ng"}, SaslAuthenticationFailedError, "user 'alice'"),
        ({"sasl.username": "absent"}, SaslAuthenticationFailedError, "user 'absent'"),
        ({"trusted.server.keys.file": "", "server.public.key": "00" * 32}, HeadraceError, "another key"),
    ],
)
def test_wrong_credentials_and_keys_fail_at_once_and_clearly(
    cluster: headrace.LocalCluster, change: dict[str, Any], error: type[Exception], text: str
) -> None:
    """Not retried until a timeout, and without the password."""
    config = {**cluster.client_config("alice", SECRET), **change, "default.api.timeout.ms": 2000}
    admin = headrace.Admin(cluster.bootstrap, config=config)
    with contextlib.closing(admin), pytest.raises(error, match=text) as caught:
        admin.list_topics()
    assert "wr0ng" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_unencrypted_connections_are_rejected(cluster: headrace.LocalCluster) -> None:
    """A client without security, at a node and at a controller."""
    admin = headrace.Admin(cluster.bootstrap, default_api_timeout_ms=2000)
    with contextlib.closing(admin), pytest.raises(HeadraceError, match="encrypted"):
        admin.list_topics()


def test_requests_of_servers_need_the_key_of_that_server(cluster: headrace.LocalCluster) -> None:
    """A user, an unknown client, and a node that pretends to be another one."""
    folder = cluster.data_dir / "security"
    node_1 = read_own_keys(folder / "node-1.key").keys
    trusted = [line.split()[1] for line in (folder / "trusted.keys").read_text().splitlines()]
    servers = tuple(map(bytes.fromhex, trusted))

    async def opened(endpoint: str, keys: Any) -> Connection:
        host, port = endpoint.split(":")
        security = ConnectionSecurity(server_keys=lambda _server: servers, own_keys=keys)
        return await Connection.open(
            host, int(port), client_id="node-2", timeout_s=TIMEOUT_S, security=security
        )

    async def test() -> None:
        node = cluster.bootstrap.split(",")[1]
        controller = cluster.status()["controllers"][0]["endpoint"]
        with pytest.raises(ClusterAuthorizationFailedError, match="only servers"):
            await opened(controller, new_curve_keys())
        with pytest.raises(SaslAuthenticationFailedError):
            await opened(node, new_curve_keys())
        as_node_1 = await opened(controller, node_1)
        for node_id in (2, -1):
            request = control.BrokerHeartbeatRequest(node_id, 0, 0)
            with pytest.raises(ClusterAuthorizationFailedError, match=f"node-1 may not send.*node-{node_id}"):
                await as_node_1.request(registry.BROKER_HEARTBEAT, request, timeout_s=TIMEOUT_S)
        as_node_1.close()
        fetcher = await opened(node, node_1)
        with pytest.raises(ClusterAuthorizationFailedError, match="as node-3"):
            await fetcher.request(
                registry.FETCH, data.FetchRequest(0, 1, 1, 0, (), replica_id=3), timeout_s=TIMEOUT_S
            )
        fetcher.close()

    run(test())


def test_a_user_may_not_fetch_as_a_replica(cluster: headrace.LocalCluster) -> None:
    """With the right password, and a request that only servers send."""
    from headrace.clients.cluster.security_io import connection_security
    from headrace.clients.config import ConnectionConfig

    async def test() -> None:
        security, _ = connection_security(ConnectionConfig.of(cluster.client_config("alice", SECRET)))
        host, port = cluster.bootstrap.split(",")[0].split(":")
        user = await Connection.open(
            host, int(port), client_id="node-2", timeout_s=TIMEOUT_S, security=security
        )
        with pytest.raises(ClusterAuthorizationFailedError, match="only servers of this cluster"):
            await user.request(
                registry.FETCH, data.FetchRequest(0, 1, 1, 0, (), replica_id=2), timeout_s=TIMEOUT_S
            )
        user.close()

    run(test())


def test_keys_are_replaced_without_an_outage(cluster: headrace.LocalCluster) -> None:
    """Every server has a new key afterwards, and a producer has sent all the time."""
    before = cluster.server_public_key
    keys = cluster.data_dir / "security"
    assert (keys.stat().st_mode & 0o777, (keys / "node-1.key").stat().st_mode & 0o777) == (0o700, 0o600)
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic("rotated", partitions=3, replication_factor=3))
    with cluster.producer(username="alice", password=SECRET, acks="all") as producer:
        producer.send("rotated", b"before").result(TIMEOUT_S)
        cluster.rotate_server_keys()
        producer.send("rotated", b"after").result(TIMEOUT_S)
    assert cluster.server_public_key != before
    assert before not in (keys / "trusted.keys").read_text()
    assert read_own_keys(keys / "node-1.key").name == ServerName(NODE, 1)


def test_plain_bearer_and_delegation_tokens_on_the_native_plane(tmp_path: Path) -> None:
    """The config keys of Kafka listeners, and a token that a user made with a password."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_carol="carol-secret";'
    config: dict[str, Any] = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "delegation.token.secret.key": "key-of-tokens",
        "listener.name.native.plain.sasl.jaas.config": jaas,
        "listener.name.native.oauthbearer.sasl.server.callback.handler.class": UNSECURED_VALIDATOR,
    }
    with headrace.local(security=headrace.Security(users={"alice": SECRET}), **config) as small:
        keys: dict[str, Any] = {"server_public_key": small.server_public_key}
        carol: dict[str, Any] = {"username": "carol", "password": "carol-secret", "sasl_mechanism": "PLAIN"}
        with headrace.Admin(small.bootstrap, **carol, **keys) as admin:
            admin.create_topics(headrace.NewTopic("plain"))
        claims = json.dumps({"sub": "dave", "iat": 1, "exp": 4_000_000_000}).encode()
        parts = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (b'{"alg":"none"}', claims)]
        path = tmp_path / "token"
        path.write_text(".".join([*parts, ""]))
        bearer: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_file": str(path)}
        with headrace.Admin(small.bootstrap, **bearer, **keys) as admin:
            admin.create_topics(headrace.NewTopic("bearer"))
        with small.admin(username="alice", password=SECRET) as admin:
            issued = admin.create_delegation_token()
        login: dict[str, Any] = {
            "username": issued.token.token_id,
            "password": base64.b64encode(issued.hmac).decode(),
            "sasl_tokenauth": True,
        }
        with headrace.Producer(small.bootstrap, **login, **keys) as producer:
            producer.send("plain", b"by token").result(TIMEOUT_S)


def test_files_status_and_log_do_not_contain_the_password(
    cluster: headrace.LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Files, status and the log."""
    left = [path for path in cluster.data_dir.rglob("*") if path.is_file()]
    assert all(SECRET.encode() not in path.read_bytes() for path in left)
    assert SECRET not in str(cluster.status())
    assert SECRET not in caplog.text
