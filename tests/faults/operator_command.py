"""A `headrace` command as a process that tests kill, pause and answer."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from forking import Forked
from waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from fault_cluster import FaultCluster


class OperatorCommand:
    """Starts at once. Its output is in a file."""

    def __init__(self, cluster: FaultCluster, folder: Path, *arguments: str) -> None:
        self._cluster = cluster
        self._path = folder / f"command-{len(list(folder.glob('command-*')))}.log"
        with self._path.open("wb") as log:
            program = ["-m", "headrace", "-b", cluster.bootstrap, *arguments]
            self.process = Forked(program, log=log, output=log, given=subprocess.PIPE)

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self._path.read_text()

    def until_says(self, words: str) -> None:
        """Wait until it has printed these words. Fails if it ends without."""

        def is_so() -> bool:
            assert words in self.text or self.process.poll() is None, self.text
            return words in self.text

        self._cluster.until(is_so, f"the command prints {words!r}", evidence=lambda: self.text)

    def answer(self, text: str) -> None:
        """Answer its question."""
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.process.kill()
        self._wait(PATIENCE_S)

    def ended(self) -> int:
        """Wait for its end; the exit code."""
        return self._wait(4 * PATIENCE_S)

    def _wait(self, timeout_s: float) -> int:
        code = self.process.wait(timeout_s)
        self.process.stdin.close()
        return code
