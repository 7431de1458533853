"""The command line as a whole: options before and after the command, exit codes, one clear line per error."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import (
    ConfigError,
    HeadraceError,
    NetworkError,
    UnknownTopicOrPartitionError,
)
from headrace.services.cli.common import NotFoundError, PartialFailureError, Settings, absorb
from headrace.services.cli.main import exit_code_of, hint_of, message_of, run
from headrace.services.cluster_files_io import UnknownClusterError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    for name in ("HEADRACE_BOOTSTRAP", "HEADRACE_CLUSTER"):
        monkeypatch.delenv(name, raising=False)


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
def test_what_always_works(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help and version need no cluster."""
    assert run(arguments) == 0
    assert capsys.readouterr().out


def test_config_keys_can_be_read_by_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """`config keys -o` has each key once per part, with the same default as docs/CONFIG.md."""
    assert run(["config", "keys", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    by_key = {(row["part"], row["key"]): row for row in rows}
    assert len(by_key) == len(rows)
    linger = by_key["Producer", "linger.ms"]
    assert (linger["default"], linger["unit"], linger["live"]) == ("5", "ms", False)
    assert run(["-o", "jsonl", "config", "keys"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows


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
def test_wrong_usage_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line is told on standard error, before anything is asked or started."""
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    "arguments", [["status"], ["down"], ["status", "--cluster", "x"], ["down", "--cluster", "x"]]
)
def test_a_cluster_that_is_not_there_is_3(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Not found, in one line."""
    assert run(arguments) == 3
    assert capsys.readouterr().err.startswith("headrace: no cluster")


def test_without_any_cluster_it_is_3(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was named and nothing is there: not found rather than wrong usage. `down` offers no `up`."""
    assert run(["topic", "list"]) == 3
    assert "headrace up" in capsys.readouterr().err
    assert run(["status"]) == 3
    assert "headrace up" in capsys.readouterr().err
    assert run(["down"]) == 3
    assert "headrace up" not in capsys.readouterr().err


def test_headrace_cluster_names_the_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that clients heed holds for `status` and `down` as well; --cluster wins."""
    monkeypatch.setenv("HEADRACE_CLUSTER", "other")
    for command in ("status", "down"):
        assert run([command]) == 3
        assert "'other'" in capsys.readouterr().err
    assert run(["status", "--cluster", "third"]) == 3
    assert "'third'" in capsys.readouterr().err


def test_quickstart_names_a_missing_input(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is not found."""
    assert run(["quickstart", "--input", "/no/such/file"]) == 3
    assert "/no/such/file: No such file" in capsys.readouterr().err


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


def test_messages_are_one_line() -> None:
    """Kafka's name helps to search for it; a path stands in front of what is wrong with it."""
    assert message_of(NetworkError("gone\n  away")) == "gone away [NetworkError]"
    assert message_of(OSError(13, "Permission denied", "/x")) == "/x: Permission denied"
    assert message_of(ValueError()) == "ValueError"


def test_hints_where_there_is_something_to_do() -> None:
    """What to do about the usual troubles."""
    assert "topic create" in (hint_of(UnknownTopicOrPartitionError("x")) or "")
    assert "headrace status" in (hint_of(NetworkError("x")) or "")
    assert hint_of(ValueError("x")) is None


def test_options_after_the_command_win() -> None:
    """Global options may stand before or after the command; -X adds up."""
    settings = Settings()
    absorb(settings, {"bootstrap": "a:1", "config": {"x": "1", "y": "1"}, "form": "json"})
    rest = {"bootstrap": None, "config": {"y": "2"}, "form": None, "other": 5}
    absorb(settings, rest)
    assert (settings.bootstrap, settings.config, settings.form) == ("a:1", {"x": "1", "y": "2"}, "json")
    assert rest == {"other": 5}


def test_the_command_line_starts_without_heavy_imports() -> None:
    """Ray takes a second to import, rich and the clients some: only commands that need them pay."""
    heavy = "[m for m in ('ray', 'rich', 'zmq', 'uvloop') if m in sys.modules]"
    code = f"import sys, headrace.services.cli.main; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
