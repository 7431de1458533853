"""`headrace kafka-tools`: for each tool of Apache Kafka the command that does the same."""

from __future__ import annotations

from difflib import get_close_matches

import click

from ..kafka_tools import ToolRow, table, tool_name
from .common import NotFoundError, Settings, form_option, reading_command
from .output import print_rows

_COLUMNS = ("kafka", "headrace")


def _tools(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return sorted({row.tool for row in table() if row.tool.startswith(incomplete)})


@click.command("kafka-tools")
@click.argument("tools", nargs=-1, metavar="[TOOL…]", shell_complete=_tools)
@reading_command(form_option)
def kafka_tools(settings: Settings, *, tools: tuple[str, ...]) -> None:
    """Print the command for each tool of Apache Kafka; of TOOL, such as kafka-topics, for all its options."""
    rows = table()
    known = {row.tool for row in rows}
    wanted = [tool_name(text) for text in tools]
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise NotFoundError(f"{name!r} is no tool of Apache Kafka{hint}")
    if wanted:
        shown = [row for row in rows if row.tool in wanted]
    elif settings.form == "text":
        shown = list({row.tool: row for row in reversed(rows)}.values())[::-1]
    else:
        shown = rows
    print_rows([_row(row) for row in shown], _COLUMNS, settings.form)


def _row(row: ToolRow) -> dict[str, str | None]:
    return {
        "tool": row.tool,
        "options": row.options,
        "kafka": row.kafka,
        "command": row.command or None,
        "remark": row.remark or None,
        "headrace": row.command or f"- ({row.remark})",
    }
