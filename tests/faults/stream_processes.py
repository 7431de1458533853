"""Processes of a streams application, to be killed and paused."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

from forking import Forked
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STOP_S = 60.0
LOG_CHARS = 4000


class StreamProcesses:
    """Processes by number that run `headrace stream run MODULE:app`, each with a folder of its own for its
    stores. Its log goes on when it is started again."""

    def __init__(
        self, bootstrap: Any, folder: Path, module: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self._bootstrap, self._folder, self._module = bootstrap, folder, module
        self._environment = {**os.environ, **(environment or {})}
        self._running: dict[int, Forked] = {}
        self._begins: dict[int, int] = {}  # sizes of the logs at the last start
        self.kills = 0

    def start(self, number: int, **config: Any) -> None:
        """Start process `number`, over the stores that it had before; `config`: keys with _ for a dot."""
        program = ["-m", "headrace", "stream", "run", f"{self._module}:app"]
        given = {
            "state.dir": self.folder(number),
            **{name.replace("_", "."): config[name] for name in config},
        }
        options = ["-b", str(self._bootstrap), *(f"-X{name}={value}" for name, value in given.items())]
        with self._log(number).open("ab") as log:
            self._begins[number] = log.tell()
            self._running[number] = Forked(
                [*program, *options], log=log, environment=self._environment, output=log
            )

    def folder(self, number: int) -> Path:
        """The state.dir of a process."""
        return self._folder / str(number)

    def wipe(self, number: int) -> None:
        """Remove the stores of a process that does not run, as on a new machine."""
        assert number not in self._running
        shutil.rmtree(self.folder(number), ignore_errors=True)

    def kill(self, number: int) -> None:
        """SIGKILL, also of a paused process."""
        process = self._running.pop(number)
        assert process.poll() is None, self.log(number)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.kills += 1

    def pause(self, number: int) -> None:
        """SIGSTOP; returns when all threads are stopped."""
        process = self._running[number]
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: _state(process.pid) == "T", f"process {number} is paused")

    def resume(self, number: int) -> None:
        """SIGCONT."""
        self._running[number].send_signal(signal.SIGCONT)

    def stop(self, number: int) -> int:
        """SIGTERM; the exit code."""
        process = self._running.pop(number)
        process.terminate()
        return process.wait(STOP_S)

    def end(self) -> None:
        """Kill all that are left."""
        for number in list(self._running):
            process = self._running.pop(number)
            process.kill()
            process.wait()

    def logs(self) -> str:
        """The end of what each process wrote."""
        return "\n".join(
            f"process {number}, alive: {process.poll() is None}\n{self.log(number)}"
            for number, process in sorted(self._running.items())
        )

    def log(self, number: int, begin: int | None = None) -> str:
        """What a process wrote from a size of its log on; the end of it without one."""
        text = self._log(number).read_bytes()
        return text[-LOG_CHARS if begin is None else begin :].decode(errors="replace")

    def latest_log(self, number: int) -> str:
        """What a process wrote since it was started the last time."""
        return self.log(number, self._begins[number])

    def log_size(self, number: int) -> int:
        """The bytes that a process has logged."""
        return self._log(number).stat().st_size

    def _log(self, number: int) -> Path:
        return self._folder / f"log-{number}.txt"


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]
