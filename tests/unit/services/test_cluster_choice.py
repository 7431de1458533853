"""Which cluster a command acts on when none is named, and the effect that every command declares."""

import socket
from collections.abc import Iterator

import click
import pytest
from command_line import CommandLine, commands
from headrace.services.cli.common import Effect, NotFoundError, Settings, effect_of
from headrace.services.cluster_files_io import ClusterFile, UnknownClusterError, write_cluster_file

pytestmark = pytest.mark.usefixtures("home")
# A complete command line of every command that reads. Those of NEEDS_NO_CLUSTER connect to none, and
# `status` is about the default cluster, because scripts start it when `status` fails.
NEEDS_NO_CLUSTER = {
    "server status",
    "deploy systemd",
    *("version", "config keys", "log dump", "completion", "stream describe", "kafka-tools", "schema"),
    *("telemetry dashboards", "telemetry rules"),
    *("feature versions", "group validate-regex", "storage info", "storage random-uuid"),
    *("metadata cat", "metadata find", "metadata log", "metadata ls", "metadata shell", "metadata tree"),
}
NEVER_FALLS_BACK = {"status", "security ray-env", "security status", "telemetry targets"}
READING = {
    "acl explain": "--user ann --operation read --topic orders",
    "acl lint": "",
    "acl list": "",
    "token list": "",
    "user list": "",
    "client-metrics describe": "",
    "client-metrics list": "",
    "cluster api-versions": "",
    "cluster endpoints": "",
    "cluster id": "",
    "completion": "bash",
    "config describe": "",
    "config keys": "",
    "consume": "orders -e",
    "debug bundle": "-f /dev/null/none",
    "deploy systemd": "",
    "doctor": "",
    "feature list": "",
    "feature versions": "",
    "group describe": "--all",
    "group list": "",
    "group members": "--all",
    "group tasks": "shop",
    "lag": "",
    "group validate-regex": "ord.*",
    "kafka-tools": "",
    "log dirs": "",
    "log dump": "",
    "metadata cat": "",
    "metadata find": "",
    "metadata log": "",
    "metadata ls": "",
    "metadata shell": "",
    "metadata tree": "",
    "namespace describe": "shop.",
    "namespace list": "",
    "node list": "",
    "partition verify": "orders",
    "quorum status": "",
    "quota describe": "",
    "role describe": "readers",
    "role list": "",
    "audit": "",
    "security ray-env": "",
    "schema": "",
    "security status": "",
    "server status": "-c pyproject.toml",
    "telemetry dashboards": "overview",
    "telemetry rules": "",
    "telemetry targets": "",
    "status": "",
    "storage info": "",
    "storage random-uuid": "",
    "stream describe": "copying_app:app",
    "stream diff": "copying_app:app",
    "stream query": "shop counts ann",
    "stream serve": "shop",
    "stream status": "shop",
    "stream top": "shop --count 1",
    "topic describe": "orders",
    "topic list": "",
    "topic offsets": "orders",
    "txn describe": "id",
    "txn find-hanging": "--all",
    "txn list": "",
    "txn producers": "orders",
    "version": "",
}
# A complete command line of every command that can change something. Those of HAS_OWN_CLUSTER start one.
HAS_OWN_CLUSTER = {
    *("up", "quickstart", "server node", "server controller", "server format", "storage format"),
}
CHANGING = {
    "acl create": "--user ann --operation read --topic orders",
    "acl delete": "--topic orders",
    "token create": "",
    "token expire": "aGk=",
    "token renew": "aGk=",
    "user create": "ann --password-stdin",
    "user delete": "ann",
    "user passwd": "ann --password-stdin",
    "balance": "--execute",
    "bench consume": "",
    "bench latency": "",
    "bench mixed": "",
    "bench produce": "",
    "client-metrics alter": "--name m --interval 5000",
    "client-metrics delete": "--name m",
    "config alter": "--topic orders --set segment.ms=5",
    "down": "",
    "feature set": "security.version 2",
    "feature upgrade": "",
    "group delete": "billing --yes",
    "group delete-offsets": "billing -t orders",
    "group reset": "billing -t orders --to-latest --execute",
    "namespace delete": "shop.",
    "namespace set": "shop. --max-topics 5",
    "node drain": "1",
    "node remove": "1 --yes",
    "node unregister": "1 --yes",
    "partition elect": "--preferred --all",
    "partition move-dir": "/data --node 1 -t orders -p 0",
    "partition reassign": "--list",
    "partition recover": "--yes",
    "produce": "orders",
    "quickstart": "",
    "quorum add-voter": "2 host:1",
    "quorum remove-voter": "2",
    "restart": "",
    "security rotate": "",
    "storage format": "",
    "role create": "readers",
    "role delete": "readers",
    "role grant": "readers --user ann",
    "console": "--port 0",
    "rest": "--port 0",
    "role revoke": "readers --user ann",
    "quota alter": "--user ann --set producer_byte_rate=5",
    "server controller": "",
    "server format": "",
    "server node": "",
    "stream reset": "shop -t orders --to-earliest --execute",
    "stream run": "copying_app:app",
    "stream scale": "shop 2",
    "stream stop": "shop",
    "topic add-partitions": "orders 5",
    "topic create": "orders",
    "topic delete": "orders --yes",
    "topic delete-records": "orders --offset end --yes",
    "txn abort": "-t orders -p 0 --start-offset 5 --yes",
    "txn abort-prepared": "id --yes",
    "up": "",
    "verifiable consume": "orders --group-id g",
    "verifiable produce": "orders --max-messages 1",
}


def up(name: str, *bootstrap: str) -> None:
    write_cluster_file(ClusterFile(name, "127.0.0.1:1", bootstrap, 1, "/data"))


@pytest.fixture
def two() -> Iterator[socket.socket]:
    """The listener of the only cluster of this machine, `two`; nothing answers on it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        up("two", f"127.0.0.1:{listener.getsockname()[1]}")
        listener.setblocking(False)
        yield listener


def test_every_command_declares_its_effect() -> None:
    """A new command declares whether it reads or changes, and has a command line in the tables above."""
    declared = {name: effect_of(command) for name, command in commands()}
    expected = dict.fromkeys(READING, Effect.READS) | dict.fromkeys(CHANGING, Effect.CHANGES)
    assert declared == expected


@pytest.mark.parametrize("name", sorted(CHANGING.keys() - HAS_OWN_CLUSTER))
def test_changing_command_never_falls_back(two: socket.socket, name: str, command_line: CommandLine) -> None:
    """`default` is down and `two` is up: not found, `two` is named, and nothing has connected to it."""
    code, out, err = command_line(*name.split(), *CHANGING[name].split())
    assert (code, out) == (3, "")
    assert "no cluster 'default'" in err
    assert "two" in err
    with pytest.raises(BlockingIOError):
        two.accept()


@pytest.mark.parametrize("name", sorted(READING.keys() - NEEDS_NO_CLUSTER - NEVER_FALLS_BACK))
def test_reading_command_names_the_cluster_it_fell_back_to(
    two: socket.socket, name: str, command_line: CommandLine
) -> None:
    """`default` is down and `two` is up: a reading command uses `two` and names it on standard error."""
    code, _, err = command_line(*name.split(), *READING[name].split(), "-X", "default.api.timeout.ms=50")
    assert code == 1
    assert err.splitlines()[0] == (
        "no cluster 'default' is up: reading from cluster 'two' (--cluster names one)"
    )


def test_status_never_falls_back(two: socket.socket, command_line: CommandLine) -> None:
    """`headrace status || headrace up` starts the default cluster although another one is up."""
    code, _, err = command_line("status")
    assert (code, "--cluster: two" in err) == (3, True)
    with pytest.raises(BlockingIOError):
        two.accept()


@pytest.mark.parametrize("effect", list(Effect))
def test_named_and_default_clusters_cause_no_message(
    effect: Effect, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--cluster, HEADRACE_CLUSTER, or the default cluster."""
    up("two", "h:2")
    up("three", "h:3")
    assert Settings(cluster="two", effect=effect).addresses() == "h:2"
    monkeypatch.setenv("HEADRACE_CLUSTER", "three")
    assert Settings(effect=effect).addresses() == "h:3"
    monkeypatch.delenv("HEADRACE_CLUSTER")
    up("default", "h:1", "h:4")
    assert Settings(effect=effect).addresses() == "h:1,h:4"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("effect", list(Effect))
def test_a_named_cluster_that_is_not_up_is_never_replaced(
    effect: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the default cluster nor by the only one."""
    up("two", "h:2")
    monkeypatch.setenv("HEADRACE_CLUSTER", "three")
    with pytest.raises(UnknownClusterError, match=r"'three'.*two"):
        Settings(effect=effect).addresses()


@pytest.mark.parametrize("effect", list(Effect))
def test_one_of_several_clusters_must_be_named(effect: Effect) -> None:
    """No command chooses one of several clusters."""
    up("two", "h:2")
    up("three", "h:3")
    with pytest.raises(UnknownClusterError, match="--cluster: three, two"):
        Settings(effect=effect).addresses()


def test_explicit_addresses_override_local_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """-b, then HEADRACE_BOOTSTRAP (which the clients read); --cluster overrides the variable."""
    up("two", "h:2")
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", "h:9")
    assert Settings().addresses() is None
    assert Settings(bootstrap="h:8").addresses() == "h:8"
    assert Settings(cluster="two").addresses() == "h:2"
    with pytest.raises(click.UsageError, match="exclude each other"):
        Settings(bootstrap="h:8", cluster="two").addresses()


def test_starting_cluster_is_not_found() -> None:
    """Its file exists before the nodes have addresses."""
    up("default")
    with pytest.raises(
        NotFoundError, match=r"still starting: .*headrace up.* repeat it if it was interrupted"
    ):
        Settings().addresses()
