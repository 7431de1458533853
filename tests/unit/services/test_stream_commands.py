"""`headrace stream run` and `describe`: the application that a name gives, and the drawing."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine
from headrace.services.cli.common import Settings
from headrace.services.cli.stream_workers import app_config

APPLICATION = """
from headrace import stream, utf8

app = stream.App("shop", key=utf8, value=utf8)
app.stream("orders").to("copies")

def made():
    return app

other = 5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module in the current folder, which only this test imports."""
    name = f"app_of_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(APPLICATION)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize("name", ["app", "made"])
def test_describe_shows_the_topology_of_an_app_or_of_a_function(
    command_line: CommandLine, module: str, name: str
) -> None:
    """The text is Kafka's; the drawing goes to a file."""
    code, out, err = command_line("stream", "describe", f"{module}:{name}", "--svg", "t.svg")
    assert (code, out.splitlines()[:3]) == (
        0,
        ["Topologies:", "   Sub-topology: 0", "    Source: KSTREAM-SOURCE-0000000000 (topics: [orders])"],
    )
    assert "t.svg" in err
    assert Path("t.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("{}", "is not MODULE:APP"),
        ("{}:", "is not MODULE:APP"),
        ("absent_module:app", "there is no module 'absent_module'"),
        ("{}.inner:app", "there is no module"),
        ("{}:other", "is int, not a headrace.stream.App"),
        ("{}:absent", "has no 'absent'"),
        ("{}:mode", "did you mean 'made'?"),
    ],
)
def test_a_name_that_gives_no_app_is_explained(
    command_line: CommandLine, module: str, target: str, text: str
) -> None:
    """For `describe` and for `run`, before a cluster is searched."""
    commands = ("describe", "run") if ":" in target else ("run",)  # without a colon it is an id
    for command in commands:
        code, _, err = command_line("stream", command, target.format(module))
        assert code in (1, 2)
        assert text in err


def test_an_import_error_of_the_module_itself_is_shown(
    command_line: CommandLine, module: str, tmp_path: Path
) -> None:
    """A module that is missing inside of the application is named, not the application."""
    (tmp_path / f"{module}.py").write_text("import a_library_that_is_absent\n")
    code, _, err = command_line("stream", "describe", f"{module}:app")
    assert code != 0
    assert "a_library_that_is_absent" in err


def test_the_command_config_is_that_of_all_clients_of_an_application() -> None:
    """-X pairs are keys of the application, and override it."""
    settings = Settings(
        command_config={"sasl.username": "alice"}, config={"admin.sasl.username": "bob", "poll.ms": "5"}
    )
    assert app_config(settings) == {
        "admin.sasl.username": "bob",
        "consumer.sasl.username": "alice",
        "producer.sasl.username": "alice",
        "poll.ms": "5",
    }
