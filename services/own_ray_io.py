"""A Ray started by headrace when there is none to join, and stopped exactly, by its recorded processes.

`ray start --head --block` runs in its own session (setsid), so every process that it starts, actors included,
has its session id: `down` finds all of them by it and touches no other process.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ..protocol.errors import HeadraceError
from ..runtime.ports_io import reserve_ports
from ..runtime.waiting_io import until
from .private_files_io import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

START_TIMEOUT_S = 180.0  # a few seconds, but minutes on a busy machine
GRACE_S = 0.5  # actors were stopped before; raylet and GCS would drain for much longer
KILL_TIMEOUT_S = 10.0
# Bound: Ray's sockets are at <temp dir>/session_<date>_<pid>/sockets/plasma_store, 66 characters more, and a
# Unix socket path has at most 107.
MAX_TEMP_DIR_LENGTH = 40
# In Ray's output: it gives its processes 30 s, which may be too short on a busy machine.
_TOO_SLOW = "timed out during startup"
# Ray puts paths into shell command lines without quoting them.
_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+\Z", re.ASCII)
# 0: Ray takes 127.0.0.1 as the address of this machine and binds every port to it; Ray's default on macOS
ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
TOKEN_MODE = "token"  # noqa: S105 - a mode
TOKEN_BYTES = 32
OBJECT_STORE_BYTES = 80_000_000  # Ray's minimum is 75 MiB; headrace does not use the object store


class RayStartError(HeadraceError):
    """Ray did not start, or does not answer."""


@dataclass(frozen=True)
class OwnRay:
    """A Ray that headrace started: `pid` leads its session, `created_s` detects a reused pid."""

    address: str
    pid: int
    created_s: float
    temp_dir: str


def env_of_own_ray(token_file: Path) -> dict[str, str]:
    """The RAY_* variables of a Ray that headrace starts, and of all processes that connect to it.

    It listens on loopback alone, and its clients need the token of a new file, mode 0600, unless
    RAY_AUTH_MODE has another mode. Errors: OSError.
    """
    mode = os.environ.get("RAY_AUTH_MODE") or TOKEN_MODE
    found = {ONE_MACHINE: "0", "RAY_AUTH_MODE": mode}
    if mode == TOKEN_MODE:
        token_file.parent.mkdir(parents=True, exist_ok=True)
        write_private(token_file, secrets.token_hex(TOKEN_BYTES))
        found["RAY_AUTH_TOKEN_PATH"] = str(token_file)
    return found


def start_own_ray(
    ray_env: Mapping[str, str], timeout_s: float = START_TIMEOUT_S, meanwhile: Callable[[], object] = int
) -> OwnRay:
    """Start a local Ray without dashboard, with its own session and temp dir; returns when it answers.
    `ray_env`: variables for its processes. `meanwhile` is called while they start.

    Errors: RayStartError with the last lines of Ray's output; no process is left running then.
    """
    ends_at_s = time.monotonic() + timeout_s
    while True:
        try:
            return _started(ray_env, ends_at_s - time.monotonic(), meanwhile)
        except RayStartError as error:
            if _TOO_SLOW not in str(error) or time.monotonic() >= ends_at_s:
                raise


def _started(ray_env: Mapping[str, str], timeout_s: float, meanwhile: Callable[[], object]) -> OwnRay:
    temp_dir = _make_temp_dir()
    output = Path(temp_dir) / "ray-start.log"
    with output.open("wb") as stream:
        child = subprocess.Popen(
            _command(temp_dir),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            env=_environment(ray_env),
            cwd="/",
        )
    own = OwnRay("", child.pid, _created_s(child.pid), temp_dir)
    try:
        meanwhile()
        address = _wait_for_address(child, output, timeout_s)
        child.returncode = 0  # it outlives this process on purpose: no ResourceWarning
        return OwnRay(address, own.pid, own.created_s, temp_dir)
    except BaseException:  # Ctrl-C too: a half-started Ray must not be left running
        stop_own_ray(own)
        raise


def stop_own_ray(own: OwnRay) -> None:
    """End every process of that Ray, wait for their exit, remove its temp dir.

    Errors: RayStartError with the processes that survive SIGKILL; the temp dir is kept then.
    """
    # Order: the leader last. On SIGTERM it would drain for a minute; while alive it reaps its children.
    _signal(_followers(own), signal.SIGTERM)
    if not until(lambda: not _followers(own), GRACE_S):
        _signal(_followers(own), signal.SIGKILL)
        until(lambda: not _followers(own), KILL_TIMEOUT_S)
    _signal(processes_of(own), signal.SIGKILL)
    if not until(lambda: _is_gone(own), KILL_TIMEOUT_S):
        left = ", ".join(str(process.pid) for process in processes_of(own))
        raise RayStartError(f"processes of the Ray that headrace started survive SIGKILL: {left}")
    shutil.rmtree(own.temp_dir, ignore_errors=True)


def is_running(own: OwnRay) -> bool:
    """Whether its leading process is alive."""
    return own.created_s > 0 and _created_s(own.pid) == own.created_s


def processes_of(own: OwnRay) -> list[psutil.Process]:
    """All live processes in the session of `own`, the leader last."""
    created_s = _created_s(own.pid)
    if created_s not in (0.0, own.created_s):
        return []  # the pid was reused, so the session has ended
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
    with contextlib.suppress(ChildProcessError):  # reap it if it is a child of this process
        os.waitpid(own.pid, os.WNOHANG)
    return not processes_of(own)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _wait_for_address(child: subprocess.Popen[bytes], output: Path, timeout_s: float) -> str:
    marker = output.parent / "ray_current_cluster"
    address = ""

    def has_address() -> bool:
        nonlocal address
        with contextlib.suppress(OSError):
            address = marker.read_text().strip()
        if not address and child.poll() is not None:
            raise RayStartError(f"Ray did not start (exit code {child.returncode}):\n{_tail(output)}")
        return bool(address)

    if not until(has_address, timeout_s):
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
        f"--ray-client-server-port={reserve_ports(1)[0]}",  # the default, 10001, may be used by another Ray
        "--dashboard-agent-listen-port=0",
        f"--temp-dir={temp_dir}",
        "--include-dashboard=false",
        "--include-log-monitor=false",
        "--no-monitor",
        "--disable-usage-stats",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
    ]


def _interpreter(temp_dir: str, executable: str, prefix: str) -> str:
    """The path of this Python, through a link if a shell would need quotes for it ("my clone/.venv")."""
    if _SHELL_SAFE.match(executable) or not Path(executable).is_relative_to(prefix):
        return executable
    link = Path(temp_dir) / "python"
    link.symlink_to(prefix, target_is_directory=True)
    return str(link / Path(executable).relative_to(prefix))


def _environment(ray_env: Mapping[str, str]) -> dict[str, str]:
    environment = {**os.environ, **ray_env}
    environment.pop("RAY_ADDRESS", None)
    if "RAY_AUTH_TOKEN_PATH" in ray_env:
        environment.pop("RAY_AUTH_TOKEN", None)  # it would have precedence over the file
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    # Ray's default of 15 would give servers the lowest priority
    environment.setdefault("RAY_worker_niceness", "0")
    # Ray would start idle workers for each command that connects: they are for tasks, and servers are actors
    environment.setdefault("RAY_prestart_worker_first_driver", "0")
    return environment


def _make_temp_dir() -> str:
    base = tempfile.gettempdir()
    if len(base) > MAX_TEMP_DIR_LENGTH - len("/hr-ray-12345678") or not _SHELL_SAFE.match(base):
        base = "/tmp"  # noqa: S108
    return tempfile.mkdtemp(prefix="hr-ray-", dir=base)


def _created_s(pid: int) -> float:
    """The creation time of the process, 0.0 if it has ended."""
    try:
        process = psutil.Process(pid)
        return 0.0 if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return 0.0


def _tail(output: Path, lines: int = 15) -> str:
    with contextlib.suppress(OSError):
        return "\n".join(output.read_text(errors="replace").splitlines()[-lines:])
    return "(no output)"
