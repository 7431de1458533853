"""A forked program behaves as one that an interpreter runs."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from forking import Forked, run_forked

TIMEOUT_S = 500.0


def test_program_has_arguments_input_environment_and_folder(tmp_path: Path) -> None:
    program = "import os, sys; print(sys.argv, sys.stdin.read(), os.environ['NAME'], os.getcwd())"
    done = run_forked(
        ["-c", program, "a", "b"],
        environment={**os.environ, "NAME": "value"},
        data=b"given",
        timeout_s=TIMEOUT_S,
        folder=str(tmp_path),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"['-c', 'a', 'b'] given value {tmp_path}\n"


@pytest.mark.parametrize(
    ("program", "code", "error"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import warnings; warnings.warn('w')", 1, "UserWarning: w"),
        ("import warnings; warnings.warn('mild')", 0, ""),
        ("kept = open('/dev/null')", 0, "ResourceWarning: unclosed file"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_ends_as_an_interpreter_would(program: str, code: int, error: str) -> None:
    """With its filters of warnings, and with what is found when its names are gone."""
    filters = ("-W", "error", "-W", "ignore:mild")
    done = run_forked([*filters, "-c", program], timeout_s=TIMEOUT_S)
    assert done.returncode == code
    assert error in done.stderr.decode()
    assert bool(error) == bool(done.stderr)


def test_handlers_of_the_exit_run_after_threads(tmp_path: Path) -> None:
    """As of producers that are not closed; a script finds modules beside it."""
    (tmp_path / "beside.py").write_text("WORD = 'found'\n")
    (tmp_path / "script.py").write_text(
        "import atexit, threading, beside\n"
        "done = threading.Event()\n"
        "atexit.register(lambda: print('at exit', done.is_set()))\n"
        "threading.Timer(0.05, done.set).start()\n"
        "print(beside.WORD, __name__)\n"
    )
    done = run_forked([str(tmp_path / "script.py")], timeout_s=TIMEOUT_S)
    assert (done.returncode, done.stdout) == (0, b"found __main__\nat exit True\n"), done.stderr


def test_program_that_hangs_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_forked(["-c", "import threading; threading.Event().wait()"], timeout_s=0.1)


def test_running_program_gets_signals_and_is_read(tmp_path: Path) -> None:
    """Its output is a pipe."""
    with (tmp_path / "log").open("wb") as log:
        process = Forked(["-c", "import signal; print('ready', flush=True); signal.pause()"], log=log)
    assert process.stdout.readline() == b"ready\n"
    assert process.poll() is None
    process.terminate()
    assert process.wait(TIMEOUT_S) == -signal.SIGTERM
    process.stdout.close()
