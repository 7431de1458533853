"""How the program of an application travels."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from headrace.protocol.errors import ConfigError
from headrace.stream import App
from headrace.stream.ray.program_io import Program

SCRIPT = """
import sys
from headrace import stream, utf8, int64
from headrace.stream.ray.program_io import Program
factor = 3
def times(value):
    return value * factor
def build():
    inner = 2
    app = stream.App("made", key=utf8, value=utf8)
    app.stream("in").map_values(times).map_values(lambda v: v + "!" * inner).to("out")
    return app
if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        import pickle
        pickle.dump(Program.of(build(), lambda error: "replace_thread"), file)
"""
READER = """
import pickle, sys
from headrace import stream, utf8
app, decide = pickle.load(open(sys.argv[1], "rb")).load()
with stream.TestDriver(app) as driver:
    driver.input_topic("in").pipe_value("a")
    print(driver.output_topic("out").read_value(), decide(ValueError()))
"""


def run(text: str, path: Path) -> str:
    """The output of a script."""
    script = path.parent / f"script{len(text)}.py"
    script.write_text(text)
    command = [sys.executable, str(script), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_of_a_main_script_reach_another_process(tmp_path: Path) -> None:
    """With what they close over, and the variables of the script."""
    run(SCRIPT, tmp_path / "program")
    assert run(READER, tmp_path / "program").split() == ["aaa!!", "replace_thread"]


def test_program_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported from the folder in which the command was called."""
    (tmp_path / "named_program.py").write_text("from headrace.stream import App\napp = App('named')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    program = Program.of("named_program:app", None)
    monkeypatch.chdir("/")
    app, on_uncaught = program.load()
    assert (app.application_id, on_uncaught) == ("named", None)
    assert program.folders[0] == str(tmp_path)
    assert os.getcwd() == "/"


def test_unpicklable_program_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do."""
    lock = threading.Lock()
    app = App("locked")
    app.stream("in").map_values(lambda value: lock and value).to("out")
    with pytest.raises(ConfigError, match=r"cannot pickle '_thread.lock' object; name it as MODULE:APP"):
        Program.of(app, None)
