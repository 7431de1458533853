"""`headrace` command lines, run in this process."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import click
import jsonschema
import pytest
from headrace.services.cli.common import Settings
from headrace.services.cli.main import cli, run
from headrace.services.cli.schema import schema_of
from headrace.services.cli.schema_table import TABLE


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
        if code == 0:
            checked(arguments, out)
        return code, out, err.decode()

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The output of a command with `-o json`. Errors: AssertionError if it exits with another code."""
        found, out, err = self(*arguments, "-o", "json")
        assert found == code, err
        return json.loads(out)


def commands(group: click.Group = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that is not a group, by its full name."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name, command


def parse_command(line: str) -> None:
    """Parse a command line, `headrace ...`, with the real commands, without running it. Errors:
    click.ClickException."""
    program, *words = shlex.split(line)
    assert program == "headrace"
    # Order: a command keeps the help options of the first context that it sees.
    context = click.Context(cli, info_name=program, obj=Settings(), **cli.context_settings)
    found: click.Command = cli
    while isinstance(found, click.Group):
        name = words.pop(0)
        step = found.get_command(context, name)
        assert step is not None, f"`headrace` has no command {line!r}"
        found = step
        if isinstance(found, click.Group):
            context = click.Context(found, info_name=name, parent=context)
    found.make_context(found.name, words, parent=context).close()


def checked(arguments: tuple[str, ...], out: str | bytes) -> None:
    """Validate the JSON that a command has printed. Errors: jsonschema.ValidationError."""
    form = _form_of(arguments)
    name = _command_of(arguments)
    if form is None or name not in TABLE:
        return
    schema = schema_of(name)
    if form == "json" and "--watch" not in arguments:
        if out.strip():
            jsonschema.validate(json.loads(out), schema)
        return
    for line in out.splitlines():
        jsonschema.validate(json.loads(line), schema if form == "json" else schema.get("items", schema))


def _form_of(arguments: tuple[str, ...]) -> str | None:
    for option, value in pairwise(arguments):
        if option in ("-o", "--output") and value in ("json", "jsonl"):
            return value
    return None


def _command_of(arguments: tuple[str, ...]) -> str:
    """The full name of the command in a command line; options before it have a value each."""
    names: list[str] = []
    found: click.Command = cli
    words = iter(arguments)
    for word in words:
        if not isinstance(found, click.Group):
            break
        if word.startswith("-"):
            if word != "--debug":
                next(words, None)
            continue
        if word not in found.commands:
            break
        found = found.commands[word]
        names.append(word)
    return " ".join(names)
