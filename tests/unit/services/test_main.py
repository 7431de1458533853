"""The command line: options before and after the command, exit codes, one line per error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine
from headrace.protocol.errors import (
    ConfigError,
    DeliveryTimeoutError,
    HeadraceError,
    NetworkError,
    NotEnoughReplicasError,
    UnknownTopicOrPartitionError,
)
from headrace.services.cli.common import NotFoundError, PartialFailureError, Settings, absorb
from headrace.services.cli.main import exit_code_of, hint_of, message_of
from headrace.services.cluster_files_io import ClusterFile, UnknownClusterError, write_cluster_file

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["up", "-h"],
        ["consume", "--help"],
        ["topic", "-h"],
        ["version"],
        ["config", "keys"],
        ["--version"],
    ],
)
def test_help_and_version_need_no_cluster(arguments: list[str], command_line: CommandLine) -> None:
    """The exit code is 0."""
    code, out, _ = command_line(*arguments)
    assert code == 0
    assert out


def test_config_keys_as_json(command_line: CommandLine) -> None:
    """`config keys -o` has each key once per part, with the same default as docs/CONFIG.md."""
    rows = command_line.json("config", "keys")
    by_key = {(row["part"], row["key"]): row for row in rows}
    assert len(by_key) == len(rows)
    linger = by_key["Producer", "linger.ms"]
    assert (linger["default"], linger["unit"], linger["live"]) == ("5", "ms", False)
    code, out, _ = command_line("-o", "jsonl", "config", "keys")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["status", "--no-such-option"],
        ["-o", "xml", "status"],
        ["-X", "novalue", "status"],
        ["consume"],
        ["consume", "t", "-o", "sometime"],
        ["consume", "t", "-o", "1", "-o", "2"],
        ["consume", "t", "-f", "%x"],
        ["produce", "t", "-D", ""],
        ["produce", "t", "-z", "brotli"],
        ["config", "alter", "--topic", "t"],
        ["config", "alter", "--set", "segment.ms=1"],
        ["config", "alter", "--topic", "t", "--set", "segment.ms"],
        ["config", "alter", "--topic", "t", "--set", "segment.ms=1", "--delete", "segment.ms"],
        ["config", "describe", "--node", "one"],
        ["up", "--nodes", "0"],
        ["up", "--cluster", "No Name"],
        ["up", "-X", "num.partition=3"],
        ["-b", "h:1", "up"],  # would have no effect
        ["-b", "h:1", "version"],
        ["-X", "linger.ms=5", "status"],
        ["-X", "linger.ms=5", "log", "dump", "x"],
        ["--cluster", "x", "config", "keys"],
        ["-b", "h:1", "--cluster", "x", "topic", "list"],
    ],
)
def test_usage_errors_exit_with_2(arguments: list[str], command_line: CommandLine) -> None:
    """The error is on standard error, before any request and any process."""
    code, out, err = command_line(*arguments)
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments", [["status"], ["down"], ["status", "--cluster", "x"], ["down", "--cluster", "x"]]
)
def test_missing_cluster_exits_with_3(arguments: list[str], command_line: CommandLine) -> None:
    """The error is one line."""
    code, _, err = command_line(*arguments)
    assert code == 3
    assert err.startswith("headrace: no cluster")


def test_no_cluster_at_all_exits_with_3(command_line: CommandLine) -> None:
    """Not found rather than wrong usage; `down` does not suggest `up`."""
    for command, has_hint in (("topic list", True), ("status", True), ("down", False)):
        code, _, err = command_line(*command.split())
        assert (code, "headrace up" in err) == (3, has_hint), command


def test_headrace_cluster_applies_to_status_and_down(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As to clients; --cluster overrides it."""
    monkeypatch.setenv("HEADRACE_CLUSTER", "other")
    for command, name in (("status", "other"), ("down", "other"), ("status --cluster third", "third")):
        code, _, err = command_line(*command.split())
        assert (code, f"'{name}'" in err) == (3, True), command


def test_quickstart_names_a_missing_input(command_line: CommandLine) -> None:
    """A missing file is not found."""
    code, _, err = command_line("quickstart", "--input", "/no/such/file")
    assert (code, "/no/such/file: No such file" in err) == (3, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownTopicOrPartitionError("x"), 3),
        (UnknownClusterError("x"), 3),
        (NotFoundError("x"), 3),
        (FileNotFoundError(2, "No such file", "x"), 3),
        (PartialFailureError("x"), 4),
        (ConfigError("x"), 2),
        (NetworkError("x"), 1),
        (HeadraceError("x"), 1),
        (ValueError("x"), 1),
        (OSError(5, "Input/output error", "x"), 1),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    """0 ok, 1 error, 2 usage, 3 not found, 4 partial."""
    assert exit_code_of(error) == code


def test_error_messages_are_one_line() -> None:
    """With Kafka's error name; a path precedes its error."""
    assert message_of(NetworkError("gone\n  away")) == "gone away [NetworkError]"
    assert message_of(OSError(13, "Permission denied", "/x")) == "/x: Permission denied"
    assert message_of(ValueError()) == "ValueError"


def test_common_errors_have_a_hint() -> None:
    """The hint is the next command."""
    assert "topic create" in (hint_of(UnknownTopicOrPartitionError("x")) or "")
    assert "headrace status" in (hint_of(NetworkError("x")) or "")
    assert hint_of(ValueError("x")) is None


def test_hint_of_a_delivery_timeout_is_that_of_its_cause() -> None:
    """A server has responded: whether the cluster is up is not the question."""
    error = DeliveryTimeoutError("t-0: not acknowledged")
    assert "headrace status" in (hint_of(error) or "")
    error.__cause__ = NotEnoughReplicasError("t-0 has 1 in-sync replicas")
    assert "topic describe" in (hint_of(error) or "")
    error.__cause__ = NetworkError("x")
    assert "headrace status" in (hint_of(error) or "")


def test_missing_extra_is_an_error_with_the_command_that_installs_it() -> None:
    """One line, no traceback."""
    code = (
        "import sys; sys.modules['jinja2'] = None; from headrace.services.cli.main import main;"
        " sys.argv = ['headrace', 'console', '-b', '127.0.0.1:1']; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "pip install 'headrace[console]'" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("up --nodes many", "'many' is not a valid integer."),
        ("topic list -b 127.0.0.1:1 -X sasl.usernme=ann", "did you mean 'sasl.username'?"),
        ("cluster id -o name", "'name' is not one of"),
        ("-o name cluster id -b h:1", "`headrace cluster id` has no -o name"),
        ("-o yaml consume t -b h:1", "`consume` prints text, json, jsonl, not yaml"),
    ],
)
def test_wrong_usage_names_what_is_right(command_line: CommandLine, line: str, message: str) -> None:
    code, _, err = command_line(*line.split())
    assert (code, message in err) == (2, True), err


def test_options_after_the_command_override_global_ones() -> None:
    """-X options add up."""
    settings = Settings()
    absorb(settings, {"bootstrap": "a:1", "config": {"x": "1", "y": "1"}, "form": "json"})
    rest = {"bootstrap": None, "config": {"y": "2"}, "form": None, "other": 5}
    absorb(settings, rest)
    assert (settings.bootstrap, settings.config, settings.form) == ("a:1", {"x": "1", "y": "2"}, "json")
    assert rest == {"other": 5}


def test_topic_create_takes_its_client_config_from_a_file(command_line: CommandLine, tmp_path: Path) -> None:
    """Its -X pairs are configs of the topic: a key of the file that no client has is a usage error."""
    path = tmp_path / "client.properties"
    path.write_text("# of alice\n\n sasl.username = alice\nsasl.pasword=a=b\n")
    code, _, err = command_line(
        "topic", "create", "t", "-b", "127.0.0.1:1", "--command-config", str(path), "-X", "segment.ms=1"
    )
    assert code == 2
    assert "sasl.pasword" in err


@pytest.mark.parametrize("content", [None, "sasl.username\n", "=alice\n"])
def test_unreadable_command_config_is_a_usage_error(
    command_line: CommandLine, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_text(content)
    code, _, err = command_line("topic", "list", "-b", "127.0.0.1:1", "--command-config", str(path))
    assert code == 2
    assert str(path) in err


def test_pairs_override_the_command_config() -> None:
    """Commands whose -X pairs are something else have the file alone."""
    settings = Settings(bootstrap="h:1")
    absorb(settings, {"command_config": {"client.id": "a", "sasl.username": "alice"}})
    absorb(settings, {"config": {"client.id": "b"}, "command_config": None})
    assert settings.client_config()["client.id"] == "b"
    assert settings.given_config() == {"client.id": "b", "sasl.username": "alice"}
    assert settings.client_config_without_pairs()["client.id"] == "a"


def test_command_line_does_not_import_ray_or_rich() -> None:
    """Ray takes a second to import: only commands that need it do so."""
    heavy = "[m for m in ('ray', 'rich', 'zmq', 'uvloop') if m in sys.modules]"
    code = f"import sys, headrace.services.cli.main; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _secured_cluster(tmp_path: Path) -> str:
    """A cluster of this machine with a user admin; the path of its servers' keys."""
    folder = tmp_path / "data" / "security"
    folder.mkdir(parents=True)
    trusted = str(folder / "trusted.keys")
    admin = {"security.protocol": "SASL_SSL", "trusted.server.keys.file": trusted, "sasl.username": "admin"}
    (folder / "admin.properties").write_text("".join(f"{name}={value}\n" for name, value in admin.items()))
    write_cluster_file(ClusterFile("default", "h:1", ("h:2",), 1, str(tmp_path / "data")))
    return trusted


@pytest.mark.parametrize(
    ("given", "has_keys"),
    [
        ({"sasl.username": "alice", "sasl.password": "p"}, True),
        ({"security.protocol": "SASL_SSL", "sasl.username": "alice"}, True),
        ({"sasl.username": "alice", "server.public.key": "k"}, False),
        ({"sasl.username": "alice", "trusted_server_keys_file": "own"}, False),
        ({"security.protocol": "PLAINTEXT"}, False),
    ],
)
def test_another_user_of_a_cluster_of_this_machine_trusts_its_servers(
    tmp_path: Path, given: dict[str, str], has_keys: bool
) -> None:
    """With the name and the password alone; nothing of the user admin is sent."""
    trusted = _secured_cluster(tmp_path)
    assert Settings().client_config()["sasl.username"] == "admin"
    config = Settings(command_config=given).client_config()
    assert config.get("trusted.server.keys.file") == (trusted if has_keys else None)
    assert config.get("sasl.username") == given.get("sasl.username")
    elsewhere = Settings(bootstrap="h:3", command_config=given).client_config()
    assert trusted not in elsewhere.values()


@pytest.mark.parametrize("command", ["create", "passwd"])
def test_a_password_without_a_terminal_needs_an_option(command_line: CommandLine, command: str) -> None:
    """Before anything is asked of the cluster."""
    code, _, err = command_line("user", command, "alice", "-b", "127.0.0.1:1")
    assert (code, "use --password-stdin" in err) == (2, True)
