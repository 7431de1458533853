"""`headrace` command lines, run in this process."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from headrace.services.cli.main import run


class CommandLine:
    """Runs command lines, with the option for the cluster at `bootstrap` if there is one.

    A call gives the exit code, standard output and standard error; `data` is standard input.
    """

    def __init__(
        self, capture: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, bootstrap: str = ""
    ) -> None:
        self._capture, self._monkeypatch = capture, monkeypatch
        self._cluster = ["-b", bootstrap] if bootstrap else []

    def at(self, bootstrap: str) -> CommandLine:
        """A CommandLine for another cluster."""
        return CommandLine(self._capture, self._monkeypatch, bootstrap)

    def __call__(self, *arguments: str, data: bytes = b"") -> tuple[int, str, str]:
        code, out, err = self.binary(*arguments, data=data)
        return code, out.decode(), err

    def binary(self, *arguments: str, data: bytes = b"") -> tuple[int, bytes, str]:
        """Like a call, with standard output as bytes."""
        self._capture.readouterr()
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = run([*self._cluster, *arguments])
        out, err = self._capture.readouterr()
        return code, out, err.decode()

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The output of a command with `-o json`. Errors: AssertionError if it exits with another code."""
        found, out, err = self(*arguments, "-o", "json")
        assert found == code, err
        return json.loads(out)
