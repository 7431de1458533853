"""The last section of docs/TUTORIAL.md, played from its first command to its last one on a real Ray."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from headrace_command import Headrace
from pages import SHELL, Block, blocks, joined_lines, text_of

pytestmark = pytest.mark.ray

SECTION = "## 8. A cluster that stays: Ray and the command line"
TIMEOUT_S = 500


@pytest.fixture
def command(tmp_path: Path, ray_address: str) -> Iterator[Headrace]:
    """The command with a home of its own, for a Ray that runs, as the shell of a reader would find it."""
    command = Headrace(tmp_path, ray_address)
    command.environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        yield command
        command.wait_until_nothing_runs()
    finally:
        command.kill_all()


def play(command: Headrace, block: Block) -> str:
    """Run a program, or a block of commands line by line; what it printed. Fails with the first that does."""
    if block.language == "python":
        return output_of(command, [sys.executable, "-W", "error", "-c", block.text])
    printed = []
    for line in joined_lines(block.text):
        if line.startswith("headrace up "):  # on the Ray of the tests, and on loopback
            printed.append(command.up(*shlex.split(line)[2:])[0].decode())
        else:
            printed.append(output_of(command, ["sh", "-c", line]))
    return "".join(printed)


def output_of(command: Headrace, arguments: list[str]) -> str:
    done = subprocess.run(
        arguments, env=command.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def test_tutorial_runs_on_ray(command: Headrace) -> None:
    """Every command and program in order: the group has read all records, and nothing is left."""
    section = text_of("docs/TUTORIAL.md").partition(SECTION)[2]
    steps = [block for block in blocks(section) if block.language in ("python", SHELL)]
    printed = [play(command, step) for step in steps]
    assert [step.language for step in steps] == ["", "python", "", "python", "", "", ""]
    assert "running" in printed[0]
    assert printed[1].startswith("100")
    consumed = printed[2].splitlines()[:5]
    assert all(line.split()[2].startswith("customer-") for line in consumed)
    assert printed[3] == "101 records read\n"
    assert "billing" in printed[4]
    assert not list(command.home.rglob("*.json"))
