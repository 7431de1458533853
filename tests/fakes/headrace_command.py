"""Runs the `headrace` command in processes, and finds all processes that it left running."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from command_line import checked
from forking import Forked, run_forked, start_server
from headrace.runtime.waiting_io import until

MARK = "HEADRACE_TEST_MARK"
# Modules that commands import, besides those of every program.
OF_RAY = (
    "headrace.services.quickstart",
    "headrace.services.ray_host",
    "headrace.services.ray_session",
    "pyarrow.json",
    "ray",
    "ray._common.pydantic_compat",
    "ray._common.usage.usage_lib",
    "ray._private.arrow_serialization",
    "ray.dag",
)
STATUS_EVERY_S = 0.2  # more often, the queries of all servers would delay their start
PATIENCE_S = 400.0  # time limits of a command and of a starting cluster, shorter than the one of pytest
# The queries of `headrace status`, without the second in which each command loads Ray; below a span, which
# the calls of the actors carry.
ASK_STATUS = """
import json, sys
from headrace.services import ray_host
from opentelemetry.sdk.trace import TracerProvider
tracer = TracerProvider().get_tracer("status")
for cluster in sys.stdin:
    with tracer.start_as_current_span("status"):
        print(json.dumps(ray_host.status(cluster.strip())), flush=True)
"""
# Starts Ray as `headrace up` does; it runs until the end of the input.
RUN_RAY = """
import sys
from headrace.services.own_ray_io import start_own_ray, stop_own_ray
own = start_own_ray({}, timeout_s=500)
try:
    print(own.address, flush=True)
    sys.stdin.read()
finally:
    stop_own_ray(own)
"""


def _ray_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that Ray reads when it is imported."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("RAY_") and name not in ("RAY_ADDRESS", "RAY_AUTH_MODE")
    }


class Headrace:
    """Runs the command with a separate home and temp dir; an environment variable marks all its processes.

    `ray_address` is that of a running Ray: clusters join it, and their servers are not found here.
    """

    def __init__(self, folder: Path, ray_address: str = "local") -> None:
        self.ray_address = ray_address
        self.home = folder / "home"
        self.temp = folder / "temp"
        self.temp.mkdir()
        self.mark = uuid.uuid4().hex
        self.python = sys.executable
        self.environment = {
            **os.environ,
            "HEADRACE_HOME": str(self.home),
            "TMPDIR": str(self.temp),
            "RAY_AUTH_MODE": "disabled",
            "PYTHONWARNINGS": "default",
            MARK: self.mark,
        }
        for name in ("RAY_ADDRESS", "HEADRACE_BOOTSTRAP", "HEADRACE_CLUSTER"):
            self.environment.pop(name, None)
        self._asker: Forked | subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command; its output is captured."""
        return subprocess.Popen(
            [self.python, "-m", "headrace", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            text=True,
        )

    def run(
        self, *arguments: str, data: bytes = b"", code: int = 0, timeout_s: float = PATIENCE_S
    ) -> tuple[bytes, str]:
        """Run a command to its end; (standard output, standard error). Fails on another exit code."""
        if arguments[0] == "up":
            arguments = (*arguments, "--timeout", str(PATIENCE_S))
        done = self._run(["-m", "headrace", *arguments], data, timeout_s)
        errors = done.stderr.decode()
        assert done.returncode == code, (
            f"{arguments} ended with {done.returncode}:\n{errors}\n{done.stdout!r}"
        )
        assert "Traceback" not in errors, errors
        if not code:
            checked(arguments, done.stdout)
        return done.stdout, errors

    def up(self, *arguments: str) -> tuple[bytes, str]:
        """Start a cluster, on loopback alone."""
        if self.ray_address != "local":
            arguments = (*arguments, "-X", "listener.host=127.0.0.1")
        return self.run("up", *arguments, "--ray-address", self.ray_address)

    def status(self, cluster: str = "default") -> dict[str, Any]:
        """The output of `headrace status -o json` for a started cluster."""
        if self._asker is None:
            self._asker = self._start_asker()
        assert self._asker.stdin is not None
        assert self._asker.stdout is not None
        self._asker.stdin.write(f"{cluster}\n".encode())
        self._asker.stdin.flush()
        facts: dict[str, Any] = json.loads(self._asker.stdout.readline())
        return facts

    def running(self, cluster: str = "default") -> dict[str, Any]:
        """The status, once all servers answer: a busy server may take longer than `status` waits."""
        found: dict[str, Any] = {}

        def is_running() -> bool:
            found.update(self.status(cluster))
            return bool(found["state"] == "running")

        assert until(is_running, PATIENCE_S, STATUS_EVERY_S), f"not running: {found}"
        return found

    @contextlib.contextmanager
    def running_ray(self) -> Iterator[str]:
        """The address of a Ray without actors."""
        process = subprocess.Popen(
            [self.python, "-W", "ignore", "-c", RUN_RAY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
            text=True,
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "Ray did not start: its error is on the standard error of the tests"
            yield address
            process.communicate(timeout=500)
            self.wait_until_nothing_runs()
        finally:
            self.kill_all()

    def actors(self, namespace: str) -> list[str]:
        """The namespaces of all actors of the Ray that begin with a prefix."""
        program = (
            "import ray, sys\n"
            "ray.init(address=sys.argv[1], log_to_driver=False)\n"
            "print(*[each['namespace'] for each in ray.util.list_named_actors(all_namespaces=True)])\n"
        )
        done = self._run(["-W", "ignore", "-c", program, self.ray_address])
        assert done.returncode == 0, done.stderr.decode()
        return [each for each in done.stdout.decode().split() if each.startswith(namespace)]

    def _run(
        self, program: list[str], data: bytes = b"", timeout_s: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program as a fork; as a new process if it must not be one."""
        if self._may_fork():
            start_server(*OF_RAY)
            mild = ["-W", "default", *program]
            return run_forked(mild, environment=self.environment, data=data, timeout_s=timeout_s)
        command = [self.python, *program]
        return subprocess.run(
            command, input=data, capture_output=True, env=self.environment, timeout=timeout_s, check=False
        )

    def _may_fork(self) -> bool:
        """Whether its interpreter and its Ray settings are those of the tests."""
        return self.python == sys.executable and _ray_settings(self.environment) == _ray_settings(os.environ)

    def _start_asker(self) -> Forked | subprocess.Popen[bytes]:
        environment = {name: value for name, value in self.environment.items() if name != MARK}
        if self._may_fork():
            start_server(*OF_RAY)
            with open(os.devnull, "wb") as log:
                return Forked(["-c", ASK_STATUS], environment=environment, given=subprocess.PIPE, log=log)
        return subprocess.Popen(
            [self.python, "-c", ASK_STATUS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def processes(self) -> list[psutil.Process]:
        """All running processes that descend from our commands."""
        return [process for process in psutil.process_iter() if self._is_marked(process)]

    def wait_until_nothing_runs(self, timeout_s: float = 120.0) -> None:
        """Fails if one of our processes still runs at the time limit."""
        self._end_asker()
        assert until(lambda: not self.processes(), timeout_s), f"still running: {self.processes()}"

    def kill_all(self) -> None:
        """Kill all our processes, after a failed test."""
        self._end_asker()
        for process in self.processes():
            process.send_signal(signal.SIGKILL)

    def _end_asker(self) -> None:
        if self._asker is not None:
            assert self._asker.stdin is not None
            assert self._asker.stdout is not None
            self._asker.stdin.close()
            self._asker.wait(timeout=500)
            self._asker.stdout.close()
            self._asker = None

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                return False
            return bool(process.environ().get(MARK) == self.mark)
        except psutil.Error:
            return False
