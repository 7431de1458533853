"""`make test` runs the tests of Spark beside the others, with stand-ins for all of them."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from waiting import wait_for

Start = Callable[[dict[str, str]], subprocess.Popen[str]]

ROOT = Path(__file__).parents[2]
WEAKEST = 19  # the highest niceness
# What each stand-in does first: other programs find its pid, niceness and session in a file.
NOTED = "ps -o pid= -o ni= -o sid= -p $$ >{0}.new && mv {0}.new {0}"
PYTHONS = {
    "main": "venv/bin/python",
    "spark35": ".venv-spark35/bin/python",
    "spark4": ".venv-spark4/bin/python",
}


def stand_in(folder: Path, name: str, then: str) -> None:
    """A program that takes the place of a Python with pytest."""
    program = folder / PYTHONS[name]
    program.parent.mkdir(parents=True)
    real = f'test "$1" != -c || exec {shlex.quote(sys.executable)} "$@"'
    program.write_text("\n".join(("#!/bin/sh", real, NOTED.format(name), then, "")))
    program.chmod(0o755)
    (program.parents[1] / ".ready").touch()


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts `make test` in a session of its own; `then` is what the stand-ins do after their notes."""

    def started(then: dict[str, str]) -> subprocess.Popen[str]:
        (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
        for name in ("pyproject.toml", "setup.py"):
            (tmp_path / name).touch()
        for name, what in then.items():
            stand_in(tmp_path, name, what)
        (tmp_path / "java").symlink_to("/bin/true")
        of_make = ("ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
        given = {name: value for name, value in os.environ.items() if name not in of_make}
        given["PATH"] = f"{tmp_path}:{given['PATH']}"
        command = ["make", "VENV=venv", "test"]
        return subprocess.Popen(
            command, cwd=tmp_path, env=given, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    return started


def notes(folder: Path, name: str) -> tuple[int, int, int]:
    """The pid, the niceness and the session of a stand-in, once it runs."""
    wait_for((folder / name).exists, name)
    pid, niceness, session = (folder / name).read_text().split()
    return int(pid), int(niceness), int(session)


def test_spark_has_a_session_and_a_priority_over_the_others(start: Start, tmp_path: Path) -> None:
    """After a failure of the others, too, it runs to its end and is shown."""
    until_all_run = "until test -e spark35 -a -e spark4 -o -s build/spark.txt; do sleep 0.1; done"
    until_others_end = "until test -e main; do sleep 0.1; done"
    make = start(
        {
            "main": f"{until_all_run}; exit 3",
            "spark35": f"{until_others_end}; echo 35 passed",
            "spark4": f"{until_others_end}; echo 4 passed",
        }
    )
    output, _ = make.communicate(timeout=500)
    assert make.returncode != 0
    assert output.split("\n")[:2] == ["35 passed", "4 passed"]
    (_, others, session), (_, spark35, of_spark), (_, spark4, same) = (
        notes(tmp_path, name) for name in PYTHONS
    )
    assert session == make.pid
    assert of_spark == same != session
    assert others == min(spark35 + 5, WEAKEST)
    assert spark35 == spark4 == os.nice(0)


def test_ctrl_c_ends_spark(start: Start, tmp_path: Path) -> None:
    """The terminal sends it to one session only."""
    make = start(dict.fromkeys(PYTHONS, "exec sleep 3000"))
    pids = [notes(tmp_path, name)[0] for name in PYTHONS]
    os.killpg(make.pid, signal.SIGINT)
    make.communicate(timeout=500)
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in pids), "the end of all tests")
