"""Generates docs/CLI.md from the commands.

`python -m headrace.services.cli_reference` (or `make docs`) writes it; a tidy test fails when it is stale.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from .cli.common import Effect, effect_of
from .cli.main import cli
from .cli.schema_table import TABLE
from .kafka_tools import table

# Options of (almost) all commands, described once.
_GLOBAL = ("bootstrap", "command_config", "config", "form", "cluster", "is_debug")


def cli_page() -> str:
    """docs/CLI.md: all commands with their arguments and options, and the table of Kafka's tools."""
    parts = [
        "# Commands\n",
        "Made by `make docs` from the commands. The option `--help` of each command prints the same;"
        " `headrace schema topic list` prints the JSON schema of `headrace topic list -o json`.\n",
        "## Options of all commands\n",
        "They stand before or after the command's name, where they have an effect.\n",
        *_options(cli, shows_global=True),
        "",
        "Exit codes: 0 success, 1 error, 2 wrong usage, 3 not found, 4 partial failure, 130 interrupted."
        " Results go to standard output, messages to standard error.\n",
        "`-o wide` adds the columns that the table leaves out, `-o name` of commands that list prints names"
        " only, for other commands; `yaml` has the data of `json`, `jsonl` a line per row. With `--watch` a"
        " command repeats until Ctrl-C, which exits with 130: on a terminal each turn replaces the one"
        " before, with `-o json` a turn is a line. Commands that last show their progress on standard error"
        " if it is a terminal, unless `-q` or a machine-readable format is given.\n",
        "`headrace kafka-tools kafka-topics.sh --create --topic orders` translates a command line of Kafka's"
        " tools; the table at the end of this page has the main uses.\n",
    ]
    for name, command in _walk(cli, ""):
        parts += _section(name, command)
    parts += ["## Tools of Apache Kafka\n", "As `headrace kafka-tools` prints it for each tool.\n"]
    parts.append("| Kafka | headrace |\n| --- | --- |")
    for row in table():
        here = f"`{_cell(row.command)}`" if row.command else "none"
        remark = f" ({_cell(row.remark)})" if row.remark else ""
        parts.append(f"| `{_cell(row.kafka)}` | {here}{remark} |")
    return "\n".join([*parts, ""])


def _walk(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name in sorted(group.commands):
        command = group.commands[name]
        found.append((f"{path}{name}", command))
        if isinstance(command, click.Group):
            found += _walk(command, f"{path}{name} ")
    return found


def _section(name: str, command: click.Command) -> list[str]:
    text = inspect.cleandoc(command.help or "").replace("\b", "").replace("\n\n\n", "\n\n")
    if isinstance(command, click.Group):
        return [f"## headrace {name}\n", f"{text}\n"]
    context = click.Context(command, info_name=name, **cli.context_settings)
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    usage = " ".join(["headrace", name, *arguments])
    facts = [*(["Changes the cluster."] if effect_of(command) is Effect.CHANGES else [])]
    facts += ["Has `-o json`."] if name in TABLE else []
    lines = [f"### {usage}\n", f"{text}\n", *([f"{' '.join(facts)}\n"] if facts else [])]
    options = _options(command)
    return [*lines, *options, ""] if options else lines


def _options(command: click.Command, *, shows_global: bool = False) -> list[str]:
    rows = []
    context = click.Context(command, **cli.context_settings)
    for each in command.params:
        if not isinstance(each, click.Option) or each.hidden or (each.name in _GLOBAL) is not shows_global:
            continue
        record = each.get_help_record(context)
        if record is not None:
            rows.append(f"| `{_cell(record[0])}` | {_cell(record[1])} |")
    return ["| option | meaning |\n| --- | --- |", *rows] if rows else []


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "CLI.md").write_text(cli_page())
