"""`headrace kafka-tools`: for each tool of Apache Kafka the command that does the same."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from pathlib import Path

import click

from ..kafka_tools import ToolRow, table, tool_name
from ..kafka_translation import translate
from .common import NotFoundError, Settings, form_option, reading_command
from .output import note, print_rows, write_line

_COLUMNS = ("kafka", "headrace")


def _tools(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return sorted({row.tool for row in table() if row.tool.startswith(incomplete)})


@click.command(
    "kafka-tools", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("words", nargs=-1, metavar="[TOOL… | TOOL ARGUMENTS…]", shell_complete=_tools)
@reading_command(form_option)
def kafka_tools(settings: Settings, *, words: tuple[str, ...]) -> None:
    """Print the command for each tool of Apache Kafka; of TOOL, such as kafka-topics, for all its options.

    With the ARGUMENTS of a tool, translates that command line: `headrace kafka-tools kafka-topics.sh --create
    --topic orders`. Options of `kafka-tools` itself come before TOOL.
    """
    rows = table()
    known = {row.tool for row in rows}
    tools = [tool_name(text) for text in words]
    if tools and tools[0] not in known:
        close = get_close_matches(tools[0], known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise NotFoundError(f"{tools[0]!r} is no tool of Apache Kafka{hint}")
    if not known.issuperset(tools):
        _print_translation(settings, tools[0], words[1:])
        return
    if tools:
        shown = [row for row in rows if row.tool in tools]
    elif settings.is_text:
        shown = list({row.tool: row for row in reversed(rows)}.values())[::-1]
    else:
        shown = rows
    print_rows([_row(row) for row in shown], _COLUMNS, settings.form)


def _print_translation(settings: Settings, tool: str, arguments: tuple[str, ...]) -> None:
    """Errors: TranslationError; OSError for a file that the arguments name."""
    found = translate(tool, arguments, lambda path: Path(path).read_text(encoding="utf-8"))
    row = ToolRow(tool, shlex.join(arguments), found.command, found.remark)
    if not settings.is_text:
        print_rows([_row(row)], _COLUMNS, settings.form)
        return
    write_line(found.command)
    if found.remark:
        note(found.remark)


def _row(row: ToolRow) -> dict[str, str | None]:
    return {
        "tool": row.tool,
        "options": row.options,
        "kafka": row.kafka,
        "command": row.command or None,
        "remark": row.remark or None,
        "headrace": row.command or f"- ({row.remark})",
    }
