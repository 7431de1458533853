"""A command of headrace that serves HTTP, as a user starts it."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_URL = re.compile(r"http://127\.0\.0\.1:\d+")


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The URL that the command prints; it is interrupted at the end, as by Ctrl-C, and must end cleanly."""
    command = [sys.executable, "-m", "headrace", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        shown = ""
        try:
            for line in server.stderr:
                shown += line
                if found := _URL.search(line):
                    yield found[0]
                    break
            else:
                raise AssertionError(f"{' '.join(arguments)} did not start:\n{shown}")
        finally:
            server.send_signal(signal.SIGINT)
        shown += server.stderr.read()
    assert server.returncode in (0, 130), shown
