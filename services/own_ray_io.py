"""A Ray of our own: started when there is none to join, stopped exactly, by its recorded processes.

`ray start --head --block` runs in a session of its own (setsid), so every process that it starts, actors
included, carries its session id: that is how all of them are found again, and nothing else is touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from ..protocol.errors import HeadraceError
from ..runtime.ports_io import reserve_ports
from ..runtime.waiting_io import until

START_TIMEOUT_S = 60.0
GRACE_S = 0.5  # the actors were stopped before; raylet and GCS drain for much longer than anyone waits
KILL_TIMEOUT_S = 10.0
# Bound: Ray's sockets live at <temp dir>/session_<date>_<pid>/sockets/plasma_store, 66 characters more, and
# a Unix socket path has at most 107.
MAX_TEMP_DIR_LENGTH = 40
# Ray puts paths into shell command lines without quoting them.
_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+\Z", re.ASCII)
OBJECT_STORE_BYTES = 80_000_000  # Ray's minimum is 75 MiB; headrace puts nothing into the object store


class RayStartError(HeadraceError):
    """Ray could not be started, or does not answer."""


@dataclass(frozen=True)
class OwnRay:
    """A Ray that we started: `pid` leads its session, `created_s` guards against a reused pid."""

    address: str
    pid: int
    created_s: float
    temp_dir: str


def start_own_ray(timeout_s: float = START_TIMEOUT_S) -> OwnRay:
    """Start a local Ray without dashboard, in its own session and temp dir; returns when it answers.

    Errors: RayStartError with the end of Ray's own output; nothing is left running then.
    """
    temp_dir = _make_temp_dir()
    output = Path(temp_dir) / "ray-start.log"
    with output.open("wb") as stream:
        child = subprocess.Popen(
            _command(temp_dir),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            env=_environment(),
            cwd="/",
        )
    own = OwnRay("", child.pid, _created_s(child.pid), temp_dir)
    try:
        address = _wait_for_address(child, output, timeout_s)
        child.returncode = 0  # it outlives us on purpose, so no warning when the object goes
        return OwnRay(address, own.pid, own.created_s, temp_dir)
    except BaseException:  # Ctrl-C too: a half-started Ray must not stay
        stop_own_ray(own)
        raise


def stop_own_ray(own: OwnRay) -> None:
    """End every process of that Ray, wait until they are gone, remove its temp dir.

    Errors: RayStartError naming the processes that outlive SIGKILL; its temp dir stays then.
    """
    # Order: the leader last. On SIGTERM it would drain for a minute; alive it reaps what ends under it.
    _signal(_followers(own), signal.SIGTERM)
    if not until(lambda: not _followers(own), GRACE_S):
        _signal(_followers(own), signal.SIGKILL)
        until(lambda: not _followers(own), KILL_TIMEOUT_S)
    _signal(processes_of(own), signal.SIGKILL)
    if not until(lambda: _is_gone(own), KILL_TIMEOUT_S):
        left = ", ".join(str(process.pid) for process in processes_of(own))
        raise RayStartError(f"these processes of our Ray do not end: {left}")
    shutil.rmtree(own.temp_dir, ignore_errors=True)


def is_running(own: OwnRay) -> bool:
    """True while its leading process lives."""
    return own.created_s > 0 and _created_s(own.pid) == own.created_s


def processes_of(own: OwnRay) -> list[psutil.Process]:
    """All live processes in the session that `own` leads, the leader last."""
    created_s = _created_s(own.pid)
    if created_s not in (0.0, own.created_s):
        return []  # the pid belongs to someone else now, so our session is long gone
    found = [process for process in psutil.process_iter() if _is_member(process, own)]
    return sorted(found, key=lambda process: process.pid == own.pid)


def _is_member(process: psutil.Process, own: OwnRay) -> bool:
    try:
        if os.getsid(process.pid) != own.pid or process.create_time() < own.created_s:
            return False
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except (OSError, psutil.Error):
        return False


def _followers(own: OwnRay) -> list[psutil.Process]:
    return [process for process in processes_of(own) if process.pid != own.pid]


def _is_gone(own: OwnRay) -> bool:
    with contextlib.suppress(ChildProcessError):  # reap it when it is a child of this very process
        os.waitpid(own.pid, os.WNOHANG)
    return not processes_of(own)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _wait_for_address(child: subprocess.Popen[bytes], output: Path, timeout_s: float) -> str:
    marker = output.parent / "ray_current_cluster"
    address = ""

    def is_told() -> bool:
        nonlocal address
        with contextlib.suppress(OSError):
            address = marker.read_text().strip()
        if not address and child.poll() is not None:
            raise RayStartError(f"Ray did not start (exit code {child.returncode}):\n{_tail(output)}")
        return bool(address)

    if not until(is_told, timeout_s):
        raise RayStartError(f"Ray did not start within {timeout_s:.0f} s:\n{_tail(output)}")
    return address


def _command(temp_dir: str) -> list[str]:
    return [
        _interpreter(temp_dir, sys.executable, sys.prefix),
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        "--block",
        "--port=0",
        f"--ray-client-server-port={reserve_ports(1)[0]}",  # the default, 10001, may be another Ray's
        "--dashboard-agent-listen-port=0",
        f"--temp-dir={temp_dir}",
        "--include-dashboard=false",
        "--include-log-monitor=false",
        "--no-monitor",
        "--disable-usage-stats",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
    ]


def _interpreter(temp_dir: str, executable: str, prefix: str) -> str:
    """This Python, through a link when a shell would not take its path unquoted ("my clone/.venv")."""
    if _SHELL_SAFE.match(executable) or not Path(executable).is_relative_to(prefix):
        return executable
    link = Path(temp_dir) / "python"
    link.symlink_to(prefix, target_is_directory=True)
    return str(link / Path(executable).relative_to(prefix))


def _environment() -> dict[str, str]:
    environment = dict(os.environ)
    environment.pop("RAY_ADDRESS", None)
    # Ray would write a token into the home folder; whoever wants authentication sets the mode.
    environment.setdefault("RAY_AUTH_MODE", "disabled")
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    environment.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would put servers behind everything else
    return environment


def _make_temp_dir() -> str:
    base = tempfile.gettempdir()
    if len(base) > MAX_TEMP_DIR_LENGTH - len("/hr-ray-12345678") or not _SHELL_SAFE.match(base):
        base = "/tmp"  # noqa: S108 - a short and plain path; mkdtemp makes a private folder
    return tempfile.mkdtemp(prefix="hr-ray-", dir=base)


def _created_s(pid: int) -> float:
    """When the process was created, 0.0 when it is gone."""
    try:
        process = psutil.Process(pid)
        return 0.0 if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return 0.0


def _tail(output: Path, lines: int = 15) -> str:
    with contextlib.suppress(OSError):
        return "\n".join(output.read_text(errors="replace").splitlines()[-lines:])
    return "(no output)"
