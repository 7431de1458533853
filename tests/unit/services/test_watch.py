"""--watch of commands that list and describe."""

import json

import click
import pytest
from command_line import CommandLine
from fake_cluster import FakeCluster
from headrace.protocol.errors import HeadraceError
from headrace.services.cli.common import NotFoundError
from headrace.services.cli.watch import Watch


@pytest.fixture
def fake() -> FakeCluster:
    fake = FakeCluster(1, latency_ms=0)
    fake.create("t", 1)
    return fake


def test_watch_repeats_a_command(shell: CommandLine, fake: FakeCluster) -> None:
    """Refreshes are separated by an empty line where there is no terminal to clear."""
    code, out, _ = shell("topic", "list", "--watch", "--interval", "0.1", "--count", "3", "-o", "jsonl")
    assert code == 0
    assert [json.loads(line)["topic"] for line in out.splitlines() if line] == ["t"] * 3
    assert out.count("\n\n") == 2


def test_count_without_watch_is_refused(shell: CommandLine, fake: FakeCluster) -> None:
    code, _, err = shell("topic", "list", "--count", "3")
    assert code == 2
    assert "--count belongs to --watch" in err


def test_watch_ends_at_an_error(shell: CommandLine, fake: FakeCluster) -> None:
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
