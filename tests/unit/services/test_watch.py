"""--watch of commands that list and describe."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from typing import IO

import click
import pytest
from command_line import CommandLine
from fake_cluster import FakeCluster
from headrace.protocol.errors import HeadraceError
from headrace.services.cli.common import NotFoundError
from headrace.services.cli.watch import Watch

TURNS = ("--watch", "--interval", "0.1", "--count", "3")
# A command that fails in its second turn, watched until a signal.
PROGRAM = """
import click
from headrace.protocol.errors import HeadraceError
from headrace.services.cli import main
from headrace.services.cli.common import form_option, reading_command
from headrace.services.cli.output import print_rows
from headrace.services.cli.watch import watchable

turns = 0

@main.cli.command("turns")
@reading_command(form_option)
@watchable
def show(settings):
    global turns
    turns += 1
    if turns == 2:
        raise HeadraceError("a node restarts")
    print_rows([{"turn": turns}], ("turn",), settings.form)

raise SystemExit(main.run(["turns", "--watch", "--interval", "0.1"]))
"""


@pytest.fixture
def fake() -> FakeCluster:
    fake = FakeCluster(1, latency_ms=0)
    fake.create("t", 1)
    return fake


def test_watch_repeats_a_command(shell: CommandLine, fake: FakeCluster) -> None:
    """Refreshes are separated by an empty line where there is no terminal."""
    code, out, _ = shell("topic", "list", *TURNS)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line] == ["TOPIC", "t"] * 3
    assert out.count("\n\n") == 2


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_watched_json_is_a_line_per_turn(shell: CommandLine, fake: FakeCluster, form: str) -> None:
    """Of a list with -o json; with jsonl a line per row."""
    code, out, _ = shell("topic", "list", *TURNS, "-o", form)
    assert code == 0
    row = {"topic": "t", "partitions": 1, "id": fake.topics["t"].topic_id.hex()}
    turns = [json.loads(line) for line in out.splitlines()]
    assert [turn[0] if form == "json" else turn for turn in turns] == [row] * 3


def test_count_without_watch_is_refused(shell: CommandLine, fake: FakeCluster) -> None:
    code, _, err = shell("topic", "list", "--count", "3")
    assert code == 2
    assert "--count belongs to --watch" in err


def test_error_of_the_first_turn_ends_the_watch(shell: CommandLine, fake: FakeCluster) -> None:
    assert shell("topic", "describe", "nowhere", "--watch", "--count", "9")[0] == 3


def test_failed_refresh_is_followed_by_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    """A node may be restarting. The first refresh must not fail; the exit code is that of the last one."""
    outcomes: list[HeadraceError | None] = [None, NotFoundError("no leader"), None, NotFoundError("gone")]
    left = outcomes[:]

    def refresh() -> None:
        error = left.pop(0)
        if error is not None:
            raise error

    with pytest.raises(click.exceptions.Exit) as end:
        Watch(True, 0.0, 3).run(refresh)
    assert (end.value.exit_code, capsys.readouterr().err) == (0, "headrace: no leader\n")
    left[:] = outcomes[:2]
    with pytest.raises(click.exceptions.Exit) as end:
        Watch(True, 0.0, 2).run(refresh)
    assert end.value.exit_code == 1
    left[:] = outcomes[3:]
    with pytest.raises(NotFoundError, match="gone"):
        Watch(True, 0.0, 2).run(refresh)


def read_until(output: IO[bytes], pattern: bytes) -> bytes:
    """The output up to and with the pattern. Errors: AssertionError if a hundred turns do not have it."""
    shown = b""
    for _ in range(100):
        shown += output.read(65_536)
        if re.search(pattern, shown, re.S):
            return shown
    raise AssertionError(shown)


def test_interrupt_restores_the_terminal_and_exits_with_130() -> None:
    """Turns replace each other on the alternate screen; the error of a later turn is a message in it."""
    master, terminal = pty.openpty()
    with open(master, "rb", buffering=0) as output, open(terminal, "wb", buffering=0) as end:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdout=end,
            stderr=end,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TERM": "xterm", "LINES": "20", "COLUMNS": "80"},
            start_new_session=True,
        )
        shown = read_until(output, rb"a node restarts.*turn.*3\D")
        process.send_signal(signal.SIGINT)
        shown += read_until(output, b"interrupted")
        assert process.wait(60) == 130
    text = shown.decode()
    assert text.index("\x1b[?1049h\x1b[?25l") < text.index("turn")
    assert text.index("\x1b[?25h\x1b[?1049l") < text.index("interrupted")
    assert text.count("\x1b[?1049h") == text.count("\x1b[?1049l") == 1
