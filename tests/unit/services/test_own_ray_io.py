"""The processes of a Ray that headrace started, found by their session; no Ray involved."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from headrace.services import own_ray_io
from headrace.services.own_ray_io import (
    ONE_MACHINE,
    OwnRay,
    RayStartError,
    _interpreter,
    env_of_own_ray,
    is_running,
    processes_of,
    start_own_ray,
    stop_own_ray,
)

# A leader that ignores SIGTERM, with a child that ignores it too and a grandchild in a group of its own.
FAMILY = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print(1, flush=True); time.sleep(60)"
one = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
two = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, process_group=0)
one.stdout.readline(), two.stdout.readline()
print("ready", flush=True)
signal.pause()
"""


# Instead of Ray: fails as often as its first argument says, with its second, then writes an address.
SLOW = """
import pathlib, sys, time
failures, text, mark, folder = sys.argv[1:]
with open(mark, "a") as file:
    file.write("x")
if pathlib.Path(mark).stat().st_size <= int(failures):
    sys.exit(text)
pathlib.Path(folder, "ray_current_cluster").write_text("h:1")
time.sleep(500)
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnRay]:
    """A session of three processes that ignore SIGTERM."""
    leader = subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    assert leader.stdout is not None
    assert leader.stdout.readline() == "ready\n"
    temp_dir = tmp_path / "ray"
    temp_dir.mkdir()
    found = OwnRay("h:1", leader.pid, psutil.Process(leader.pid).create_time(), str(temp_dir))
    yield found
    stop_own_ray(found)
    leader.stdout.close()
    leader.wait(60)


def test_all_processes_of_a_session_are_killed(own: OwnRay, tmp_path: Path) -> None:
    """SIGKILL follows SIGTERM, also for processes in their own groups; the temp dir is removed last."""
    assert len(processes_of(own)) == 3
    assert processes_of(own)[-1].pid == own.pid
    assert is_running(own)
    stop_own_ray(own)
    assert processes_of(own) == []
    assert not is_running(own)
    assert not (tmp_path / "ray").exists()
    stop_own_ray(own)  # again: nothing to do


def test_python_path_for_ray_needs_no_quotes(tmp_path: Path) -> None:
    """A checkout under "my clone": Ray passes its Python's path through a shell unquoted."""
    plain = tmp_path / "plain"
    plain.mkdir()
    assert _interpreter(str(plain), "/opt/venv/bin/python", "/opt/venv") == "/opt/venv/bin/python"
    for name in ("my clone", "it's", "a$b", "a;b"):
        prefix, temp_dir = tmp_path / name / ".venv", tmp_path / name.replace(" ", "_")
        (prefix / "bin").mkdir(parents=True)
        temp_dir.mkdir(exist_ok=True)
        (prefix / "bin" / "python").write_text(name)
        found = _interpreter(str(temp_dir), str(prefix / "bin" / "python"), str(prefix))
        assert found == f"{temp_dir}/python/bin/python"
        assert (temp_dir / "python" / "bin" / "python").read_text() == name


def test_reused_pid_is_not_killed(own: OwnRay) -> None:
    """The pid of an old cluster file may belong to another process."""
    stale = OwnRay(own.address, own.pid, own.created_s - 1000.0, own.temp_dir + "-stale")
    assert processes_of(stale) == []
    assert not is_running(stale)
    stop_own_ray(stale)
    assert is_running(own)


@pytest.mark.parametrize(
    ("text", "count"),
    [("The current node timed out during startup.", 3), ("the port is in use", 1)],
)
def test_slow_ray_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, count: int
) -> None:
    """Ray itself waits for 30 s; any other failure is reported at once, and leaves no folder."""
    mark, folders = tmp_path / "starts", []

    def command(temp_dir: str) -> list[str]:
        folders.append(Path(temp_dir))
        return [sys.executable, "-c", SLOW, "2", text, str(mark), temp_dir]

    monkeypatch.setattr(own_ray_io, "_command", command)
    if count == 1:
        with pytest.raises(RayStartError, match=text):
            start_own_ray({}, 300)
    else:
        own = start_own_ray({}, 300)
        assert own.address == "h:1"
        stop_own_ray(own)
    assert mark.stat().st_size == count
    assert len(folders) == count
    assert not any(folder.exists() for folder in folders)


def test_settings_of_the_user_have_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, servers have the usual priority, and no worker is started in advance."""
    ours = ("RAY_worker_niceness", "RAY_prestart_worker_first_driver")
    for name in ours:
        monkeypatch.delenv(name, raising=False)
    found = own_ray_io._environment({})
    assert [found[name] for name in ours] == ["0", "0"]
    for name in ours:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("RAY_ADDRESS", "h:1")
    found = own_ray_io._environment({})
    assert [found[name] for name in ours] == ["1", "1"]
    assert "RAY_ADDRESS" not in found
    assert os.environ["RAY_ADDRESS"] == "h:1"


def test_own_ray_has_a_new_token_that_others_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the home folder or the environment, which is another Ray's; none if disabled."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of another Ray")
    path = tmp_path / "clusters" / "c.ray_token"
    first = env_of_own_ray(path)
    token = path.read_text()
    assert first["RAY_AUTH_TOKEN_PATH"] == str(path)
    assert (first["RAY_AUTH_MODE"], first[ONE_MACHINE]) == ("token", "0")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "RAY_AUTH_TOKEN" not in own_ray_io._environment(first)
    env_of_own_ray(path)
    assert len(token) == 64
    assert path.read_text() != token
    path.unlink()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert env_of_own_ray(path) == {"RAY_AUTH_MODE": "disabled", ONE_MACHINE: "0"}
    assert not path.exists()
