"""Shell completion: what is completed, with which user, and that it never fails at the prompt."""

import inspect
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import commands
from headrace.clients.sync import admin_io
from headrace.protocol.errors import NetworkError
from headrace.services.cli import completion
from headrace.services.cli.main import cli
from headrace.services.cluster_files_io import ClusterFile, write_cluster_file

# Values that exist in a cluster, by the name of the parameter. New resources get another meaning of the name.
NAMED = {
    **dict.fromkeys(("node_id", "nodes", "excluded"), "node_ids"),
    **dict.fromkeys(("topic", "topics"), "topic_names"),
    **dict.fromkeys(("group", "groups", "application_id"), "group_names"),
}
# These values are new names, ids of this machine, or patterns of rules, which need not exist.
FREE = {
    *("acl create", "acl delete", "acl explain", "acl list", "quota alter", "quota describe"),
    *("storage format", "stream scale", "stream stop", "up", "doctor", "partition reassign"),
    *("bench consume", "bench latency", "bench mixed", "bench produce"),
}


def test_names_of_resources_are_completed() -> None:
    """A new command with a topic, a group or a node takes the function of `completion`."""
    wrong = [
        f"{name}: {parameter.name}"
        for name, command in commands()
        if name not in FREE
        for parameter in command.params
        if parameter.name in NAMED
        and parameter._custom_shell_complete is not getattr(completion, NAMED[parameter.name])
    ]
    assert wrong == []


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The configs with which a client was made; each fails to connect."""
    found: list[dict[str, Any]] = []

    def refuse(where: str | None, config: dict[str, str]) -> None:
        found.append({"where": where, **config})
        raise NetworkError("nothing listens")

    monkeypatch.setattr(admin_io, "Admin", refuse)
    return found


FUNCTIONS = [
    each
    for name, each in inspect.getmembers(completion, inspect.isfunction)
    if not name.startswith("_") and "incomplete" in inspect.signature(each).parameters
]


def context(*words: str) -> click.Context:
    """Of a command line that is being typed."""
    top = cli.make_context("headrace", list(words), resilient_parsing=True)
    command = cli.get_command(top, "version")
    assert command is not None
    return command.make_context("version", [], parent=top, resilient_parsing=True)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_failing_cluster_completes_nothing(
    function: Any, clusters: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """No exception and no message, with and without a cluster."""
    parameter = click.Argument(["x"])
    assert function(context("-b", "h:1"), parameter, "zzz") == []
    assert function(context(), parameter, "zzz") == []
    assert capsys.readouterr() == ("", "")
    assert len(clusters) <= 1  # without an address no client is made


@pytest.mark.usefixtures("home")
def test_secured_cluster_is_asked_with_its_user(tmp_path: Path, clusters: list[dict[str, Any]]) -> None:
    """The user admin of a cluster of this machine, or that of --command-config; for a second at most."""
    folder = tmp_path / "data" / "security"
    folder.mkdir(parents=True)
    (folder / "admin.properties").write_text("security.protocol=SASL_SSL\nsasl.username=admin\n")
    write_cluster_file(ClusterFile("default", "h:1", ("h:2",), 1, str(tmp_path / "data")))
    completion.topic_names(context("--cluster", "default"), click.Argument(["x"]), "")
    completion.topic_names(context("-b", "h:3", "-X", "sasl.username=ann"), click.Argument(["x"]), "")
    assert [(each["where"], each["sasl.username"]) for each in clusters] == [("h:2", "admin"), ("h:3", "ann")]
    assert {each["default.api.timeout.ms"] for each in clusters} == {str(completion.ASK_TIMEOUT_MS)}
