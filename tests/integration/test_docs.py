"""What the README and the pages of docs/ show works as it is printed there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import headrace
import pytest
from headrace import TopicPartition
from headrace.services.cli.main import run
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

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


PAGES = ("README.md", "docs/CLIENTS.md", "docs/PIPELINE.md")
PROGRAMS = [
    (page, number)
    for page in PAGES
    for number, program in enumerate(blocks(page, "python"))
    if "headrace.spark" not in program  # those run in tests/spark4 and tests/spark35
]
OPERATING = [place for place in PROGRAMS if "headrace.connect()" in blocks(place[0], "python")[place[1]]]


def run_program(program: str, **environment: str) -> str:
    """What it prints, in a process of its own, warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env={**os.environ, **environment}
    )
    # librdkafka says on level 6 that it got an id to push its metrics under
    errors = [
        line for line in done.stderr.splitlines() if not re.match(r"%6\|\d+\.\d+\|GETSUBSCRIPTIONS\|", line)
    ]
    assert (done.returncode, errors) == (0, [])
    return done.stdout


@pytest.mark.parametrize(("page", "number"), [place for place in PROGRAMS if place not in OPERATING])
def test_a_program_of_a_page_runs(page: str, number: int) -> None:
    """On a cluster of its own; a coroutine `main` gets a cluster's address."""
    program = blocks(page, "python")[number]
    assert run_program(program + (CALL_MAIN if "async def main(" in program else ""))


@pytest.fixture(scope="module")
def operated() -> Iterator[headrace.LocalCluster]:
    """A cluster that has been running for a while: node 4 is down for good, "billing" has read orders."""
    with headrace.local(
        nodes=4, controllers=3, broker_session_timeout_ms=1_000, broker_heartbeat_interval_ms=100
    ) as cluster:
        admin = cluster.admin()
        cluster.kill_node(3)
        wait_for(lambda: len(admin.describe_cluster().nodes) == 3, "node 4 is fenced")
        admin.create_topics(headrace.NewTopic("orders", 3, 2)).raise_for_errors()
        cluster.producer().send_many("orders", [b"x"] * 100).raise_for_errors(timeout=500)
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 1}).raise_for_errors()
        cluster.producer(transactional_id="billing-1").init_transactions()
        yield cluster


@pytest.mark.parametrize(("page", "number"), OPERATING)
def test_what_operators_are_shown_works(operated: headrace.LocalCluster, page: str, number: int) -> None:
    """One after the other on one cluster, which is found by the environment."""
    run_program(blocks(page, "python")[number], HEADRACE_BOOTSTRAP=operated.bootstrap)


def test_all_programs_are_found() -> None:
    """The pattern that finds them still does."""
    assert len(PROGRAMS) >= 8
    assert len(OPERATING) >= 2


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
