"""The `headrace` command in processes of its own, and a way to find everything that it left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import psutil
from headrace.runtime.waiting_io import until

if TYPE_CHECKING:
    from pathlib import Path

MARK = "HEADRACE_TEST_MARK"


class Headrace:
    """Runs the command with a home and a temp dir of its own; all that it starts carries a mark."""

    def __init__(self, folder: Path) -> None:
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
        self, *arguments: str, data: bytes = b"", code: int = 0, timeout_s: float = 90.0
    ) -> tuple[bytes, str]:
        """Run a command to its end; (standard output, standard error). Fails on another exit code."""
        done = subprocess.run(
            [self.python, "-m", "headrace", *arguments],
            input=data,
            capture_output=True,
            env=self.environment,
            timeout=timeout_s,
            check=False,
        )
        errors = done.stderr.decode()
        assert done.returncode == code, (
            f"{arguments} ended with {done.returncode}:\n{errors}\n{done.stdout!r}"
        )
        assert "Traceback" not in errors, errors
        return done.stdout, errors

    def status(self) -> dict[str, Any]:
        """`headrace status -o json`, whatever its exit code."""
        process = self.start("status", "-o", "json")
        output, errors = process.communicate(timeout=60)
        assert output, errors
        facts: dict[str, Any] = json.loads(output)
        return facts

    def processes(self) -> list[psutil.Process]:
        """Every live process that descends from a command of ours."""
        return [process for process in psutil.process_iter() if self._is_marked(process)]

    def wait_until_nothing_runs(self, timeout_s: float = 10.0) -> None:
        """Fails when something of ours still runs then."""
        assert until(lambda: not self.processes(), timeout_s), f"still running: {self.processes()}"

    def kill_all(self) -> None:
        """The last resort of a failed test: nothing outlives it."""
        for process in self.processes():
            process.send_signal(signal.SIGKILL)

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                return False
            return bool(process.environ().get(MARK) == self.mark)
        except psutil.Error:
            return False
