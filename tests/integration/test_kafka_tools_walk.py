"""Every command line of `headrace kafka-tools` runs against a secured cluster."""

import json
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator

import headrace
import pytest
from command_line import CommandLine
from headrace.services.kafka_tools import table
from headrace.services.secure_up import AUTHORIZER

# Of another exit code than 0, with a part of the message: what they name does not exist here.
FAILING = {
    "headrace topic describe --id 00000000000000000000000000000001": (3, "no topic has the id"),
    "headrace group tasks shop": (3, "streams group 'shop' does not exist"),
    "headrace txn describe etl-1": (3, "does not exist"),
    "headrace txn abort -t orders -p 0 --start-offset 0 --yes": (3, "no transaction with start offset 0"),
    "headrace txn abort-prepared etl-1 --yes": (3, "does not exist"),
    "headrace partition move-dir /data/2 --node 1 -t orders -p 0": (1, "/data/2"),
    "headrace partition reassign --cancel plan.json": (1, "NoReassignmentInProgressError"),
    "headrace quorum add-voter 2 127.0.0.1:9093": (3, "not an observer"),
    "headrace quorum remove-voter 2": (3, "not a voter"),
    "headrace node unregister 3 --yes": (3, "not registered"),
    "headrace token renew aGk= --period-ms 60000": (1, "DelegationToken"),
    "headrace token expire aGk= --period-ms 60000": (1, "DelegationToken"),
    "headrace telemetry targets": (3, "no cluster"),  # HEADRACE_BOOTSTRAP has no endpoints of metrics
}
# These start and stop servers: tests/integration/test_ray_cluster.py, test_server_processes.py.
OF_SERVERS = {"headrace up --nodes 1", "headrace down", "headrace server node -c server.properties"}
PLACE = {"topic": "orders", "partition": 0}
FILES = {
    "plan.json": json.dumps({"version": 1, "partitions": [{**PLACE, "replicas": [2]}]}),
    "places.json": json.dumps({"partitions": [PLACE]}),
    "offsets.json": json.dumps({"partitions": [{**PLACE, "offset": 1}]}),
    "offsets.csv": "orders,0,1\n",
    "payload.txt": "a\nb\n",
    "topic.properties": "retention.ms=100000000\n",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.LocalCluster]:
    folder = tmp_path_factory.mktemp("tools")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    users = {"admin": secrets.token_hex(8)}
    with headrace.local(
        nodes=2,
        data_dir=str(folder / "data"),
        security=headrace.Security(users=users),
        authorizer_class_name=AUTHORIZER,
        super_users="User:admin",
        delegation_token_secret_key=secrets.token_hex(16),
    ) as running:
        yield running


@pytest.fixture
def environment(cluster: headrace.LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address and the user of the cluster, for commands with and without -b."""
    monkeypatch.chdir(cluster.data_dir.parent)
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", cluster.bootstrap)
    for key, value in cluster._config_of_client({}, {}).items():
        monkeypatch.setenv(f"HEADRACE_{key.upper().replace('.', '_')}", str(value))


def run(*words: str) -> tuple[int, str, str]:
    """In a process of its own: the processes of `bench` have the environment in which the first of them was
    started."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.usefixtures("environment")
def test_commands_of_the_table_run(command_line: CommandLine) -> None:
    """In the order of the table, each with the exit code 0 or that of FAILING."""
    lines = "".join(f"{number}\n" for number in range(50)).encode()
    for arguments, data in (
        ("topic create orders -p 2", b""),
        ("produce orders -p 0", lines),
        ("produce orders -p 1", lines),
        ("group reset billing -t orders --to-earliest --new-group --execute", b""),
        ("group reset shop -t orders --to-earliest --new-group --execute", b""),
    ):
        code, _, err = command_line(*arguments.split(), data=data)
        assert code == 0, err
    wrong = []
    for row in table():
        if row.is_absent or row.command in OF_SERVERS:
            continue
        words = shlex.split(row.command)[1:]
        data = b"password-1\n" if words[0] == "user" else b"k:v\n"
        code, out, err = run(*words) if words[0] == "bench" else command_line(*words, data=data)
        expected, part = FAILING.get(row.command, (0, ""))
        if code != expected or part not in err:
            wrong.append(f"{row.command}: exit code {code}\n{out[-300:]}{err[-500:]}")
    assert not wrong, "\n".join(wrong)
