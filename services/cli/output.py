"""Output of commands: results on standard output, messages on standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OutputFormat = Literal["text", "json", "jsonl"]
OUTPUT_FORMATS: tuple[OutputFormat, ...] = ("text", "json", "jsonl")

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], form: OutputFormat) -> None:
    """Rows as a table of `columns`, as one JSON array, or as one JSON object per line (all keys)."""
    if form == "json":
        write_line(json.dumps([dict(row) for row in rows], indent=2, default=str))
    elif form == "jsonl":
        for row in rows:
            write_line(json.dumps(dict(row), default=str))
    elif sys.stdout.isatty() and not os.environ.get("NO_COLOR"):  # empty is unset: no-color.org
        _print_rich(rows, columns)
    else:
        for line in plain_table(rows, columns):
            write_line(line)


def print_object(facts: Mapping[str, Any], form: OutputFormat) -> None:
    """One object: JSON, or `name: value` lines."""
    if form == "json":
        write_line(json.dumps(dict(facts), indent=2, default=str))
    elif form == "jsonl":
        write_line(json.dumps(dict(facts), default=str))
    else:
        width = max((len(name) for name in facts), default=0)
        for name, value in facts.items():
            write_line(f"{name + ':':<{width + 1}} {_cell(value)}")


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
