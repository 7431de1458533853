"""The JSON of every command on a real cluster has its schema: a new command has a command line here.

The fixture `command_line` validates each output.
"""

import contextlib
import io
import json
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path

import headrace
import pytest
import yaml
from command_line import CommandLine, checked
from headrace.services.cli.schema_table import TABLE
from headrace.services.cluster_files_io import ClusterFile, write_cluster_file
from headrace.services.secure_up import AUTHORIZER

# These start or need a cluster on Ray, processes of servers or a running application.
ELSEWHERE = {
    "down": "tests/integration/test_ray_cluster.py",
    "quickstart": "tests/integration/test_quickstart_ray.py",
    "server status": "tests/integration/test_server_processes.py",
    "stream query": "tests/integration/streams/test_streams_queries.py",
    "stream status": "tests/integration/streams/test_streams_queries.py",
    "stream top": "tests/integration/streams/test_streams_queries.py",
    "up": "tests/integration/test_ray_cluster.py",
}
PLACE = {"topic": "orders", "partition": 0}
PLAN = json.dumps({"version": 1, "partitions": [{**PLACE, "replicas": [2, 1]}]})
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
APPLICATION = """
from headrace import stream, utf8

app = stream.App("shop", key=utf8, value=utf8)
app.stream("orders").to("copies")
"""
# In this order: some lines need what others made. {data}, {bootstrap} and {as_admin} are of the cluster.
LINES = [
    "topic create orders -p 2 -r 2",
    "produce orders",
    "bench produce --records 200 {as_admin}",
    "bench consume --records 200 {as_admin}",
    "bench latency --duration 0.2 --throughput 500 {as_admin}",
    "bench mixed --records 200 {as_admin}",
    "acl list",
    "acl lint",
    "acl explain --user ann --operation read --topic orders",
    "acl delete --topic orders",
    "audit",
    "balance --sample 0",
    "client-metrics list",
    "client-metrics describe",
    "cluster api-versions",
    "cluster endpoints",
    "cluster endpoints --controllers",
    "cluster id",
    "config alter --topic orders --set retention.ms=3600000",
    "config describe",
    "config describe --topic orders --all --verbose",
    "config keys",
    "debug bundle -f bundle.tar.gz",
    "doctor",
    "doctor -c server.properties",
    "feature list",
    "feature versions",
    "feature upgrade --dry-run",
    "group reset billing -t orders --to-earliest --new-group --execute",
    "group list",
    "group describe --all",
    "group members --all",
    "group validate-regex 'ord.*'",
    "lag billing",
    "group delete-offsets billing -t orders:1",
    "group tasks shop",
    "kafka-tools",
    "kafka-tools -o json kafka-groups --list",
    "log dirs",
    "log dirs -t orders",
    "log dump {data}",
    "metadata cat {data} /topics",
    "metadata find {data} /",
    "metadata log {data}",
    "metadata ls {data} /",
    "metadata tree {data} /",
    "namespace list",
    "namespace describe shop.",
    "node list",
    "node drain 2",
    "node drain 2 --cancel",
    "node remove 2 --dry-run",
    "partition elect --preferred --all",
    "partition move-dir {data}/node-1 --node 1 -t orders -p 0",
    "partition reassign --generate -t orders",
    f"partition reassign --execute '{PLAN}'",
    f"partition reassign --verify '{PLAN}' --wait",
    "partition reassign --list",
    "partition recover --dry-run",
    "partition verify orders",
    "quorum status",
    "quota describe",
    "role list",
    "role describe readers",
    "status -b {bootstrap}",
    f"storage format new --cluster-id {CLUSTER_ID} --node 7",
    "storage info new",
    "security ray-env --cluster stopped",
    "security status --cluster stopped",
    "status --cluster stopped",
    "stream describe shop_to_show:app",
    "stream diff shop_to_show:app",
    "stream reset shop -t orders",
    "stream run shop_to_show:none",
    "token create",
    "token list",
    "topic list",
    "topic describe orders",
    "topic offsets orders",
    "topic delete-records orders --offset end --yes",
    "txn list",
    "txn describe etl-1",
    "txn producers orders",
    "txn find-hanging --all",
    "user list",
    "version",
]
# Other exit codes: what the lines name does not exist, or has a problem.
FAILING = {
    "doctor -c server.properties": 1,
    "group tasks shop": 3,
    "status --cluster stopped": 1,
    "stream run shop_to_show:none": 2,
    "txn describe etl-1": 3,
    "node remove 2 --dry-run": 1,  # the only other node has the other replica
}
SETUP = (
    "acl create --user ann --operation read --topic orders",
    "client-metrics alter --name m --interval 5000",
    "namespace set shop. --max-topics 5",
    "quota alter --user ann --set producer_byte_rate=1000000",
    "role create readers",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.LocalCluster]:
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "shop_to_show.py").write_text(APPLICATION)
    (folder / "server.properties").write_text("node.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    with headrace.local(
        nodes=2,
        data_dir=str(folder / "data"),
        security=headrace.Security(users={"admin": secrets.token_hex(8)}),
        authorizer_class_name=AUTHORIZER,
        super_users="User:admin",
        delegation_token_secret_key=secrets.token_hex(16),
    ) as running:
        yield running


@pytest.fixture
def shell(
    cluster: headrace.LocalCluster, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """With the address and the user of the cluster in the environment; another one on Ray has ended."""
    monkeypatch.setenv("HEADRACE_HOME", str(cluster.data_dir.parent / "home"))
    stopped = ClusterFile("stopped", "127.0.0.1:1", ("h:2",), 1, "/d", ray_env={"RAY_AUTH_MODE": "disabled"})
    write_cluster_file(stopped)
    monkeypatch.chdir(cluster.data_dir.parent)
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", cluster.bootstrap)
    for key, value in cluster._config_of_client({}, {}).items():
        monkeypatch.setenv(f"HEADRACE_{key.upper().replace('.', '_')}", str(value))
    return command_line


def name_of(line: str) -> str:
    """The command of a line: its longest name in the table."""
    return max((name for name in TABLE if f"{line} ".startswith(f"{name} ")), key=len)


def test_every_command_has_a_line() -> None:
    """Here or in the named module, which has the words of the command."""
    assert {name_of(line) for line in LINES} | set(ELSEWHERE) == set(TABLE)
    root = Path(__file__).parents[2]
    for name, path in ELSEWHERE.items():
        text = (root / path).read_text()
        assert all(f'"{word}"' in text for word in name.split()), f"{path} does not run `{name}`"


def test_outputs_have_their_schemas(cluster: headrace.LocalCluster, shell: CommandLine) -> None:
    for line in SETUP:
        code, _, err = shell(*line.split())
        assert code == 0, f"{line}: {err}"
    # Workers of bench are forks of a server that may be older than the environment of this test.
    client = cluster.data_dir.parent / "client.properties"
    client.write_text("".join(f"{key}={value}\n" for key, value in cluster._config_of_client({}, {}).items()))
    places = {
        "data": cluster.data_dir,
        "bootstrap": cluster.bootstrap,
        "as_admin": f"-b {cluster.bootstrap} --command-config {client}",
    }
    wrong = []
    for line in LINES:
        text = line
        for name, place in places.items():
            text = text.replace(f"{{{name}}}", str(place))
        words = shlex.split(text)
        form = () if "json" in words else ("-o", "json")
        try:
            code, out, err = shell(*words, *form, data=b"a\nb\n")
            checked((*words, *form), out)  # also with another exit code
        except Exception as error:  # noqa: BLE001 - of the validation; all lines are reported
            wrong.append(f"{line}: {str(error)[:500]}")
            continue
        if code != FAILING.get(line, 0) or (not code and line != "stream diff shop_to_show:app" and not out):
            wrong.append(f"{line}: exit code {code}\n{err[-500:]}")
    assert not wrong, "\n".join(wrong)


class Terminal(io.StringIO):
    """Standard error, as a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_not_part_of_the_result(shell: CommandLine) -> None:
    """Standard error is a terminal, standard output is not: `consume -e > file` has records only."""
    assert shell("topic", "create", "lines")[0] == 0
    with contextlib.redirect_stderr(Terminal()) as terminal:
        assert shell("produce", "lines", data=b"a\nb\n")[0] == 0
        assert shell("consume", "lines", "-e")[:2] == (0, "a\nb\n")
        assert "reading" in terminal.getvalue()
        shown = len(terminal.getvalue())
        assert shell("consume", "lines", "-e", "-q")[:2] == (0, "a\nb\n")
        assert len(terminal.getvalue()) == shown


def test_yaml_is_the_same_data(shell: CommandLine) -> None:
    """Of rows, of an object and of a stream of rows."""
    for line in ("topic list", "cluster id", "config keys"):
        assert yaml.safe_load(shell(*line.split(), "-o", "yaml")[1]) == shell.json(*line.split())
