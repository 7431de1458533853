"""What the README and the pages of docs/ show works as it is printed there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from headrace.services.cli.main import run

ROOT = Path(__file__).parents[2]
CALL_MAIN = """
import asyncio, headrace
with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("orders")).raise_for_errors()
    asyncio.run(main(cluster.bootstrap))
"""


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


PROGRAMS = [(page, number) for page in ("README.md", "docs/CLIENTS.md") for number in range(4)]
PROGRAMS = [(page, number) for page, number in PROGRAMS if number < len(blocks(page, "python"))]


@pytest.mark.parametrize(("page", "number"), PROGRAMS)
def test_a_program_of_a_page_runs(page: str, number: int) -> None:
    """In a process of its own, warnings as errors; a coroutine `main` gets a cluster's address."""
    program = blocks(page, "python")[number]
    program += CALL_MAIN if "async def main(" in program else ""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_all_programs_are_found() -> None:
    """The pattern that finds them still does."""
    assert len(PROGRAMS) >= 3


def test_the_options_of_the_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command of the README takes the options that are shown with it."""
    lines = [line for block in blocks("README.md", "") for line in block.splitlines()]
    commands = [line.partition("headrace ")[2] for line in lines if re.match(r"(echo .*\| )?headrace ", line)]
    assert len(commands) >= 6
    for command in commands:
        words = shlex.split(command, comments=True)
        assert run([*words, "--help"]) == 0, command
        text = capsys.readouterr().out
        for option in (word for word in words if word.startswith("-")):
            name = option if option.startswith("--") else option[:2]
            assert re.search(rf"(^|\s){name}\b", text), f"{command}: {option}"
