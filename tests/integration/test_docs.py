"""Every Python block of the README and of docs/ runs as printed."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import headrace
import pytest
from command_line import CommandLine
from forking import run_forked
from headrace import TopicPartition
from pages import PAGES, SHELL, blocks, programs, text_of
from waiting import wait_for

CALL_MAIN = """
import asyncio, headrace
with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("orders")).raise_for_errors()
    asyncio.run(main(cluster.bootstrap))
"""
# On a loaded machine the servers warn about stalls, which the page's program has not caused.
QUIET_SERVERS = """
import logging
for name in ("headrace.controller", "headrace.storage_node"):
    logging.getLogger(name).setLevel(logging.ERROR)
"""
TUTORIAL = "docs/TUTORIAL.md"
# kafka-python reads its schemas by functions of importlib that Python 3.11 deprecates and 3.13 has again.
KAFKA_PYTHON_CALLS = ("read_text", "open_text")
PROGRAMS = [
    (page, number)
    for page in PAGES
    for number, program in enumerate(programs(page))
    if "headrace.spark" not in program  # those run in tests/spark4 and tests/spark35
]
TESTS = [place for place in PROGRAMS if "\ndef test_" in programs(place[0])[place[1]]]
OPERATING = [place for place in PROGRAMS if "headrace.connect()" in programs(place[0])[place[1]]]
ON_RAY = [place for place in OPERATING if place[0] == TUTORIAL]  # tests/integration/test_tutorial_ray.py


def run_program(program: str, **environment: str) -> str:
    """The output of a program, run in a process of its own with warnings as errors."""
    mild = [word for name in KAFKA_PYTHON_CALLS for word in ("-W", f"ignore:{name} is deprecated")]
    command = ["-W", "error", *mild, "-c", QUIET_SERVERS + program]
    done = run_forked(command, environment={**os.environ, **environment}, timeout_s=500)
    # librdkafka logs at level 6 that it got a client instance id
    errors = [
        line
        for line in done.stderr.decode().splitlines()
        if not re.match(r"%6\|\d+\.\d+\|GETSUBSCRIPTIONS\|", line)
    ]
    assert (done.returncode, errors) == (0, [])
    return done.stdout.decode()


@pytest.mark.parametrize(("page", "number"), [each for each in PROGRAMS if each not in OPERATING + TESTS])
def test_program_of_a_page_runs(page: str, number: int) -> None:
    """On a cluster of its own; a coroutine `main` gets a cluster's address."""
    program = programs(page)[number]
    calls_main = "async def main(" not in program or "asyncio.run(" in program
    assert run_program(program if calls_main else program + CALL_MAIN)


@pytest.mark.parametrize(("page", "number"), TESTS)
def test_test_of_a_page_passes(page: str, number: int, tmp_path: Path) -> None:
    """In a pytest of its own, with the plugin that headrace installs."""
    path = tmp_path / "test_of_page.py"
    path.write_text(programs(page)[number])
    options = ("-q", "--strict-markers", "-W", "error", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    done = run_forked(["-m", "pytest", *options, str(path)], folder=str(tmp_path), timeout_s=500)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.fixture(scope="module")
def operated() -> Iterator[headrace.LocalCluster]:
    """A cluster in use: node 4 has failed permanently, the group "billing" has read orders."""
    with headrace.local(
        nodes=4, controllers=3, broker_session_timeout_ms=1_000, broker_heartbeat_interval_ms=100
    ) as cluster:
        admin = cluster.admin()
        cluster.kill_node(3)
        wait_for(lambda: len(admin.describe_cluster().nodes) == 3, "node 4 is fenced")
        admin.create_topics(headrace.NewTopic("orders", 3, 2)).raise_for_errors()
        cluster.producer().send_many("orders", [b"x"] * 100).raise_for_errors(timeout=500)
        place = TopicPartition("orders", 0)
        admin.alter_group_offsets("billing", {place: 1}, create=True).raise_for_errors()
        cluster.producer(transactional_id="billing-1").init_transactions()
        yield cluster


@pytest.mark.parametrize(("page", "number"), [each for each in OPERATING if each not in ON_RAY])
def test_commands_for_operators_run(operated: headrace.LocalCluster, page: str, number: int) -> None:
    """One after the other on one cluster, whose address is in the environment."""
    run_program(programs(page)[number], HEADRACE_BOOTSTRAP=operated.bootstrap)


def test_all_programs_of_the_pages_are_found() -> None:
    assert {page for page, _ in PROGRAMS} >= {"README.md", "docs/CLIENTS.md", "docs/PIPELINE.md", TUTORIAL}
    assert len(PROGRAMS) >= 8
    assert len(TESTS) >= 1
    assert len(OPERATING) >= 2
    assert len(ON_RAY) >= 2


def test_options_of_the_readme_exist(command_line: CommandLine) -> None:
    """Each command of the README has the options that are shown with it."""
    shown = [block.text for block in blocks(text_of("README.md")) if block.language == SHELL]
    lines = [line for text in shown for line in text.splitlines()]
    commands = [line.partition("headrace ")[2] for line in lines if re.match(r"(echo .*\| )?headrace ", line)]
    assert len(commands) >= 6
    for command in commands:
        words = shlex.split(command, comments=True)
        code, text, _ = command_line(*words, "--help")
        assert code == 0, command
        for option in (word for word in words if word.startswith("-")):
            name = option if option.startswith("--") else option[:2]
            assert re.search(rf"(^|\s){name}\b", text), f"{command}: {option}"
