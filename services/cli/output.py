"""Output of commands: results on standard output, messages on standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OutputFormat = Literal["text", "wide", "name", "json", "jsonl", "yaml"]
OUTPUT_FORMATS: tuple[OutputFormat, ...] = ("text", "wide", "json", "jsonl", "yaml")
NAME: OutputFormat = "name"  # only of commands that list resources
TEXT_FORMATS = frozenset(("text", "wide", "name"))
ONE_LINE_JSON = "headrace.one_line_json"  # in the meta of the click context: no line breaks in JSON

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], form: OutputFormat) -> None:
    """Rows as a table of `columns`, or in one of the machine-readable formats, with all keys.

    "wide" adds the columns of all other keys with plain values, "name" prints the first column only.
    """
    if form == "jsonl":
        for row in rows:
            write_line(json.dumps(dict(row), default=str))
    elif form not in TEXT_FORMATS:
        print_value([dict(row) for row in rows], form)
    elif form == NAME:
        for name in dict.fromkeys(str(row.get(columns[0])) for row in rows):
            write_line(name)
    else:
        _print_table(rows, wide_columns(rows, columns) if form == "wide" else columns)


def print_object(facts: Mapping[str, Any], form: OutputFormat) -> None:
    """One object in a machine-readable format, or as `name: value` lines."""
    if form not in TEXT_FORMATS:
        print_value(dict(facts), form)
        return
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        write_line(f"{name + ':':<{width + 1}} {_cell(value)}")


def print_stream(rows: Iterable[Mapping[str, Any]], form: OutputFormat) -> None:
    """As `print_rows`, row by row: there may be more rows than memory. Not for text."""
    if form == "json":
        before = "["
        for row in rows:
            write_line(before + json.dumps(dict(row), default=str))
            before = ","
        write_line("[]" if before == "[" else "]")
        return
    for row in rows:
        if form == "yaml":
            print_value([dict(row)], form)
        else:
            write_line(json.dumps(dict(row), default=str))


def wide_columns(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """The columns, and the other keys whose values are neither lists nor objects."""
    others = {
        key: None
        for row in rows
        for key, value in row.items()
        if key not in columns and not isinstance(value, (list, tuple, dict))
    }
    return [*columns, *others]


def print_value(value: Any, form: OutputFormat) -> None:
    """A value as JSON, also for "jsonl" on one line, or as YAML."""
    if form == "yaml":
        import yaml

        plain = json.loads(json.dumps(value, default=str))
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
        return
    context = click.get_current_context(silent=True)
    is_one_line = form == "jsonl" or (context is not None and ONE_LINE_JSON in context.meta)
    write_line(json.dumps(value, indent=None if is_one_line else 2, default=str))


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):  # empty is unset: no-color.org
        _print_rich(rows, columns)
    else:
        for line in plain_table(rows, columns):
            write_line(line)


def plain_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Aligned columns under upper-case names, two spaces apart; numbers right-aligned."""
    body = [[row.get(column) for column in columns] for row in rows]
    head = [column.upper().replace("_", "-") for column in columns]
    texts = [head, *([_cell(value) for value in line] for line in body)]
    widths = [max(len(line[i]) for line in texts) for i in range(len(columns))]
    numeric = [
        bool(body) and all(isinstance(line[i], (int, float)) for line in body) for i in range(len(columns))
    ]
    return [
        "  ".join(_pad(*cell) for cell in zip(line, widths, numeric, strict=True)).rstrip() for line in texts
    ]


def size_text(size_bytes: float) -> str:
    """Bytes with a binary unit, such as 12.3 MiB."""
    for unit in _UNITS:
        if abs(size_bytes) < 1024 or unit == _UNITS[-1]:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    raise AssertionError("the last unit has no limit")


def shown_bytes(data: bytes | None, limit: int = 60) -> str:
    """Bytes as one line of text: printable UTF-8 as it is, escapes otherwise, cut at `limit`."""
    if data is None:
        return "(null)"
    text = data[: 4 * limit].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def write_line(text: str) -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """One message on standard error; never part of the result."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _print_rich(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        is_number = bool(rows) and all(isinstance(row.get(column), (int, float)) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    Console(soft_wrap=False).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def _pad(text: str, width: int, is_number: bool) -> str:
    return text.rjust(width) if is_number else text.ljust(width)
