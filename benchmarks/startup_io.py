"""Start-up times of `headrace.local()` and `headrace up` on Ray, and what an idle node uses."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.runtime.waiting_io import let_pass

from . import machine_io
from .cells.figures import BYTES_PER_MB
from .servers.headrace_io import Headrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from .session_io import Session

SETTLE_S = 2.0  # a node is not idle right after its start
IDLE_S = 10.0
UP_TIMEOUT_S = 120.0
NODES = 3
_LOCAL = """
import time
began = time.perf_counter()
import headrace
imported = time.perf_counter()
cluster = headrace.local()
ready = time.perf_counter()
cluster.close()
print(ready - imported, ready - began)
"""


def measure(session: Session, say: Callable[[str], None], *, repeats: int) -> dict[str, Any]:
    """Seconds and MB of each part; a failed one has "error"."""
    found: dict[str, Any] = {"local": local_ready(repeats)}
    say(f"local(): ready after {found['local']['seconds']}")
    found["idle"] = idle_node(session)
    say(f"idle node: {found['idle']}")
    found["up"] = up_on_ray(session.scratch, min(repeats, 3))
    say(f"headrace up --nodes {NODES}: {found['up']}")
    return found


def local_ready(repeats: int) -> dict[str, Any]:
    """In fresh processes: seconds from the call until ready, without and with the import."""
    calls, wholes = [], []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", _LOCAL], capture_output=True, text=True, timeout=60, check=True
        )
        call, whole = map(float, done.stdout.split())
        calls.append(round(call, 3))
        wholes.append(round(whole, 3))
    return {"seconds": calls, "with_import_s": wholes}


def idle_node(session: Session) -> dict[str, Any]:
    """A fresh node and controller without clients: resident memory, and CPU over ten seconds."""
    folder = session.scratch / "idle"
    folder.mkdir()
    system = Headrace(session.children, folder, session.server_cores)
    try:
        let_pass(SETTLE_S)
        before = machine_io.sample_all(system.node_pids)
        let_pass(IDLE_S)
        after = machine_io.sample_all(system.node_pids)
    finally:
        system.stop()
    return {
        "rss_mb": round(after.rss / BYTES_PER_MB, 1),
        "cpu_percent": round(100 * (after.cpu_s - before.cpu_s) / IDLE_S, 2),
        "fds": after.fds,
        "threads": after.threads,
    }


def up_on_ray(scratch: Path, repeats: int) -> dict[str, Any]:
    """Duration of the command `headrace up` with a Ray of its own; then `headrace down`."""
    seconds: list[float] = []
    node_rss = 0.0
    for number in range(repeats):
        name = f"bench-{os.getpid()}-{number}"
        environment = {**os.environ, "HEADRACE_HOME": str(scratch / "home"), "RAY_AUTH_MODE": "disabled"}
        command = [sys.executable, "-m", "headrace"]
        data = ["--data-dir", str(scratch / f"up-{number}"), "--ray-address", "local"]
        try:
            began = time.monotonic()
            done = _run([*command, "up", "--nodes", str(NODES), "--cluster", name, *data], environment)
            if done.returncode:
                return {"error": (done.stderr or done.stdout)[-500:], "seconds": seconds}
            seconds.append(round(time.monotonic() - began, 2))
            node_rss = node_memory(scratch / f"up-{number}")
        except subprocess.TimeoutExpired:
            return {"error": f"not ready within {UP_TIMEOUT_S:.0f} s", "seconds": seconds}
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                _run([*command, "down", "--cluster", name, "--delete-data", "--yes"], environment)
    return {"seconds": seconds, "node_rss_mb": node_rss}


def node_memory(data_dir: Path) -> float:
    """MB of the largest process with an open file of a storage node: the Ray actor of a node."""
    most = 0.0
    pattern = re.compile(re.escape(str(data_dir)) + r"/(headrace-)?node")
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            links = (os.readlink(fd) for fd in (entry / "fd").iterdir())
            if any(pattern.match(link) for link in links):
                most = max(most, machine_io.sample(int(entry.name)).rss / BYTES_PER_MB)
    return round(most, 1)


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=UP_TIMEOUT_S, check=False, env=environment
    )
