"""`headrace up --secure` on real Ray: users, rules and the audit topic."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from headrace_command import Headrace
from waiting import wait_for

pytestmark = pytest.mark.ray

PASSWORD = "alices-own-secret"
# A program on the same Ray, without the secret of the cluster.
STOP = """
import ray, sys
ray.init(address=sys.argv[1], log_to_driver=False)
try:
    ray.get(ray.get_actor("node-1", "headrace-default").stop.remote(sys.argv[2], 1.0))
except Exception as error:
    print(error)
"""
COUNTING = """
from headrace import stream, utf8
app = stream.App("secured", key=utf8, value=utf8, commit_interval_ms=100)
app.stream("secured-in").group_by_key().count(store="counts")
"""
ASK = """
import sys, time
from headrace import stream
with stream.connect_workers("secured", ray_address=sys.argv[1]).queries(timeout_s=300) as queries:
    while queries.get_many("counts", "ab") != {"a": 2, "b": 1}:
        time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def headrace(tmp_path_factory: pytest.TempPathFactory, ray_address: str) -> Iterator[Headrace]:
    """A secured cluster of one storage node."""
    command = Headrace(tmp_path_factory.mktemp("secure"), ray_address)
    try:
        command.up("--nodes", "1", "--secure")
        yield command
        command.run("down", "--delete-data", "--yes")
        command.wait_until_nothing_runs()
    finally:
        command.kill_all()


def rows(headrace: Headrace, *command: str) -> Any:
    return json.loads(headrace.run("-o", "json", *command)[0])


def error_of(address: str, config: dict[str, str]) -> str | None:
    """Why librdkafka could not deliver a record; None if it could."""
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": address, **config})
    producer.produce("orders", b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush()
    return None if errors[0] is None else errors[0].name()


def test_keys_secret_and_certificate_are_replaced_while_it_runs(headrace: Headrace) -> None:
    """Each server is a new process with a new key. Calls of actors need the secret, `down` too."""
    before = {row["what"]: row for row in rows(headrace, "security", "status")}
    assert before["key of node-1"]["detail"] == "in use"
    secret = headrace.home / "clusters" / "default.secret"
    old = secret.read_text()
    _, errors = headrace.run("security", "rotate", "--keys", "--secret", "--certificates", "--timeout", "400")
    assert "node-1 has a new key (2/2)" in errors
    after = {row["what"]: row for row in rows(headrace, "security", "status")}
    kept = {what for what in after if after[what]["fingerprint"] == before[what]["fingerprint"]}
    assert kept == {"certificate authority", "token of Ray"}
    assert after["key of node-1"]["detail"] == "in use"
    assert secret.stat().st_mode & 0o777 == 0o600
    new = secret.read_text()
    secret.write_text(old)
    _, errors = headrace.run("down", code=1)
    assert "does not have the secret of cluster 'default'" in errors
    secret.write_text(new)
    refused = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STOP, headrace.ray_address, old.strip()],
        env=headrace.environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    assert "`stop` of node-1: the caller has another secret" in refused.stdout
    assert rows(headrace, "user", "list")[0]["user"] == "admin"


def test_a_user_needs_a_rule_and_no_secret_is_left_behind(headrace: Headrace) -> None:
    """The admin's file is the user of commands here; a denial is in the audit topic; passwords are in client
    files alone, also after a restart with the same keys."""
    facts = headrace.running()
    folder = Path(facts["data_dir"]) / "security"
    headrace.run("topic", "create", "orders")
    headrace.run("user", "create", "alice", "--password-stdin", data=PASSWORD.encode())
    (address,) = (node["kafka"]["listeners"]["SASL_SSL"] for node in facts["nodes"])
    lines = (folder / "admin.librdkafka.properties").read_text().splitlines()
    admin: dict[str, str] = dict(line.split("=", 1) for line in lines)
    alice = admin | {"sasl.username": "alice", "sasl.password": PASSWORD}
    assert error_of(address, admin) is None
    assert error_of(address, alice) == "TOPIC_AUTHORIZATION_FAILED"
    wait_for(lambda: rows(headrace, "audit", "--principal", "User:alice"), "the denial is in the audit topic")
    headrace.run("acl", "create", "--user", "alice", "--operation", "write", "--topic", "orders")
    wait_for(lambda: error_of(address, alice) is None, "the rule is obeyed")

    logs = [
        Path(os.readlink(f"/proc/{server['pid']}/fd/2"))
        for server in (*facts["nodes"], *facts["controllers"])
    ]
    headrace.run("down")
    headrace.up("--secure")
    assert [row["user"] for row in rows(headrace, "user", "list")] == ["admin", "admin", "alice", "alice"]
    client_files = set(folder.glob("admin.*"))
    left = [path for path in folder.parent.parent.rglob("*") if path.is_file() and path not in client_files]
    secrets = [PASSWORD.encode(), admin["sasl.password"].encode()]
    found = [path for path in (*left, *logs) if any(secret in path.read_bytes() for secret in secrets)]
    assert found == []


def test_a_streams_application_on_ray_is_a_user_of_the_cluster(headrace: Headrace, tmp_path: Path) -> None:
    """Its workers have the user of the client file that the command was given, and answer queries with the
    secret that was made for them. The file is that of commands at any address, with -X of their own."""
    (tmp_path / "secured.py").write_text(COUNTING)
    facts = headrace.running()
    path = Path(facts["data_dir"]) / "security" / "admin.properties"
    at = ("-b", ",".join(facts["bootstrap"]), "--command-config", str(path))
    headrace.run("topic", "create", "secured-in", "-p", "2", "-X", "retention.ms=7000000", *at)
    headrace.run("produce", "secured-in", "-K", ":", *at, data=b"a:1\nb:1\na:2\n")
    folders = (str(tmp_path), headrace.environment.get("PYTHONPATH", ""))
    headrace.environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    ray_option = ("--ray-address", headrace.ray_address)
    headrace.run("stream", "run", "secured:app", "--workers", "2", "--detach", *at, *ray_option)
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ASK, headrace.ray_address],
        env=headrace.environment,
        timeout=500,
        check=True,
    )
    headrace.run("stream", "stop", "secured", *ray_option)
