"""No secret of a secured cluster is in what a run leaves: output, errors, logs, status and files."""

import json
import logging
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace
import pytest
from certificates import Authority
from command_line import CommandLine
from headrace.services.local_io import LocalCluster
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from left_secrets import files_below, forms, leaks

ALICE, BOB, CAROL = "alice-Zq7-password", "bob-Xw3-password", "carol-Vt9-password"
TOKEN_KEY, KEY_PASSWORD, WRONG = "key-Uj4-of-tokens", "pem-Hn2-password", "wr0ng-Gb8-password"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SERVER = Authority().issue("node")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node; secrets of every kind in its config."""
    config: dict[str, Any] = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_carol="{CAROL}";',
        "listener.name.native.plain.sasl.jaas.config": f'{PLAIN} required user_carol="{CAROL}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": SERVER.key_pem(KEY_PASSWORD),
        "ssl.keystore.certificate.chain": SERVER.chain_pem,
        "ssl.key.password": KEY_PASSWORD,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:alice;User:admin",
        "delegation.token.secret.key": TOKEN_KEY,
    }
    folder = tmp_path_factory.mktemp("secured")
    security = headrace.Security(users={"alice": ALICE})
    with headrace.local(data_dir=str(folder), security=security, **config) as cluster:
        yield cluster


def test_logs_status_and_files_contain_no_secrets(
    cluster: LocalCluster, command_line: CommandLine, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Main commands, failures among them, with logs of all levels; then status, files and dumps. The search
    finds secrets where they are: in the store of secrets, and in a place into which one is written."""
    caplog.set_level(logging.DEBUG)
    left: dict[str, bytes] = {}
    names = cluster.client_config("alice", ALICE)
    shell = command_line.at(cluster.bootstrap)

    def run(
        *arguments: str, data: str = "", user: str = "alice", password: str = ALICE, code: int = 0
    ) -> str:
        config = {**names, "sasl.username": user, "sasl.password": password}
        options = [word for key, value in config.items() for word in ("-X", f"{key}={value}")]
        found, out, err = shell(*arguments, *options, data=data.encode())
        assert found == code, (arguments, err)
        if arguments[0] != "token":  # as in Kafka, their output has the HMAC, with which tokens are renewed
            left[f"headrace {' '.join(arguments)} as {user}"] = (out + err).encode()
        return out

    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic("orders")).raise_for_errors()
    run("user", "create", "bob", "--password-stdin", data=BOB + "\n")
    run("user", "passwd", "bob", "--password-stdin", data=BOB + "\n")
    run("user", "list", "-o", "json")
    run("acl", "create", "--user", "bob", "--operation", "write", "--topic", "orders")
    run("acl", "list")
    issued = json.loads(run("token", "create", "-o", "json"))
    hmac = (issued[0] if isinstance(issued, list) else issued)["hmac"]
    run("token", "list", "-o", "json")
    run("produce", "orders", data="one\n", user="bob", password=BOB)
    run("consume", "orders", "-e")
    run("consume", "orders", "-e", user="bob", password=BOB, code=1)
    run("topic", "list", "--debug", user="bob", password=WRONG, code=1)
    run("user", "create", "bob", "--password-stdin", data=BOB + "\n", code=2)
    run("status", "-o", "json")
    run("config", "describe", "--node", "1", "--all", "-o", "json")
    run("config", "describe", "--cluster-wide", "--all", "-o", "json")
    run("config", "alter", "--cluster-wide", "--set", f"ssl.key.password={WRONG}", code=1)
    for folder in ("controller-1", "node-1"):
        _, out, err = command_line("log", "dump", str(cluster.data_dir / folder))
        left[f"headrace log dump {folder}"] = (out + err).encode()
    left["status"] = json.dumps(cluster.status()).encode()
    left["log"] = caplog.text.encode()
    with headrace.Producer(cluster.bootstrap, config=names) as producer, cluster.admin() as admin:
        left["repr"] = repr((producer, admin, cluster, names.keys())).encode()

    store = cluster.data_dir / "security"
    keys = (store / "node-1.key").read_text().split()
    admin_password = cluster.client_config()["sasl.password"]
    secrets = {
        "password of alice": ALICE.encode(),
        "password of bob": BOB.encode(),
        "password of carol": CAROL.encode(),
        "password of admin": admin_password.encode(),
        "wrong password": WRONG.encode(),
        "password of the key": KEY_PASSWORD.encode(),
        "key of tokens": TOKEN_KEY.encode(),
        "HMAC of a token": b64decode(hmac),
        "secret key of node-1": bytes.fromhex(keys[keys.index("secret") + 1]),
        "private key of TLS": SERVER.key_pem().splitlines()[1].encode(),
    }
    places = [*left.items(), *files_below(cluster.data_dir, store)]
    assert len(places) > 25
    assert leaks(secrets, places) == []

    planted = tmp_path / "planted"
    for form in forms(secrets["secret key of node-1"]):
        planted.write_bytes(b"{'k': '" + form + b"'}")
        assert leaks(secrets, files_below(tmp_path)) == [f"secret key of node-1: {planted}"]
    assert leaks(secrets, files_below(tmp_path, planted)) == []
    assert leaks(secrets, files_below(store)) == [f"secret key of node-1: {store / 'node-1.key'}"]
